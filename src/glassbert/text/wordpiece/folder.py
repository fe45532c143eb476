"""The tokenizer files of a model folder: what they say, whether they agree, and how they are written.

A folder by Google holds `vocab.txt` only; one by transformers adds `tokenizer_config.json` and
`tokenizer.json`, which say some things twice. Where two files disagree there is no way to know which one the
model was trained with, so that is an error, except in rows that no text can reach.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError, UserError
from glassbert.open_files import CONFIG, DOCUMENT, Limit
from glassbert.outputs import check_files, check_unlisted
from glassbert.sentence import Sentence
from glassbert.storage import new_files, read_json, write_atomically, write_json
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.dead_rows import dead_pieces
from glassbert.text.wordpiece.settings import DEFAULT_MAX_LENGTH, MAX_CHARACTERS_PER_WORD, TokenizerSettings
from glassbert.text.wordpiece.words import WordSplitter
from glassbert.typed import shown, typed

_VOCABULARY, _CONFIG, _ENGINE = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
_SPECIALS = "special_tokens_map.json"
_FILES = (_VOCABULARY, _ENGINE, _CONFIG, _SPECIALS)
_MODEL_FILES = ("config.json", "bert_config.json", "model.safetensors", "pytorch_model.bin")
_SPECIAL_KEYS = dict(
    zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True)
)

_TABLES = Sequence[Mapping[str, Any]]

# What transformers writes for "no limit is known" is 10^30.
_LARGEST_MAX_LENGTH = 10**9

# transformers strips this character from the rows of a vocabulary, which leaves one of bert-base-chinese
# empty. No text can give it: to BERT it is a space.
_STRIPPED = "\u2028"


def read_folder(folder: str | Path) -> tuple[Vocabulary, TokenizerSettings, tuple[str, ...]]:
    """Return the vocabulary, the settings, and what was assumed where the files do not say or disagree."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; expected a folder with {_VOCABULARY}")
    config, engine = _read_json(folder / _CONFIG), _read_json(folder / _ENGINE, limit=DOCUMENT)
    _check_specials(config, folder)
    if engine:
        _check_engine(engine, folder / _ENGINE)
    engine_pieces = _engine_pieces(engine, folder / _ENGINE) if engine else None
    vocabulary = _read_vocabulary(folder, engine_pieces)
    normalizer = _table(engine, "normalizer", folder / _ENGINE)

    def setting(key: str, engine_key: str) -> bool | None:
        return _setting(folder, config, normalizer, key, engine_key)

    assumptions: list[str] = []
    lowercase = setting("do_lower_case", "lowercase")
    if lowercase is None:
        lowercase, assumption = _guess_lowercase(vocabulary)
        assumptions.append(assumption)
    settings = TokenizerSettings(
        lowercase=lowercase,
        strip_accents=setting("strip_accents", "strip_accents"),
        tokenize_chinese_chars=setting("tokenize_chinese_chars", "handle_chinese_chars") is not False,
        max_length=_max_length(folder, config),
    )
    if engine_pieces is not None:
        assumptions += _differences(folder, vocabulary, engine_pieces, settings)
    return vocabulary, settings, tuple(assumptions)


def check_replaceable(out: str | Path, *, overwrite: bool, reads: Iterable[str | Path] = ()) -> None:
    """Refuse to write a vocabulary over another one, unless that may be replaced, or into a model.

    Args:
        reads: What the vocabulary is made of, which must not be replaced either.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    check_files((out / name for name in _FILES), reads)
    if holds_model(out):
        raise UserError(f"{out} holds a model, which another vocabulary would spoil; name another folder")
    check_unlisted(out, _FILES)
    if not overwrite and any((out / name).exists() for name in (_VOCABULARY, _ENGINE)):
        raise UserError(
            f"{out} holds a vocabulary; name another folder, or replace it: --force, overwrite=True"
        )


def holds_model(folder: str | Path) -> bool:
    """Return whether a folder holds more than a vocabulary."""
    return any((Path(folder) / name).exists() for name in _MODEL_FILES)


def write_folder(
    folder: str | Path,
    vocabulary: Vocabulary,
    settings: TokenizerSettings,
    engine_json: str,
    *,
    overwrite: bool,
) -> None:
    """Write `vocab.txt` and the three files that transformers reads beside it."""
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": settings.lowercase,
        "strip_accents": settings.strip_accents,
        "tokenize_chinese_chars": settings.tokenize_chinese_chars,
        "model_max_length": settings.max_length,
        "clean_up_tokenization_spaces": False,
        **_SPECIAL_KEYS,
    }
    with new_files(Path(folder), overwrite=overwrite) as aside:
        vocabulary.save(aside / _VOCABULARY)
        write_atomically(aside / _ENGINE, engine_json.encode("utf-8") + b"\n")
        write_json(aside / _CONFIG, config)
        write_json(aside / _SPECIALS, _SPECIAL_KEYS)


def _read_json(path: Path, *, limit: Limit = CONFIG) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one when there is no file."""
    return read_json(path, limit=limit) if path.exists() else {}


def _engine_pieces(engine: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the pieces in `tokenizer.json` by id."""
    ids = typed(engine["model"]["vocab"], Mapping[str, int], f"{path}: model.vocab", error=ModelError)
    pieces = tuple(sorted(ids, key=lambda piece: ids[piece]))
    if [ids[piece] for piece in pieces] != list(range(len(ids))):
        raise ModelError(f"{path}: the ids in model.vocab do not run from 0 without gaps")
    return pieces


def _read_vocabulary(folder: Path, engine_pieces: Sequence[str] | None) -> Vocabulary:
    """Read `vocab.txt`; without it, take the pieces of `tokenizer.json`."""
    path = folder / _VOCABULARY
    if path.exists():
        return Vocabulary.load(path)
    if engine_pieces is None:
        raise ModelError(f"{folder}: neither {_VOCABULARY} nor {_ENGINE} in it; is it a model folder?")
    return Vocabulary(tuple(piece or _STRIPPED for piece in engine_pieces))


def _differences(
    folder: Path, vocabulary: Vocabulary, engine_pieces: Sequence[str], settings: TokenizerSettings
) -> list[str]:
    """Return where `tokenizer.json` differs in rows that no text can reach; refuse any other difference."""
    pairs = list(zip(vocabulary.pieces, engine_pieces, strict=False))
    differing = [id_ for id_, (one, other) in enumerate(pairs) if one != other]
    if not differing and len(vocabulary) == len(engine_pieces):
        return []
    reached = {piece for id_ in differing for piece in pairs[id_]}
    reached -= set(dead_pieces(reached - set(SPECIALS), WordSplitter(settings)))
    if reached or len(vocabulary) != len(engine_pieces):
        raise ModelError(
            f"{folder}: {_VOCABULARY} ({len(vocabulary)} pieces) differs from model.vocab "
            f"of {_ENGINE} ({len(engine_pieces)} pieces); keep the one that the model was trained with"
        )
    first = differing[0]
    return [
        Sentence(
            "rows that no text can give do not matter: {file} differs in {count} of them, such as row {row}, "
            "{found!r} instead of {wanted!r}",
            file=_ENGINE,
            count=len(differing),
            row=first,
            found=pairs[first][1],
            wanted=pairs[first][0],
        )
    ]


def _check_engine(engine: Mapping[str, Any], path: Path) -> None:
    """Refuse a `tokenizer.json` that does anything other than BERT does."""
    model, normalizer, pre_tokenizer = (
        _table(engine, name, path) for name in ("model", "normalizer", "pre_tokenizer")
    )
    expected = {
        "model.type": (model.get("type", "WordPiece"), "WordPiece"),
        "model.unk_token": (model.get("unk_token"), "[UNK]"),
        "model.continuing_subword_prefix": (model.get("continuing_subword_prefix"), "##"),
        "model.max_input_chars_per_word": (
            model.get("max_input_chars_per_word"),
            MAX_CHARACTERS_PER_WORD,
        ),
        "normalizer.type": (normalizer.get("type"), "BertNormalizer"),
        "normalizer.clean_text": (normalizer.get("clean_text"), True),
        "pre_tokenizer.type": (pre_tokenizer.get("type"), "BertPreTokenizer"),
    }
    for key, (found, wanted) in expected.items():
        if found != wanted or type(found) is not type(wanted):
            raise ModelError(f"{path}: {key} is {shown(found)}; only {wanted!r} is supported, as BERT has it")
    if not isinstance(model.get("vocab"), dict):
        raise ModelError(f"{path}: model.vocab is missing; expected an object from piece to id")
    added = typed(engine.get("added_tokens") or (), _TABLES, f"{path}: added_tokens", error=ModelError)
    for token in added:
        content, id_ = token.get("content"), token.get("id")
        if not _is_special(content) or model["vocab"].get(content) != id_:
            raise ModelError(
                f"{path}: added token {shown(content)} (id {shown(id_)}) is not supported; "
                f"only {' '.join(SPECIALS)} with their ids of model.vocab are"
            )


def _table(content: Mapping[str, Any], name: str, path: Path) -> Mapping[str, Any]:
    """Return an object within an object; an empty one if it is missing."""
    found: Mapping[str, Any] = typed(
        content.get(name) or {}, Mapping[str, Any], f"{path}: {name}", error=ModelError
    )
    return found


def _is_special(piece: object) -> bool:
    return isinstance(piece, str) and piece in SPECIALS


def _check_specials(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse special tokens other than BERT's: we could not promise the same ids."""
    for key, special in _SPECIAL_KEYS.items():
        value = config.get(key, special)
        found = value.get("content") if isinstance(value, dict) else value
        if found != special:
            raise ModelError(f"{folder / _CONFIG}: {key} is {shown(found)}; only {special!r} is supported")
    decoder = _table(config, "added_tokens_decoder", folder / _CONFIG)
    added = [token.get("content") if isinstance(token, dict) else token for token in decoder.values()]
    added += list(_read_json(folder / "added_tokens.json"))
    for token in added:
        if not _is_special(token):
            raise ModelError(
                f"{folder}: added token {shown(token)} is not supported; "
                "put it into the vocabulary with `glassbert vocab extend`"
            )


def _setting(
    folder: Path, config: Mapping[str, Any], normalizer: Mapping[str, Any], key: str, engine_key: str
) -> bool | None:
    """Return what the files say about one switch; None when none says anything."""
    found: dict[str, bool] = {}
    for name, source, source_key in ((_CONFIG, config, key), (_ENGINE, normalizer, engine_key)):
        value = source.get(source_key)
        if value is None:
            continue
        if not isinstance(value, bool):
            raise ModelError(f"{folder / name}: {source_key} is {shown(value)}; expected true or false")
        found[name] = value
    if len(set(found.values())) > 1:
        raise ModelError(
            f"{folder}: {key} is {found[_CONFIG]} in {_CONFIG}, "
            f"but {engine_key} is {found[_ENGINE]} in {_ENGINE}; "
            "correct the one that the model was not trained with"
        )
    return next(iter(found.values()), None)


def _max_length(folder: Path, config: Mapping[str, Any]) -> int:
    """Return the smallest limit that the folder names: the tokenizer's own, or the model's position table."""
    limits = {
        _CONFIG: config.get("model_max_length"),
        "config.json": _read_json(folder / "config.json").get("max_position_embeddings"),
    }
    known = []
    for name, limit in limits.items():
        if limit is None:
            continue
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not 1 <= limit < inf:
            raise ModelError(
                f"{folder / name}: the length limit is {shown(limit)}; expected a positive number"
            )
        known.append(int(limit))
    smallest = min(known, default=DEFAULT_MAX_LENGTH)
    return smallest if smallest < _LARGEST_MAX_LENGTH else DEFAULT_MAX_LENGTH


def _guess_lowercase(vocabulary: Vocabulary) -> tuple[bool, str]:
    """Guess from the pieces whether text is lower-cased: no word of such a vocabulary has a capital letter.

    Only words count: the released lower-cased Chinese vocabulary holds `<S>` and `<T>`.
    """
    for piece in vocabulary.pieces:
        word = piece.removeprefix("##")
        if word.isascii() and word.isalpha() and not word.islower():
            return False, Sentence(
                "text is not lower-cased: no file says so, but the vocabulary holds {piece!r}", piece=piece
            )
    return True, Sentence(
        "text is lower-cased: no file says so, but no word of the vocabulary has a capital letter"
    )

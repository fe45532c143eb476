"""The tokenizer files of a model folder: what they say, whether they agree, and how they are written.

A folder by Google holds `vocab.txt` only; one by transformers adds `tokenizer_config.json` and
`tokenizer.json`, which say some things twice. Where two files disagree nobody can know which one the model
was trained with, so that is an error here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError
from glassbert.storage import read_json, write_atomically, write_json
from glassbert.text.vocabulary import SPECIALS, Vocabulary

DEFAULT_MAX_LENGTH = 512

_VOCABULARY, _CONFIG, _ENGINE = "vocab.txt", "tokenizer_config.json", "tokenizer.json"
_SPECIAL_KEYS = dict(
    zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIALS, strict=True)
)

# What transformers writes for "no limit is known" is 10^30.
_LARGEST_MAX_LENGTH = 10**9


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """The rules that a vocabulary alone does not tell."""

    lowercase: bool = True
    strip_accents: bool | None = None
    """None means as ``lowercase``."""
    tokenize_chinese_chars: bool = True
    max_length: int = DEFAULT_MAX_LENGTH


def read_folder(folder: Path) -> tuple[Vocabulary, TokenizerSettings, tuple[str, ...]]:
    """Return the vocabulary, the settings, and what had to be assumed since no file says it."""
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder; a folder with {_VOCABULARY} is expected")
    config, engine = _read_json(folder / _CONFIG), _read_json(folder / _ENGINE)
    _check_specials(config, folder)
    if engine:
        _check_engine(engine, folder / _ENGINE)
    vocabulary = _read_vocabulary(folder, engine)
    normalizer = engine.get("normalizer") or {}

    def setting(key: str, engine_key: str) -> bool | None:
        return _setting(folder, config, normalizer, key, engine_key)

    assumptions: tuple[str, ...] = ()
    lowercase = setting("do_lower_case", "lowercase")
    if lowercase is None:
        lowercase, assumption = _guess_lowercase(vocabulary)
        assumptions = (assumption,)
    settings = TokenizerSettings(
        lowercase=lowercase,
        strip_accents=setting("strip_accents", "strip_accents"),
        tokenize_chinese_chars=setting("tokenize_chinese_chars", "handle_chinese_chars") is not False,
        max_length=_max_length(folder, config),
    )
    return vocabulary, settings, assumptions


def write_folder(folder: Path, vocabulary: Vocabulary, settings: TokenizerSettings, engine_json: str) -> None:
    """Write `vocab.txt` and the three files that transformers reads beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": settings.lowercase,
        "strip_accents": settings.strip_accents,
        "tokenize_chinese_chars": settings.tokenize_chinese_chars,
        "model_max_length": settings.max_length,
        "clean_up_tokenization_spaces": False,
        **_SPECIAL_KEYS,
    }
    vocabulary.save(folder / _VOCABULARY)
    write_atomically(folder / _ENGINE, engine_json.encode("utf-8") + b"\n")
    write_json(folder / _CONFIG, config)
    write_json(folder / "special_tokens_map.json", _SPECIAL_KEYS)


def _read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty one when there is no file."""
    return read_json(path) if path.exists() else {}


def _read_vocabulary(folder: Path, engine: Mapping[str, Any]) -> Vocabulary:
    """Read `vocab.txt`, or the same from `tokenizer.json`; when both are there they must agree."""
    path = folder / _VOCABULARY
    if not engine and not path.exists():
        raise ModelError(f"{folder}: holds neither {_VOCABULARY} nor {_ENGINE}; is it a model folder?")
    if not engine:
        return Vocabulary.load(path)
    ids: dict[str, int] = engine["model"]["vocab"]
    pieces = tuple(sorted(ids, key=lambda piece: ids[piece]))
    if [ids[piece] for piece in pieces] != list(range(len(ids))):
        raise ModelError(f"{folder / _ENGINE}: the ids in model.vocab do not run from 0 without gaps")
    if not path.exists():
        return Vocabulary(pieces)
    vocabulary = Vocabulary.load(path)
    if vocabulary.pieces != pieces:
        raise ModelError(
            f"{folder}: {_VOCABULARY} ({len(vocabulary)} pieces) differs from model.vocab "
            f"of {_ENGINE} ({len(pieces)} pieces); keep the one that the model was trained with"
        )
    return vocabulary


def _check_engine(engine: Mapping[str, Any], path: Path) -> None:
    """Refuse a `tokenizer.json` that does anything else than BERT does."""
    model, normalizer = engine.get("model") or {}, engine.get("normalizer") or {}
    expected = {
        "model.type": (model.get("type", "WordPiece"), "WordPiece"),
        "model.unk_token": (model.get("unk_token"), "[UNK]"),
        "model.continuing_subword_prefix": (model.get("continuing_subword_prefix"), "##"),
        "model.max_input_chars_per_word": (model.get("max_input_chars_per_word"), 100),
        "normalizer.type": (normalizer.get("type"), "BertNormalizer"),
        "normalizer.clean_text": (normalizer.get("clean_text"), True),
        "pre_tokenizer.type": ((engine.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer"),
    }
    for key, (found, wanted) in expected.items():
        if found != wanted:
            raise ModelError(f"{path}: {key} is {found!r}; only {wanted!r} is supported, as BERT has it")
    if not isinstance(model.get("vocab"), dict):
        raise ModelError(f"{path}: model.vocab is missing; an object from piece to id is expected")
    for token in engine.get("added_tokens") or ():
        if token.get("content") not in SPECIALS or model["vocab"].get(token["content"]) != token.get("id"):
            raise ModelError(
                f"{path}: added token {token.get('content')!r} (id {token.get('id')}) is not supported; "
                f"only {' '.join(SPECIALS)} with their ids of model.vocab are"
            )


def _check_specials(config: Mapping[str, Any], folder: Path) -> None:
    """Refuse special tokens other than BERT's: we could not promise the same ids."""
    for key, special in _SPECIAL_KEYS.items():
        value = config.get(key, special)
        found = value.get("content") if isinstance(value, dict) else value
        if found != special:
            raise ModelError(f"{folder / _CONFIG}: {key} is {found!r}; only {special!r} is supported")
    added = [token.get("content") for token in (config.get("added_tokens_decoder") or {}).values()]
    added += list(_read_json(folder / "added_tokens.json"))
    for token in added:
        if token not in SPECIALS:
            raise ModelError(
                f"{folder}: added token {token!r} is not supported; "
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
            raise ModelError(f"{folder / name}: {source_key} is {value!r}; true or false is expected")
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
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1:
            raise ModelError(f"{folder / name}: the length limit is {limit!r}; a positive number is expected")
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
            return False, f"text is not lower-cased: no file says so, but the vocabulary holds {piece!r}"
    return True, "text is lower-cased: no file says so, but no word of the vocabulary has a capital letter"

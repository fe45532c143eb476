import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glassbert.errors import ModelError, UserError
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.folder import check_replaceable, holds_model
from glassbert.text.wordpiece.settings import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import Tokenizer

VOCABULARY = Vocabulary((*SPECIALS, "hello", "##s", "é", "e", "北", ",", "Hello"))
TEXT = "Hello, HELLOS é E 北北 [MASK]"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Tokenizer(VOCABULARY, lowercase=False, max_length=128).save(tmp_path / "saved")
    return tmp_path / "saved"


def change(path: Path, edit: Callable[[Any], object]) -> None:
    value = json.loads(path.read_text(encoding="utf-8"))
    edit(value)
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.mark.parametrize(
    "settings",
    [
        TokenizerSettings(),
        TokenizerSettings(lowercase=False, max_length=64),
        TokenizerSettings(strip_accents=False, tokenize_chinese_chars=False),
        TokenizerSettings(lowercase=False, strip_accents=True),
    ],
)
def test_a_saved_tokenizer_loads_as_the_same(tmp_path: Path, settings: TokenizerSettings) -> None:
    tokenizer = Tokenizer(VOCABULARY, **vars(settings))
    tokenizer.save(tmp_path / "deep" / "folder")
    again = Tokenizer.load(tmp_path / "deep" / "folder")
    assert (again.vocabulary, again.settings, again.assumptions) == (VOCABULARY, settings, ())
    assert again.encode(TEXT, TEXT) == tokenizer.encode(TEXT, TEXT)
    names = {path.name for path in (tmp_path / "deep" / "folder").iterdir()}
    ours = ".glassbert-files.json"  # what may be replaced
    assert names == {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", ours}


def test_each_file_alone_is_enough_for_what_it_says(folder: Path) -> None:
    (folder / "vocab.txt").unlink()
    (folder / "tokenizer_config.json").unlink()
    tokenizer = Tokenizer.load(folder)
    assert (tokenizer.vocabulary, tokenizer.settings.lowercase) == (VOCABULARY, False)
    assert (tokenizer.assumptions, tokenizer.max_length) == ((), 512)


def test_a_bare_vocabulary_is_read_with_an_assumption_about_capitals(tmp_path: Path) -> None:
    VOCABULARY.save(tmp_path / "vocab.txt")
    cased = Tokenizer.load(tmp_path)
    assert not cased.settings.lowercase
    assert cased.assumptions == (
        "text is not lower-cased: no file says so, but the vocabulary holds 'Hello'",
    )
    # The released Chinese vocabulary lower-cases, and holds two pieces such as these.
    (tmp_path / "vocab.txt").unlink()
    Vocabulary((*SPECIALS, "<S>", "[X]", "hello")).save(tmp_path / "vocab.txt")
    lowered = Tokenizer.load(tmp_path)
    assert lowered.settings.lowercase
    assert "text is lower-cased" in lowered.assumptions[0]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    by_config = Tokenizer.load(tmp_path)
    assert (by_config.settings.lowercase, by_config.assumptions) == (False, ())


@pytest.mark.parametrize(
    ("model_max_length", "positions", "limit"),
    [
        (128, 512, 128),
        (512, 40, 40),
        (None, 64, 64),
        (10**30, None, 512),
        (1e30, 256, 256),
        (None, None, 512),
    ],
)
def test_the_smallest_limit_that_the_folder_names_holds(
    folder: Path, model_max_length: float | None, positions: int | None, limit: int
) -> None:
    change(folder / "tokenizer_config.json", lambda c: c.update(model_max_length=model_max_length))
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": positions}))
    assert Tokenizer.load(folder).max_length == limit


CONFIG, ENGINE = "tokenizer_config.json", "tokenizer.json"


@pytest.mark.parametrize(
    ("name", "edit", "message"),
    [
        (CONFIG, lambda c: c.update(do_lower_case=True), "do_lower_case is True in .* lowercase is False in"),
        (CONFIG, lambda c: c.update(tokenize_chinese_chars=False), "tokenize_chinese_chars is False in"),
        (CONFIG, lambda c: c.update(do_lower_case="yes"), "do_lower_case is 'yes'; expected true or false"),
        (CONFIG, lambda c: c.update(cls_token="<s>"), "cls_token is '<s>'; only '\\[CLS\\]'"),
        (CONFIG, lambda c: c.update(model_max_length=0), "length limit is 0"),
        (CONFIG, lambda c: c.update(added_tokens_decoder={"9": {"content": "<x>"}}), "added token '<x>'"),
        (ENGINE, lambda e: e["model"].update(type="BPE"), "model.type is 'BPE'; only 'WordPiece'"),
        (ENGINE, lambda e: e["model"].update(max_input_chars_per_word=50), "max_input_chars_per_word is 50"),
        (ENGINE, lambda e: e["model"]["vocab"].pop("é"), "do not run from 0 without gaps"),
        (
            ENGINE,
            lambda e: e["model"]["vocab"].pop("Hello"),
            r"vocab.txt \(12 pieces\) differs .*\(11 pieces\)",
        ),
        (ENGINE, lambda e: e["model"].pop("vocab"), "model.vocab is missing"),
        (ENGINE, lambda e: e.update(normalizer=None), "normalizer.type is None"),
        (
            ENGINE,
            lambda e: e.update(pre_tokenizer={"type": "Whitespace"}),
            "pre_tokenizer.type is 'Whitespace'",
        ),
        (ENGINE, lambda e: e["added_tokens"].append({"content": "<x>", "id": 12}), "added token '<x>'"),
    ],
)
def test_files_that_contradict_bert_or_each_other_are_refused(
    folder: Path, name: str, edit: Callable[[Any], object], message: str
) -> None:
    change(folder / name, edit)
    with pytest.raises(ModelError, match=message) as raised:
        Tokenizer.load(folder)
    assert "\n" not in str(raised.value)


def test_specials_written_as_objects_are_understood(folder: Path) -> None:
    change(folder / CONFIG, lambda c: c.update(mask_token={"content": "[MASK]", "lstrip": False}))
    assert Tokenizer.load(folder).vocabulary == VOCABULARY


def test_a_folder_without_a_vocabulary_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="nope: no such folder"):
        Tokenizer.load(tmp_path / "nope")
    with pytest.raises(ModelError, match="neither vocab.txt nor tokenizer.json in it"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{not json")
    with pytest.raises(ModelError, match=r"tokenizer\.json: not JSON"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("[1]")
    with pytest.raises(ModelError, match=r"tokenizer\.json: expected a JSON object, got a list"):
        Tokenizer.load(tmp_path)


def rename(vocabulary: dict[str, int], old: str, new: str) -> None:
    vocabulary[new] = vocabulary.pop(old)


def test_a_difference_in_a_row_that_no_text_can_give_is_reported_and_not_refused(tmp_path: Path) -> None:
    Tokenizer(Vocabulary((*SPECIALS, "a", "\u2028", "##\u2028"))).save(tmp_path)
    change(tmp_path / ENGINE, lambda e: rename(e["model"]["vocab"], "\u2028", ""))
    change(tmp_path / ENGINE, lambda e: rename(e["model"]["vocab"], "##\u2028", "##"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.vocabulary.pieces[5:] == ("a", "\u2028", "##\u2028")
    assert tokenizer.assumptions == (
        "rows that no text can give do not matter: tokenizer.json differs in 2 of them, such as row 6, '' "
        "instead of '\\u2028'",
    )


@pytest.mark.parametrize(
    ("old", "new"), [("a", "b"), ("\u2028", "b"), ("a", "\u2029"), ("[unused1]", "b"), ("##c", "##d")]
)
def test_a_difference_in_a_row_that_text_can_give_is_refused(tmp_path: Path, old: str, new: str) -> None:
    Tokenizer(Vocabulary((*SPECIALS, "[unused1]", "a", "##c", "\u2028"))).save(tmp_path)
    change(tmp_path / ENGINE, lambda e: rename(e["model"]["vocab"], old, new))
    with pytest.raises(ModelError, match=r"vocab.txt \(9 pieces\) differs from model.vocab"):
        Tokenizer.load(tmp_path)


def test_specials_in_another_order_are_refused(tmp_path: Path) -> None:
    Tokenizer(Vocabulary((*SPECIALS, "a"))).save(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    Vocabulary(("[UNK]", "[PAD]", *SPECIALS[2:], "a")).save(tmp_path / "vocab.txt")
    with pytest.raises(ModelError, match="differs from model.vocab"):
        Tokenizer.load(tmp_path)


def test_an_empty_row_of_tokenizer_json_alone_is_read_and_reported(tmp_path: Path) -> None:
    Tokenizer(Vocabulary((*SPECIALS, "a", "\u2028"))).save(tmp_path)
    change(tmp_path / ENGINE, lambda e: rename(e["model"]["vocab"], "\u2028", ""))
    (tmp_path / "vocab.txt").unlink()
    tokenizer = Tokenizer.load(tmp_path)
    assert len(tokenizer) == 7
    assert "tokenizer.json differs in 1 of them, such as row 6" in tokenizer.assumptions[0]


def test_a_vocabulary_is_replaced_only_if_asked_and_never_within_a_model(folder: Path) -> None:
    with pytest.raises(UserError, match="holds a vocabulary; .*--force"):
        check_replaceable(str(folder), overwrite=False)
    check_replaceable(folder, overwrite=True)
    (folder / "config.json").write_text("{}")
    assert holds_model(folder)
    with pytest.raises(UserError, match="holds a model"):
        check_replaceable(folder, overwrite=True)
    with pytest.raises(UserError, match="is a file"):
        check_replaceable(folder / "vocab.txt", overwrite=True)

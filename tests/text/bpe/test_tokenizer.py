import gzip
import json
import re
import threading
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.errors import ModelError, UserError
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.pieces import BYTES, SPECIALS, WORD
from glassbert.text.bpe.tokenizer import SubwordTokenizer

TEXTS = [
    "The river is wide, and the boat isn't; wider rivers need wider boats.",
    "\u00bfC\u00f3mo est\u00e1s? El r\u00edo es ancho, y el barco no lo es; \u00a1qu\u00e9 r\u00edo!",
    "今天天气很好，我们一起去公园散步。今天的公园很大，天气很好。",
    "It costs $12.50 in 2024, the others cost 7 each.",
]
ODD = [
    "",
    " ",
    "   ",
    " leading and trailing ",
    "two  spaces\tand\ta tab",
    "\u00a0\u2003\u3000 other spaces \u2028",
    "line\nbreak\r\nand \x00 \x7f controls",
    "\u2581 is not a space, nor is \u2581\u2581",
    "<pad></s><unk><0x41> are only text",
    "emoji \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f44d\U0001f3fd \u2764\ufe0f",
    "e\u0301 and \u00e9 differ, as do \ufb01 and fi, K and \u212a",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\U00020000\U0001f600",
    "'quoted' rock'n'roll dogs' \u2019tis l\u2019homme ''",
    "\ufffd \uffff \U0010ffff",
    "mixed\u4e2d\u6587English123\uff14\uff15and...!?",
    "a" * 300,
    "\u0915\u094d\u0937 \u0e44\u0e17\u0e22 \u0639\u0631\u0628\u064a\u060c",
]


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return learn_subwords(TEXTS * 3, SubwordSettings(size=410, max_alphabet=90)).tokenizer


@pytest.fixture(scope="module")
def engine(tokenizer: SubwordTokenizer, tmp_path_factory: pytest.TempPathFactory) -> tokenizers.Tokenizer:
    folder = tmp_path_factory.mktemp("engine")
    tokenizer.save(folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def reference_ids(tokenizer: SubwordTokenizer, text: str) -> list[int]:
    """Apply the merges one after the other to the whole word, as they are learned."""
    ids = {piece: id_ for id_, piece in enumerate(tokenizer.pieces)}
    result = []
    for word in re.findall(WORD, f" {text}") if text else []:
        spelled = []
        for character in word:
            known = character in ids
            spelled += [character] if known else [f"<0x{byte:02X}>" for byte in character.encode("utf-8")]
        for left, right in tokenizer.merges:
            index = 0
            while index < len(spelled) - 1:
                if (spelled[index], spelled[index + 1]) == (left, right):
                    spelled[index : index + 2] = [left + right]
                index += 1
        result += [ids[piece] for piece in spelled]
    return result


@pytest.mark.parametrize("text", [*TEXTS, *ODD])
def test_text_is_decoded_exactly(tokenizer: SubwordTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.ids_of(text)) == text


@given(st.text())
@settings(max_examples=500, deadline=None)
def test_any_unicode_is_decoded_exactly(tokenizer: SubwordTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.ids_of(text)) == text


@given(st.text(alphabet=" abc\t'\u2019.,\u00e9\u4e2d0\u2581\U0001f600<>x", max_size=30))
@settings(max_examples=300, deadline=None)
def test_hard_mixtures_are_decoded_exactly(tokenizer: SubwordTokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.ids_of(text)) == text


@given(st.one_of(st.text(), st.text(alphabet="theriv wdboasn'.,\u4eca\u5929\u6c14\u5f882")))
@settings(max_examples=200, deadline=None)
def test_pieces_are_those_of_the_reference_and_of_the_saved_engine(
    tokenizer: SubwordTokenizer, engine: tokenizers.Tokenizer, text: str
) -> None:
    ids = tokenizer.ids_of(text)
    assert ids == reference_ids(tokenizer, text)
    assert ids == engine.encode(text, add_special_tokens=False).ids
    assert engine.decode(ids, skip_special_tokens=False) == text


@pytest.mark.parametrize("text", [*TEXTS, *ODD])
def test_real_and_odd_text_has_the_pieces_of_the_reference(
    tokenizer: SubwordTokenizer, engine: tokenizers.Tokenizer, text: str
) -> None:
    assert tokenizer.ids_of(text) == reference_ids(tokenizer, text)
    assert tokenizer.ids_of(text) == engine.encode(text, add_special_tokens=False).ids


def test_words_include_their_space_and_digits_are_single() -> None:
    cases = {
        " Hello,  you don't say 2024!": [
            " Hello",
            ",",
            " ",
            " you",
            " don't",
            " say",
            " 2",
            "0",
            "2",
            "4",
            "!",
        ],
        " \u00bfC\u00f3mo?": [" \u00bf", "C\u00f3mo", "?"],
        " \u4eca\u5929\u5f88\u597d\uff0c\u597d": [" \u4eca\u5929\u5f88\u597d", "\uff0c", "\u597d"],
        " 'tis\tx_y": [" '", "tis", "\t", "x", "_", "y"],
    }
    for text, words in cases.items():
        assert re.findall(WORD, text) == words


def test_a_frequent_word_is_one_piece_with_its_space(tokenizer: SubwordTokenizer) -> None:
    # The first word of a text is spelled as one in the middle of it: a space is put before the text.
    river, the_river = tokenizer.ids_of("river"), tokenizer.ids_of("the river")
    assert the_river[-len(river) :] == river
    assert tokenizer.shown(tokenizer.ids_of("the wider")) == ["\u2581the", "\u2581wider"]


def test_a_character_without_a_row_is_spelled_by_its_bytes(tokenizer: SubwordTokenizer) -> None:
    shown = tokenizer.shown(tokenizer.ids_of("\U0001f600"))
    assert shown == ["\u2581", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]


def test_bytes_that_are_not_utf8_do_not_stop_decoding(tokenizer: SubwordTokenizer) -> None:
    first = len(SPECIALS)
    assert tokenizer.decode([first + 0xF0, first + 0x9F, *tokenizer.ids_of("a")[-1:]]).startswith("\ufffd")


def test_specials_leave_no_trace_in_the_text(tokenizer: SubwordTokenizer) -> None:
    ids = tokenizer.ids_of("a boat")
    assert tokenizer.decode([tokenizer.pad_id, *ids, tokenizer.end_id]) == "a boat"


def test_lone_surrogates_become_the_replacement_character(tokenizer: SubwordTokenizer) -> None:
    assert tokenizer.decode(tokenizer.ids_of("a\ud800b")) == "a\ufffdb"


@pytest.mark.parametrize("id_", [-1, 410])
def test_ids_of_another_vocabulary_are_refused(tokenizer: SubwordTokenizer, id_: int) -> None:
    with pytest.raises(UserError, match=f"id {id_} is outside the vocabulary of 410 pieces"):
        tokenizer.decode([id_])


def test_one_string_in_place_of_many_is_refused(tokenizer: SubwordTokenizer) -> None:
    with pytest.raises(UserError, match="texts='text'; expected a list of str; wrap it in a list"):
        tokenizer.ids_of_batch("text")


def test_threads_share_a_vocabulary(tokenizer: SubwordTokenizer) -> None:
    texts = [*TEXTS, *ODD] * 5
    expected = tokenizer.ids_of_batch(texts)
    fresh = SubwordTokenizer(tokenizer.pieces, tokenizer.merges)
    found: list[list[list[int]]] = []
    threads = [threading.Thread(target=lambda: found.append(fresh.ids_of_batch(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_saved_vocabulary_is_the_same_when_loaded(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    SubwordTokenizer(tokenizer.pieces, tokenizer.merges, max_length=77).save(tmp_path)
    loaded = SubwordTokenizer.load(tmp_path)
    assert (loaded.pieces, loaded.merges, loaded.max_length) == (tokenizer.pieces, tokenizer.merges, 77)
    assert loaded.sha256 == tokenizer.sha256


def test_transformers_reads_the_saved_vocabulary(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert theirs(text)["input_ids"] == [*tokenizer.ids_of(text), tokenizer.end_id]
        assert theirs.decode(tokenizer.ids_of(text)) == text


def damaged(folder: Path, **changes: object) -> None:
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model"] |= changes
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_vocabulary_that_cannot_spell_every_text_is_refused(
    tokenizer: SubwordTokenizer, tmp_path: Path
) -> None:
    tokenizer.save(tmp_path)
    vocab = {piece: id_ for id_, piece in enumerate(tokenizer.pieces)}
    del vocab["<0x41>"]
    vocab["A?"] = len(SPECIALS) + 0x41
    damaged(tmp_path, vocab=vocab)
    with pytest.raises(ModelError, match=r"piece 68 is 'A\?'; expected '<0x41>': .* cannot be spelled"):
        SubwordTokenizer.load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"type": "WordPiece"}, "model.type is 'WordPiece'; only 'BPE' is supported"),
        ({"byte_fallback": False}, "model.byte_fallback is False"),
        ({"vocab": {"<pad>": 0, "</s>": 2}}, "not 0 to 1, each once"),
        ({"vocab": None}, "is damaged"),
        ({"merges": [["q", "\u00ff"]]}, "needs the piece"),
    ],
)
def test_a_damaged_folder_is_refused(
    tokenizer: SubwordTokenizer, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    tokenizer.save(tmp_path)
    damaged(tmp_path, **changes)
    with pytest.raises(ModelError, match=re.escape(message)):
        SubwordTokenizer.load(tmp_path)


def test_a_folder_without_a_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        SubwordTokenizer.load(tmp_path)


def test_pieces_that_no_merge_makes_are_refused() -> None:
    with pytest.raises(ModelError, match="no merge makes 'ab'"):
        SubwordTokenizer([*SPECIALS, *BYTES, "a", "b", "ab"], [])
    with pytest.raises(ModelError, match="'a' occurs twice"):
        SubwordTokenizer([*SPECIALS, *BYTES, "a", "a"], [])


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_a_hundred_thousand_real_lines_are_decoded_exactly(shared_data: Path, side: int) -> None:
    with gzip.open(shared_data / "translate" / "en-es.train.tsv.gz", "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    tokenizer = learn_subwords((text for row in rows for text in row), SubwordSettings(size=8000)).tokenizer
    texts = [row[side] for row in rows[:100_000]]
    assert len(texts) == 100_000
    encoded = tokenizer.ids_of_batch(texts)
    assert [tokenizer.decode(ids) for ids in encoded] == texts
    assert sum(map(len, encoded)) / len(texts) < 12


@pytest.mark.slow
def test_chinese_wikipedia_is_decoded_exactly(shared_data: Path) -> None:
    with gzip.open(shared_data / "corpus" / "zhwiki.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [
            line
            for _, row in zip(range(600), file, strict=False)
            for line in json.loads(row)["text"].split("\n")
        ]
    tokenizer = learn_subwords(lines, SubwordSettings(size=12_000)).tokenizer
    assert [tokenizer.decode(ids) for ids in tokenizer.ids_of_batch(lines)] == lines


def test_a_missing_file_of_settings_is_named(tokenizer: SubwordTokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    (tmp_path / "tokenizer_config.json").unlink()
    with pytest.raises(ModelError, match=r"^no tokenizer_config\.json in "):
        SubwordTokenizer.load(tmp_path)

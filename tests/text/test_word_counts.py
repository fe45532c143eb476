import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassbert.errors import DataError
from glassbert.text import word_counts
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.word_counts import (
    CJK,
    Block,
    WordSplitter,
    block_texts,
    count_words,
    input_files,
    read_blocks,
)
from glassbert.text.wordpiece.folder import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import Tokenizer

UNCASED, CASED = TokenizerSettings(), TokenizerSettings(lowercase=False)
ALL_SETTINGS = [
    UNCASED,
    CASED,
    TokenizerSettings(lowercase=False, strip_accents=True),
    TokenizerSettings(strip_accents=False),
    TokenizerSettings(tokenize_chinese_chars=False),
]
# Few characters, so that words repeat: case, accents in both forms, punctuation of both widths, CJK, kana,
# spaces of all sorts, controls that `str.split` takes for spaces, surrogates.
AWKWARD = (
    "aAéÉe\u0301İß1_-'。，中国\uf900\U00020bb7\U0002b830〇カ"
    " \t\n\r\u3000\u00a0\u2028\u200b\x0b\x1c\x85\x00\ufffd\ud800"
)


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("rules", ALL_SETTINGS)
@given(text=st.text(alphabet=AWKWARD, max_size=40))
@example("Déjà-vu,北京A股e\x1cx e\x85y")
@settings(max_examples=100, deadline=None)
def test_fast_counting_gives_what_cutting_the_whole_text_gives(rules: TokenizerSettings, text: str) -> None:
    splitter = WordSplitter(rules)
    assert splitter.count(text) == Counter(splitter.words(text))


@given(text=st.text(alphabet=AWKWARD, max_size=40))
@settings(max_examples=100, deadline=None)
def test_words_are_those_that_the_tokenizer_sees(text: str) -> None:
    characters = {character for word in WordSplitter(UNCASED).words(text) for character in word}
    pieces = sorted(characters) + sorted(f"##{character}" for character in characters)
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *pieces)))
    words = WordSplitter(tokenizer.settings).words(text)
    assert tokenizer.pieces_of(text).ids == [id_ for word in words for id_ in tokenizer.pieces_of(word).ids]


def test_cjk_characters_are_exactly_those_that_the_engine_sets_apart() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    splitter = WordSplitter(CASED)
    words = splitter.words(" ".join(f"a{character}b" for character in characters if character.isprintable()))
    apart = {
        word
        for word, before, after in zip(words[1:], words, words[2:], strict=False)
        if before == "a" and after == "b"
    }
    is_cjk = re.compile(f"[{CJK}]").fullmatch
    letters = {character for character in apart if character.isalpha()}
    assert {character for character in characters if is_cjk(character) and character.isprintable()} == letters


def test_a_folder_stands_for_its_files_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", ".hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert input_files([tmp_path]) == [tmp_path / "a.txt", tmp_path / "a/z.txt", tmp_path / "b.txt"]


def test_a_missing_file_is_told_before_any_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nope"):
        input_files([write(tmp_path / "a.txt", "a"), tmp_path / "nope.txt"])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no file"):
        input_files([tmp_path])


def test_blocks_hold_all_lines_once_and_know_their_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 4)
    path = write(tmp_path / "a.txt", "ab", "cd", "efghij", "k")
    assert list(read_blocks(path)) == [
        Block(path, 1, ("ab", "cd")),
        Block(path, 3, ("efghij",)),
        Block(path, 4, ("k",)),
    ]


def test_json_lines_give_their_text_only() -> None:
    block = Block(Path("a.jsonl.gz"), 1, (json.dumps({"title": "no", "text": "yes"}), "", '{"text": "也"}'))
    assert block_texts(block) == ["yes", "也"]


@pytest.mark.parametrize("line", ["{", "[]", '{"text": 1}', '{"title": "a"}'])
def test_a_bad_json_line_is_named(line: str) -> None:
    with pytest.raises(DataError, match=r"^a\.jsonl:8: .*\"text\"|^a\.jsonl:8: .*object"):
        block_texts(Block(Path("a.jsonl"), 7, ('{"text": ""}', line)))


def test_plain_packed_and_json_files_count_the_same(tmp_path: Path) -> None:
    lines = ("The cat, the CAT.", "今天天气很好 cat")
    plain = write(tmp_path / "a.txt", *lines)
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    rows = write(tmp_path / "a.jsonl", *(json.dumps({"text": line}) for line in lines))
    counts = [count_words([file], UNCASED, max_words=100) for file in (plain, packed, rows)]
    assert counts[0].words == Counter({"cat": 3, "the": 2, "天": 2} | dict.fromkeys(",.今气很好", 1))
    assert counts[0].characters["t"] == 5
    assert counts[0].num_words == 13
    assert counts[0] == counts[1] == counts[2]


def test_bytes_that_are_not_utf8_are_named_with_file_line_and_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nba\xff\n")
    with pytest.raises(DataError, match=r"a\.txt:2: byte 3 \(0xff\)"):
        count_words([tmp_path / "a.txt"], UNCASED, max_words=100)


def test_pruning_drops_whole_groups_of_the_rarest_words_and_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 1)
    path = write(tmp_path / "a.txt", "a a a b b c c d", "e a", "d")
    counts = count_words([path], UNCASED, max_words=4)
    # The second line brings the fifth word. Two may stay: d and e go, and then b and c, which are equals.
    assert counts.words == {"a": 4, "d": 1}
    assert (counts.num_pruned_words, counts.num_pruned_occurrences) == (4, 6)
    assert counts.num_words == 11
    assert counts.characters == Counter("aaabbccdead")


def test_progress_ends_at_the_size_of_the_files(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.txt", "a b"), write(tmp_path / "b.txt", "中文")]
    calls: list[tuple[int, int, str]] = []
    count_words(files, UNCASED, max_words=100, on_progress=lambda *call: calls.append(call))
    assert calls == [(4, 11, "count words"), (11, 11, "count words")]

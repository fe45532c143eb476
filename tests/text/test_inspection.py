from pathlib import Path

import pytest

from glassbert.errors import DataError
from glassbert.text.inspection import KindCount, inspect_text, inspect_vocabulary
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer


def tokenizer(*pieces: str, lowercase: bool = True) -> Tokenizer:
    return Tokenizer(Vocabulary((*SPECIALS, *pieces)), lowercase=lowercase)


def test_rows_are_counted_by_kind() -> None:
    pieces = [
        "[unused1]",
        "the",
        "##ing",
        "中",
        "国",
        "##国",
        "19",
        "##84",
        "。",
        "##!",
        "α",
        "×",
        "gpt2",
        "あ",
    ]
    report = inspect_vocabulary(tokenizer(*pieces))
    assert (report.size, report.cased, report.num_unused) == (19, False, 1)
    assert report.specials == {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    assert report.kinds == {
        "cjk": KindCount(2, 1),
        "digits": KindCount(1, 1),
        "latin": KindCount(1, 1),
        "punctuation": KindCount(1, 1),
        "greek": KindCount(1, 0),
        "hiragana": KindCount(1, 0),
        "mixed": KindCount(1, 0),
        "symbols": KindCount(1, 0),
    }


@pytest.mark.parametrize(
    ("piece", "reason"),
    [
        ("##国", "cjk_continuation"),
        ("##.", "cut"),
        ("...", "cut"),
        ("中国", "cut"),
        ("don't", "cut"),
        ("The", "normalised"),
        ("café", "normalised"),
        ("##É", "normalised"),
        ("\u200b", "normalised"),
        ("x" * 101, "too_long"),
        ("##" + "x" * 100, "too_long"),
    ],
)
def test_a_piece_that_no_text_can_give_is_dead_for_a_reason(piece: str, reason: str) -> None:
    dead = inspect_vocabulary(tokenizer("a", "b", "##b", piece)).dead
    assert {name: (rows.count, rows.examples) for name, rows in dead.items()} == {reason: (1, (piece,))}


def test_no_living_piece_is_called_dead() -> None:
    report = inspect_vocabulary(tokenizer("a", "##b", "中", "。", "〇", "##〇", "x" * 100, "##" + "x" * 99))
    assert report.num_dead == 0


def test_capital_letters_and_accents_live_in_a_cased_vocabulary() -> None:
    assert inspect_vocabulary(tokenizer("The", "café", "##É", lowercase=False)).num_dead == 0


def test_a_piece_that_longer_ones_often_swallow_is_not_dead() -> None:
    vocabulary = tokenizer("a", "ab", "abb", "##b", "##bb", "##bbb")
    assert inspect_vocabulary(vocabulary).num_dead == 0
    given = [vocabulary.pieces_of("a" + "b" * length).ids for length in range(6)]
    assert {id_ for ids in given for id_ in ids} == set(range(5, 11))


def test_a_text_is_measured_by_words_pieces_and_unknowns(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Walking, walking: 中国 中 zebra zebra 龘", encoding="utf-8")
    vocabulary = tokenizer("[unused1]", "walk", "##ing", ",", ":", "中", "国", "##国", "never")
    report = inspect_text(vocabulary, [path])
    assert (report.num_words, report.num_pieces) == (10, 12)
    assert report.num_characters == 7 + 1 + 7 + 1 + 2 + 1 + 5 + 5 + 1
    assert report.pieces_per_word == pytest.approx(1.2)
    assert report.pieces_per_long_word == pytest.approx(6 / 4)
    assert report.characters_per_piece == pytest.approx(30 / 12)
    assert (report.num_unknown, report.num_distinct_unknown) == (3, 2)
    assert report.unknown_rate == pytest.approx(3 / 12)
    assert report.unknown_examples == (("zebra", 2), ("龘", 1))
    assert report.coverage == pytest.approx(1 - 11 / 30)
    # Of nine rows one is unused and one dead; "never" is the only other one that is not used.
    assert (report.num_rows_used, report.rows_used) == (6, pytest.approx(6 / 7))


def test_text_without_a_word_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(DataError, match=r"a\.txt: no word"):
        inspect_text(tokenizer("a"), [tmp_path / "a.txt"])

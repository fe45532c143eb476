import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.text.alignment import as_offsets, characters_of_pieces, pieces_of_characters, shares_character
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

TOKENIZER = Tokenizer(
    Vocabulary((*SPECIALS, *"abcio", *("##" + letter for letter in "abcio"), "mac", "##book", *"今天好"))
)


def aligned(text: str, start: int, end: int) -> tuple[int, int, bool]:
    """Return the pieces of ``text[start:end]`` and whether they cover it exactly."""
    runs = pieces_of_characters(as_offsets(TOKENIZER.pieces_of(text).offsets), [start], [end])
    return int(runs.start[0]), int(runs.stop[0]), bool(runs.is_exact[0])


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("macbook a", "macbook", (0, 2, True)),
        ("macbook a", "book", (1, 2, True)),
        ("macbook a", "ma", (0, 1, False)),  # outward to the whole piece
        ("macbook a", "k a", (1, 3, False)),
        ("a macbook", " macbook", (1, 3, False)),  # the space has no piece
        ("a  b", "  ", (1, 1, False)),
        ("今天好", "天", (1, 2, True)),
        ("今天 好", "天 好", (1, 3, True)),  # a space inside changes nothing
        ("zzz a", "z", (0, 1, False)),  # inside an unknown word
        ("zzz a", "zzz", (0, 1, True)),
        ("\u200ba\u200b", "a", (0, 1, True)),
    ],
)
def test_each_case(text: str, part: str, expected: tuple[int, int, bool]) -> None:
    start = text.index(part)
    assert aligned(text, start, start + len(part)) == expected


def test_all_pieces_of_a_decomposed_syllable_belong_to_it() -> None:
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, "\u1112", "##\u1161", "##\u11ab", "##a")))
    offsets = as_offsets(tokenizer.pieces_of("\ud55ca").offsets)
    assert offsets.tolist() == [[0, 1], [0, 1], [0, 1], [1, 2]]
    runs = pieces_of_characters(offsets, [0, 1], [1, 2])
    assert (runs.start.tolist(), runs.stop.tolist()) == ([0, 3], [3, 4])
    assert runs.is_exact.all()
    assert shares_character(offsets).tolist() == [False, True, True, False]


def test_a_text_without_pieces_has_none_for_any_run() -> None:
    assert aligned("  ", 0, 2) == (0, 0, False)


@given(st.text("abcz 今天好，\u200b\u0301É", max_size=30), st.data())
def test_pieces_cover_the_characters_and_none_could_be_left_out(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    offsets = TOKENIZER.pieces_of(text).offsets
    first, stop, is_exact = aligned(text, start, end)
    if start < end:
        assert [i for i, (a, b) in enumerate(offsets) if a < end and b > start] == list(range(first, stop))
    if is_exact:
        assert characters_of_pieces(as_offsets(offsets), first, stop) == (start, end)

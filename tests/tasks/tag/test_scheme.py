from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.data.examples import Span
from glassbert.errors import ModelError, UserError
from glassbert.tasks.tag.scheme import PieceSpan, Placement, Scheme, TagSet, place
from glassbert.text.alignment import as_offsets
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

SCHEMES: list[Scheme] = ["bio", "bioes"]
LABELS = ("LOC", "PER")


@st.composite
def piece_spans(draw: st.DrawFn) -> tuple[list[PieceSpan], int]:
    """Return spans that do not overlap, some of them neighbours, and the number of pieces."""
    spans: list[PieceSpan] = []
    at = 0
    for _ in range(draw(st.integers(0, 6))):
        start = at + draw(st.integers(0, 2))
        at = start + draw(st.integers(1, 4))
        spans.append(PieceSpan(start, at, draw(st.sampled_from(LABELS))))
    return spans, at + draw(st.integers(0, 2))


def names(tag_set: TagSet, spans: list[PieceSpan], num_pieces: int) -> str:
    return " ".join(tag_set.names[tag] for tag in tag_set.encode(spans, num_pieces))


def test_every_piece_of_a_span_is_tagged() -> None:
    spans = [PieceSpan(0, 3, "PER"), PieceSpan(3, 4, "PER"), PieceSpan(5, 7, "LOC")]
    assert names(TagSet.of(LABELS), spans, 8) == "B-PER I-PER I-PER B-PER O B-LOC I-LOC O"
    assert names(TagSet.of(LABELS, "bioes"), spans, 8) == "B-PER I-PER E-PER S-PER O B-LOC E-LOC O"


@pytest.mark.parametrize("scheme", SCHEMES)
@given(piece_spans())
def test_spans_come_back_from_their_tags(scheme: Scheme, case: tuple[list[PieceSpan], int]) -> None:
    spans, num_pieces = case
    tag_set = TagSet.of(LABELS, scheme)
    assert tag_set.decode(tag_set.encode(spans, num_pieces)) == spans


@pytest.mark.parametrize("scheme", SCHEMES)
def test_exactly_the_sequences_that_encode_spans_are_legal(scheme: Scheme) -> None:
    tag_set = TagSet.of(LABELS, scheme)
    end = len(tag_set)
    for length in range(4):
        for tags in product(range(end), repeat=length):
            path = [end, *tags, end]
            is_legal = all(tag_set.legal[a, b] for a, b in zip(path, path[1:], strict=False))
            array = np.array(tags, dtype=np.int64)
            has_meaning = np.array_equal(tag_set.encode(tag_set.decode(array), length), array)
            assert is_legal == has_meaning, [tag_set.names[tag] for tag in tags]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_inside_a_word_are_exactly_the_steps_without_a_border(scheme: Scheme) -> None:
    tag_set = TagSet.of(LABELS, scheme)
    allowed = {
        f"{tag_set.names[a]} {tag_set.names[b]}" for a, b in np.argwhere(tag_set.legal_inside).tolist()
    }
    steps = {"B I", "I I"} if scheme == "bio" else {"B I", "I I", "B E", "I E"}
    expected = {f"{step[0]}-{label} {step[2]}-{label}" for step in steps for label in LABELS}
    assert allowed == {"O O", *expected}


def test_tags_of_other_schemes_are_understood() -> None:
    bmes = TagSet(("B-X", "M-X", "E-X", "S-X", "O"))
    assert bmes.labels == ("X",)
    assert bmes.decode(np.array([0, 1, 2, 3, 4])) == [PieceSpan(0, 3, "X"), PieceSpan(3, 4, "X")]
    plain = TagSet(("NOUN", "VERB"))
    assert plain.legal.all()
    assert plain.decode(np.array([0, 0, 1])) == [PieceSpan(0, 2, "NOUN"), PieceSpan(2, 3, "VERB")]
    only_inside = TagSet(("O", "I-X"))
    assert only_inside.decode(np.array([1, 1, 0, 1])) == [PieceSpan(0, 2, "X"), PieceSpan(3, 4, "X")]


def test_a_single_piece_is_b_where_there_is_no_s() -> None:
    tag_set = TagSet(("O", "B-X", "I-X", "E-X"))
    assert tag_set.legal[:, -1].tolist() == [True, True, False, True, True]  # with which a text can end
    assert tag_set.encode([PieceSpan(0, 1, "X"), PieceSpan(1, 4, "X")], 4).tolist() == [1, 1, 2, 3]


def test_labels_may_hold_dashes_and_chinese() -> None:
    tag_set = TagSet.of(("B-side", "地名"))
    assert tag_set.labels == ("B-side", "地名")
    assert tag_set.decode(tag_set.encode([PieceSpan(0, 2, "地名")], 3)) == [PieceSpan(0, 2, "地名")]


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(UserError, match="scheme='iob'; expected one of bio, bioes"):
        TagSet.of(LABELS, "iob")  # type: ignore[arg-type]


TOKENIZER = Tokenizer(
    Vocabulary((*SPECIALS, *"abc", "##a", "##b", "##c", "new", "york", "##er", *"我在北京大学。"))
)


def placed(text: str, *parts: str) -> tuple[list[tuple[int, int]], Placement]:
    """Return the pieces of some parts of ``text``, each the next after the one before, and their count."""
    spans, at = [], 0
    for part in parts:
        start = text.index(part, at)
        at = start + len(part)
        spans.append(Span(start, at, "X"))
    pieces = TOKENIZER.pieces_of(text)
    starts = np.array([not TOKENIZER.vocabulary.pieces[id_].startswith("##") for id_ in pieces.ids])
    found, count = place(spans, as_offsets(pieces.offsets), starts.astype(np.bool_))
    return [(span.start, span.stop) for span in found], count


def test_spans_on_words_are_exact() -> None:
    assert placed("New York a", "New York") == ([(0, 2)], Placement(exact=1))
    assert placed("我在北京大学。", "北京", "大学") == ([(2, 4), (4, 6)], Placement(exact=2))
    assert placed("我在北京大学。", "北京", "大学")[1].has_whole_words


def test_a_span_inside_a_word_is_exact_but_takes_the_rule_of_whole_words_away() -> None:
    pieces, count = placed("New Yorker", "New York")
    assert (pieces, count) == ([(0, 2)], Placement(exact=1, inside_word=1))
    assert not count.has_whole_words


def test_a_span_inside_a_piece_is_snapped_outward() -> None:
    assert placed("newyork", "ew") == ([(0, 1)], Placement(snapped=1, inside_word=1))


def test_outer_spaces_are_left_out_and_words_stay_whole() -> None:
    pieces, count = placed("a  b c", "  b ")
    assert (pieces, count) == ([(1, 2)], Placement(snapped=1))
    assert count.has_whole_words


def test_spans_without_a_piece_of_their_own_are_dropped() -> None:
    assert placed("a  b", "  ") == ([], Placement(dropped=1))
    # An unknown word is one piece: it can hold one span only.
    pieces, count = placed("我xyz", "x", "yz")
    assert (pieces, count) == ([(1, 2)], Placement(snapped=1, dropped=1, inside_word=1))
    assert count.notes() == [
        "1 of 2 spans do not end where pieces do: moved to whole pieces",
        "1 of 2 spans have no piece of their own: left out",
    ]


def test_counts_add_up_and_no_span_says_nothing_of_words() -> None:
    total = Placement(exact=1, snapped=2) + Placement(exact=3, dropped=4, inside_word=5)
    assert total == Placement(exact=4, snapped=2, dropped=4, inside_word=5)
    assert total.total == 10
    assert not Placement().has_whole_words
    assert Placement(exact=1).notes() == []


@given(st.text("abcz 我京。", max_size=20), st.data())
def test_placed_spans_never_overlap_and_none_is_lost_in_the_count(text: str, data: st.DataObject) -> None:
    borders = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8)))
    spans = [Span(a, b, "X") for a, b in zip(borders[::2], borders[1::2], strict=False)]
    pieces = TOKENIZER.pieces_of(text)
    starts = np.array([not TOKENIZER.vocabulary.pieces[i].startswith("##") for i in pieces.ids], dtype=bool)
    found, count = place(spans, as_offsets(pieces.offsets), starts)
    assert all(a.stop <= b.start for a, b in zip(found, found[1:], strict=False))
    assert count.exact + count.snapped == len(found)
    assert count.total == len(spans)


def test_a_model_without_o_needs_spans_for_everything() -> None:
    tags = TagSet(("NOUN", "VERB"))
    assert tags.encode([PieceSpan(0, 2, "NOUN"), PieceSpan(2, 3, "VERB")], 3).tolist() == [0, 0, 1]
    with pytest.raises(ModelError, match="no tag O for what is in no span"):
        tags.encode([PieceSpan(1, 2, "NOUN")], 3)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("O", "B-X"), "B-X B-X B-X"),
        (("O", "S-X"), "S-X S-X S-X"),
        (("O", "E-X"), "E-X E-X E-X"),
        (("O", "B-X", "E-X"), "B-X B-X E-X"),
        (("O", "I-X", "E-X"), "I-X I-X E-X"),
    ],
)
def test_a_model_that_lacks_tags_of_a_scheme_gets_the_nearest(names: tuple[str, ...], expected: str) -> None:
    tags = TagSet(names)
    assert [names[tag] for tag in tags.encode([PieceSpan(1, 4, "X")], 4)] == ["O", *expected.split()]
    single = tags.encode([PieceSpan(1, 2, "X")], 3)
    assert tags.decode(single) == [PieceSpan(1, 2, "X")]

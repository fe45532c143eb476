"""Cutting by characters never changes a piece that is kept."""

from hypothesis import given
from hypothesis import strategies as st

from glassbert.serve.shorten import CHARACTERS_PER_PIECE, shortened
from helpers.oracles import small_tokenizer

TOKENIZER = small_tokenizer()
ROOM = 3
words = st.sampled_from(
    ["a", "bc", "defgh", "今", "[MASK]", "[", "]", ".", "é", "e\u0301", "x" * 120, "  ", "\u3000", "?"]
)


@given(st.lists(words, min_size=20, max_size=120), st.sampled_from(["", " "]), st.booleans())
def test_the_pieces_that_are_kept_are_the_same(parts: list[str], glue: str, parse_specials: bool) -> None:
    text = glue.join(parts)
    cut = shortened(text, ROOM, TOKENIZER, parse_specials=parse_specials)
    whole = TOKENIZER.pieces_of(text, parse_specials=parse_specials).ids
    found = TOKENIZER.pieces_of(cut, parse_specials=parse_specials).ids
    assert found[:ROOM] == whole[:ROOM]
    assert (len(found) > ROOM) == (len(whole) > ROOM)


def test_what_is_dropped_is_not_read() -> None:
    assert (
        len(shortened("a b " * 10_000, ROOM, TOKENIZER, parse_specials=True)) == CHARACTERS_PER_PIECE * ROOM
    )
    assert shortened("a b", ROOM, TOKENIZER, parse_specials=True) == "a b"


def test_a_special_that_the_cut_would_split_is_not_read_as_words() -> None:
    length = CHARACTERS_PER_PIECE * ROOM
    for start in range(length - 6, length):
        # Three words, then [MASK] across the cut; a space before it makes room for the rest of the text.
        text = "a b" + " " * (start - 3) + "[MASK] c d e f g h"
        cut = shortened(text, ROOM, TOKENIZER, parse_specials=True)
        assert (
            TOKENIZER.ids_of_batch([cut], parse_specials=True)[0][:ROOM]
            == (TOKENIZER.ids_of_batch([text], parse_specials=True)[0][:ROOM])
        )

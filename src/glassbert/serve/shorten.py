"""Cut a text by characters before it is tokenised: what would be dropped anyway need not be read.

Tokenising a whole book to keep 512 pieces of it costs a second. The cut is safe: the pieces that are kept
are the same as without it.
"""

from glassbert.text.wordpiece.tokenizer import Tokenizer

CHARACTERS_PER_PIECE = 16
"""More than nearly every text needs; a text of long words is read in several steps."""


def shortened(text: str, room: int, tokenizer: Tokenizer, *, parse_specials: bool) -> str:
    """Return a beginning of ``text`` that has the same first ``room`` pieces, and more than these.

    A text with fewer pieces is returned whole.
    """
    length = CHARACTERS_PER_PIECE * room
    while length < len(text):
        beginning = text[:length]
        if _num_certain(beginning, tokenizer, parse_specials) > room:
            return beginning
        length *= 2
    return text


def beginning(text: str, max_pieces: int, tokenizer: Tokenizer) -> str:
    """Return the part of ``text`` that its first ``max_pieces`` pieces cover."""
    offsets = tokenizer.pieces_of(shortened(text, max_pieces, tokenizer, parse_specials=False)).offsets
    return text if len(offsets) <= max_pieces else text[: offsets[max_pieces - 1][1]]


def _num_certain(beginning: str, tokenizer: Tokenizer, parse_specials: bool) -> int:
    """Return how many pieces are the same whatever follows: those before the last word.

    A special such as [MASK] that the cut splits is read as "[" and a word. Then "[" is the last piece counted
    here, and since more pieces are wanted than are kept, it is not kept.
    """
    ids = tokenizer.ids_of_batch([beginning], parse_specials=parse_specials)[0]
    starts_word = tokenizer.vocabulary.starts_word
    last = len(ids) - 1
    while last > 0 and not starts_word[ids[last]]:
        last -= 1
    return max(last, 0)

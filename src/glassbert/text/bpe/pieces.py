"""The fixed pieces of every reversible vocabulary, and how text is cut into words."""

from collections.abc import Sequence

from glassbert.errors import ModelError

Merge = tuple[str, str]

PAD, END, UNKNOWN = SPECIALS = ("<pad>", "</s>", "<unk>")
"""The last one never occurs; other programs require it."""

BYTES = tuple(f"<0x{value:02X}>" for value in range(256))

NUM_FIXED = len(SPECIALS) + len(BYTES)
"""Rows of every vocabulary, whatever it was learned from."""

# Controls and ASCII marks; Latin-1 but for its letters; marks of Greek, Armenian, Hebrew, Arabic and Hindi;
# spaces, dashes, quotes, currencies, arrows, shapes; Chinese marks; variants and wide forms; emoji.
_MARKS = (
    "\x00-\x1f!-/:-@\\[-`{-\xa9\xab-\xb4\xb6-\xb9\xbb-\xbf\xd7\xf7"
    "\u0387\u055a-\u055f\u0589\u05be\u060c\u061b\u061f\u06d4\u0964\u0965"
    "\u2000-\u2bff\u2e00-\u2e7f\u3000-\u3004\u3008-\u303f"
    "\ufe00-\ufe6f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\ufff0-\uffff\U0001f000-\U0001faff"
)
_DIGITS = "0-9\uff10-\uff19"
_LETTERS = f"[^ {_DIGITS}{_MARKS}]+"

# A word includes the space before it. Digits are single: a number is then copied digit by digit, and no row
# is spent on 1987. Marks form words of their own, except an apostrophe between letters.
WORD = f" ?(?:{_LETTERS}(?:['\u2019]{_LETTERS})*|[{_DIGITS}]|[{_MARKS}]+)| "
"""A regular expression that means the same to Python and to the engine, and leaves nothing out."""


def check_pieces(pieces: Sequence[str], merges: Sequence[Merge], name: str) -> None:
    """Refuse a vocabulary that cannot spell every text; ``name`` is where it comes from."""
    for id_, piece in enumerate((*SPECIALS, *BYTES)):
        if id_ >= len(pieces) or pieces[id_] != piece:
            found = repr(pieces[id_]) if id_ < len(pieces) else "nothing"
            raise ModelError(
                f"{name}: piece {id_} is {found}; expected {piece!r}: without it some text cannot be spelled"
            )
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    if len(ids) != len(pieces):
        twice = next(piece for id_, piece in enumerate(pieces) if ids[piece] != id_)
        raise ModelError(f"{name}: {twice!r} occurs twice; each piece must occur once")
    made = {left + right for left, right in merges}
    for left, right in merges:
        for piece in (left, right, left + right):
            if piece not in ids:
                raise ModelError(f"{name}: the merge of {left!r} and {right!r} needs the piece {piece!r}")
    for piece in pieces[NUM_FIXED:]:
        if len(piece) != 1 and piece not in made:
            raise ModelError(f"{name}: no merge makes {piece!r}; it could never be used")

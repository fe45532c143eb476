"""Properties of one character by BERT's rules: space, punctuation, accent, Chinese character.

Python's Unicode tables grow with every release. Those of the engine (`tokenizers`) are frozen: categories as
of Unicode 8, decompositions as of Unicode 9; only lower-casing is recent (Unicode 17). Models are trained on
what the engine does, so the engine is right. The tables below name every code point where a Python with
Unicode 14 to 17 would decide otherwise; a test goes through all code points.
"""

import re
import unicodedata
from bisect import bisect_right
from functools import lru_cache

# A text uses few characters, each many times.
_remembered = lru_cache(maxsize=1 << 15)


def _borders(ranges: str) -> list[int]:
    """Return the first code point of each range, and the one after its last, in order."""
    borders: list[int] = []
    for item in ranges.split():
        first, _, last = item.partition("-")
        borders += [int(first, 16), int(last or first, 16) + 1]
    return borders


# Assigned after Unicode 8: to the engine these are neither punctuation, nor accents, nor control characters.
# Ranges extend over neighbours that are none of these in any version, which keeps the table short.
_NEWER_THAN_CATEGORIES = _borders("""
    61D 7FD 890-8E2 9FD-9FE A76 AFA-AFF B55 C04-C3C C77 C84 D00 D3B-D3C D81 EBA ECE 180F-1886 1ABF-1AEB
    1B4E-1B4F 1B7D-1B7F 1DF6-1DFB 2E43-2E5D A82C A8C5 A8FF A9BD 10D24-10F89 11070-11074 110C2-110CD 111C9
    111CF 1123E-11241 1133B 113BB-1145E 11660-1166C 116B9 1182F-11FFF 12FF1-1612F 16D6D-16F4F 16FE2-16FE4
    1CF00-1CF46 1E000-1E6F5 1E944-1E95F
""")

# Assigned after Unicode 9: the engine neither decomposes nor reorders these.
_NEWER_THAN_DECOMPOSITIONS = _borders("""
    7FD 897-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1AEB 1DF6-1DFA A82C 105C9-105E4 10D24-10F85 11070 1133B
    11383-113D0 1145E 11839-11A99 11D42-1612F 16D68-16FF1 1E08F-1E6F5
""")

# These had a different category in Unicode 8.
_ONCE_PUNCTUATION = frozenset("\u166d\U000111c9")
_ONCE_ACCENTS = frozenset("\u1734\U0001171e")

# Capital letters of Unicode 15 to 17, which an older Python does not lower-case.
_NEW_CAPITALS = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x0264,
    0xA7CC: 0xA7CD,
    0xA7CE: 0xA7CF,
    0xA7D2: 0xA7D3,
    0xA7D4: 0xA7D5,
    0xA7DA: 0xA7DB,
    0xA7DC: 0x019B,
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
}

# The ideographs that BERT makes words of their own. Google's code starts the sixth range at 2B820; the engine
# has always had 2B920.
_CHINESE = _borders("3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F")

CJK = "".join(
    f"{chr(start)}-{chr(stop - 1)}" for start, stop in zip(_CHINESE[::2], _CHINESE[1::2], strict=True)
)
"""The same ideographs as ranges for a character class of a regular expression."""

# Two planes of Unicode that hold nothing but ideographs, the newer ones too, which the engine does not know.
_IDEOGRAPHIC_PLANES = range(0x20000, 0x40000)

DELETED = re.compile("[\x0b\x0c\x1c-\x1f\x85\ud800-\udfff]")
"""To delete before Python splits text at spaces: `str.split` takes the first ones for spaces, but BERT
deletes them. The last are lone surrogates: JSON can hold them, the engine cannot."""


@_remembered
def is_space(character: str) -> bool:
    """Return whether ``character`` separates words."""
    return character in " \t\n\r" or unicodedata.category(character) in ("Zs", "Zl", "Zp")


@_remembered
def is_removed(character: str) -> bool:
    """Return whether ``character`` is dropped before anything else: control, format, private or broken."""
    if character in "\t\n\r":
        return False
    category = unicodedata.category(character)
    if category == "Cf":
        return not _is_in(character, _NEWER_THAN_CATEGORIES)
    return category in ("Cc", "Co", "Cs") or character == "\ufffd"


@_remembered
def is_chinese(character: str) -> bool:
    """Return whether ``character`` is an ideograph that BERT makes a word of its own."""
    return _is_in(character, _CHINESE)


def is_ideograph(character: str) -> bool:
    """Return whether ``character`` is an ideograph, including the newer ones that BERT's list lacks."""
    return is_chinese(character) or ord(character) in _IDEOGRAPHIC_PLANES


@_remembered
def is_punctuation(character: str) -> bool:
    """Return whether ``character`` is punctuation, a word of its own; ASCII symbols such as `$` are."""
    if character.isascii():
        return "!" <= character <= "~" and not character.isalnum()
    if character in _ONCE_PUNCTUATION:
        return True
    is_mark = unicodedata.category(character).startswith("P")
    return is_mark and not _is_in(character, _NEWER_THAN_CATEGORIES)


@_remembered
def is_accent(character: str) -> bool:
    """Return whether ``character`` is a mark over, under or in the letter before it."""
    if character in _ONCE_ACCENTS:
        return True
    return unicodedata.category(character) == "Mn" and not _is_in(character, _NEWER_THAN_CATEGORIES)


@_remembered
def decompose(character: str) -> str:
    """Return the canonical decomposition of ``character``: a letter and its accents."""
    if character.isascii() or _is_in(character, _NEWER_THAN_DECOMPOSITIONS):
        return character
    return unicodedata.normalize("NFD", character)


@_remembered
def combining_class(character: str) -> int:
    """Return the number by which accents on one letter are sorted; 0 for a letter."""
    if character.isascii() or _is_in(character, _NEWER_THAN_DECOMPOSITIONS):
        return 0
    return unicodedata.combining(character)


@_remembered
def lower(character: str) -> str:
    """Return the lower-case form, which may be longer than one character."""
    new = _NEW_CAPITALS.get(ord(character))
    return character.lower() if new is None else chr(new)


def _is_in(character: str, borders: list[int]) -> bool:
    """Return whether ``character`` lies in a range: the number of borders at or before it is then odd."""
    return bisect_right(borders, ord(character)) % 2 == 1

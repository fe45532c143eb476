"""Cut text into sentences, English and Chinese, by rules.

A Chinese full stop always ends a sentence. An English one ends it if a space follows, unless the word before
it (an abbreviation, an initial, the number of a list) or the word after it (in lower case) says otherwise.
When in doubt the text is kept together: two sentences taken for one harm pre-training less than half of one.
"""

import re
from collections.abc import Iterator

from glassbert.text.characters import CJK

Range = tuple[int, int]

MAX_SENTENCE_CHARACTERS = 512
"""A longer run is cut: in Chinese it would fill the input of any BERT."""

_CLOSERS = re.escape("\"'\u2019\u201d\u300d\u300f\uff09\u3011\u300b\u3009)]}\u00bb")
_OPENING = "\"'\u2018\u201c\u300c\u300e\uff08\u3010\u300a\u3008([{\u00ab"
_OPENERS = re.escape(_OPENING)

# Where a sentence may end. One set of characters at the front makes the search fastest.
_CANDIDATE = re.compile(f"(?P<mark>[.!?\u2026\u3002\uff01\uff1f\uff61\uff1b]+)[{_CLOSERS}]*")
_CHINESE_MARK = re.compile("[\u3002\uff01\uff1f\uff61\uff1b]|\u2026\u2026")
_NO_SPACE_NEEDED = re.compile(f"[{CJK}\u3040-\u30ff]")
_LONGEST_ABBREVIATION = 12
_WORD_AFTER = re.compile(f"\\s*[{_OPENERS}]*([^\\W_]*)")
_INITIALS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
_SPACES = re.compile(r"\s*")
_COMMA = re.compile("[,;:\uff0c\uff1a\u3001](?=\\s|[^\\x00-\\x7f])")
_SPACE = re.compile(r"\s")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# A full stop after these never ends a sentence: a name follows.
_TITLES = _words("""
    mr mrs ms mx dr prof rev fr hon gen col maj capt cpt cmdr lt sgt cpl adm gov sen rep pres amb supt insp st
    ste mt ft messrs mme mlle
""")
# Nor after these if a number follows.
_BEFORE_NUMBERS = _words("""
    no nos nr vol vols p pp fig figs eq eqs ch sec art ca c approx jan feb mar apr jun jul aug sep sept oct
    nov dec op cap ver v
""")
# After these, and after initials, a sentence ends only before a word that often begins one.
_OTHER_ABBREVIATIONS = _words("""
    vs v cf al e.g i.e eg ie viz lit inc ltd co corp bros jr sr dept univ assn ave blvd rd est esp incl ed eds
    trans repr a.m p.m ph.d m.d b.a m.a u.s u.k u.n d.c
""")
_STARTERS = _words("""
    the a an in on at by for from after before during since while when as although though however but and it
    its he his she her they their we our i you your this that these those there here if who what where why how
    some many most all both each one two another other according because thus therefore then also
""")


def sentence_spans(text: str, max_characters: int = MAX_SENTENCE_CHARACTERS) -> list[Range]:
    """Return each sentence as (first character, character after the last), without spaces around it."""
    spans: list[Range] = []
    start = 0
    for end in _ends(text):
        _add(spans, text, start, end, max_characters)
        start = end
    _add(spans, text, start, len(text), max_characters)
    return spans


def split_sentences(text: str, max_characters: int = MAX_SENTENCE_CHARACTERS) -> list[str]:
    """Return the sentences of ``text``."""
    return [text[start:end] for start, end in sentence_spans(text, max_characters)]


def _ends(text: str) -> Iterator[int]:
    """Yield where a sentence ends."""
    start, last = 0, len(text)
    for match in _CANDIDATE.finditer(text):
        end = match.end()
        if match["mark"].isascii() or not _CHINESE_MARK.search(match["mark"]):
            if end < last and not text[end].isspace() and not _NO_SPACE_NEEDED.match(text, end):
                continue
            if not _is_end(text, start, match):
                continue
        yield end
        start = end


def _is_end(text: str, start: int, match: re.Match[str]) -> bool:
    """Return whether the sentence that began at ``start`` ends with a mark that need not end one."""
    after = _WORD_AFTER.match(text, match.end())
    assert after is not None  # it also matches the empty string
    word_after = after[1]
    if word_after[:1].islower():
        return False
    if match["mark"] != ".":
        return True
    # Text that was cut into words has a space before the full stop as well.
    stop = match.start()
    stop -= text[stop - 1 : stop] == " "
    before = text[max(start, stop - _LONGEST_ABBREVIATION) : stop].split()
    word = before[-1].lstrip(_OPENING) if before else ""
    is_first = len(before) == 1 and _after_spaces(text, start) >= stop - len(before[0])
    return _is_end_after(word, word_after, is_first=is_first)


def _is_end_after(word: str, word_after: str, *, is_first: bool) -> bool:
    """Return whether a full stop between these words ends a sentence."""
    small = word.lower()
    if small in _TITLES:
        return False
    if word_after[:1].isdigit() and small in _BEFORE_NUMBERS:
        return False
    if is_first and (word.isdigit() or len(word) == 1):
        return False  # the number of a list, "1." or "a."
    if small in _OTHER_ABBREVIATIONS or (_INITIALS.fullmatch(word) and word != "I"):
        return word_after.lower() in _STARTERS
    return True


def _add(spans: list[Range], text: str, start: int, end: int, max_characters: int) -> None:
    """Add the span without the spaces around it, in pieces when it is too long, unless nothing is left."""
    run = text[start:end]
    start += len(run) - len(run.lstrip())
    end = start + len(run.strip())
    while end - start > max_characters:
        cut = _cut_before(text, start, start + max_characters)
        spans.append((start, start + len(text[start:cut].rstrip())))
        start = _after_spaces(text, cut)
    if start < end:
        spans.append((start, end))


def _after_spaces(text: str, start: int) -> int:
    spaces = _SPACES.match(text, start)
    assert spaces is not None  # it also matches the empty string
    return spaces.end()


def _cut_before(text: str, start: int, limit: int) -> int:
    """Return where to cut a run that is too long: after a comma or a space in its second half, if any."""
    middle = (start + limit) // 2
    for weak_end in (_COMMA, _SPACE):
        ends = [match.end() for match in weak_end.finditer(text, middle, limit)]
        if ends:
            return ends[-1]
    return limit

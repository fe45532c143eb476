"""Tokens put together into words: Chinese ones by a segmenter, others by their characters."""

from typing import Any

from glassbert.glassbox.trace.trace import Trace
from glassbert.glassbox.why.explanation import Place
from glassbert.glassbox.why.tokens import Token, grouped
from glassbert.sentence import in_both
from glassbert.text.vocabulary import is_reserved


def words_of(trace: Trace) -> dict[str, Any]:
    """Return the words of the texts, each with its tokens' positions, and notes for the reader."""
    info = trace.info
    texts = [info.text, *([] if info.pair is None else [info.pair])]
    tokens = [
        Token(piece, (), None if is_reserved(piece) else Place(segment, *offset), is_fixed=False)
        for piece, segment, offset in zip(info.tokens, info.segments, info.offsets, strict=True)
    ]
    groups, notes = grouped(tokens, texts, "word", None)
    # A token that is in no word, such as [MASK] or a sign between words, is a word of its own.
    taken = {member for group in groups for member in group.members}
    alone = [(place, tokens[place].piece, (place,)) for place in range(len(tokens)) if place not in taken]
    found = sorted([*alone, *((group.members[0], group.name, group.members) for group in groups)])
    return {
        "words": [{"name": name, "tokens": members} for _, name, members in found],
        "notes": [in_both(note) for note in notes],
    }

"""The pieces of many texts, a few texts at a time: offsets of all of them at once would fill the memory."""

from collections.abc import Iterator, Sequence

from glassbert.text.wordpiece.tokenizer import Pieces, Tokenizer

CHUNK = 256


def stream_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Pieces]:
    """Yield the pieces of each text in order; neighbours that are equal, such as contexts, are cut once."""
    for first in range(0, len(texts), CHUNK):
        chunk = texts[first : first + CHUNK]
        different = list(dict.fromkeys(chunk))
        pieces = dict(zip(different, tokenizer.pieces_of_batch(different), strict=True))
        yield from (pieces[text] for text in chunk)

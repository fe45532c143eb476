"""Sentences of raw text, without regard to documents."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from glassbert.data.corpus.encode import part_sentences
from glassbert.data.random import Draw, below
from glassbert.errors import DataError
from glassbert.messages import Log
from glassbert.text.documents import AmbiguousForm, Form
from glassbert.text.sources import find_sources, read_blocks

Files = str | Path | Sequence[str | Path]


def read_sentences(files: Files, form: Form | None = None, *, log: Log) -> Iterator[str]:
    """Yield every sentence of files of raw text, in any form; lines that show no form are sentences."""
    sources = find_sources(files, form, on_error=_as_sentences)
    if not sources.texts:
        raise DataError(f"{_shown(files)}: no text in it; is it the right file?")
    for block in read_blocks(sources.texts, log=log):
        for part in block:
            yield from part_sentences(part)


def sampled_sentences(
    files: Files, number: int, form: Form | None = None, *, seed: int = 0, log: Log
) -> list[str]:
    """Return ``number`` distinct sentences, drawn evenly from all of the text; fewer if it is short.

    Memory holds the sample only, however long the text is.
    """
    sample: list[str] = []
    num_seen = 0
    held: set[str] = set()
    for sentence in read_sentences(files, form, log=log):
        if sentence in held:
            continue
        num_seen += 1
        if len(sample) < number:
            sample.append(sentence)
            held.add(sentence)
            continue
        place = int(below(num_seen, seed, Draw.SENTENCE, num_seen))
        if place < number:
            held.discard(sample[place])
            held.add(sentence)
            sample[place] = sentence
    return sample


def _as_sentences(error: DataError) -> Form:
    if isinstance(error, AmbiguousForm):
        return "sentences"
    raise error


def _shown(files: Files) -> str:
    return str(files) if isinstance(files, str | Path) else ", ".join(map(str, files))

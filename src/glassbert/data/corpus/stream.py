"""The text of a corpus as a stream: its files with their forms, and how far they have been read."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassbert.data.corpus.encode import utf8_length
from glassbert.errors import DataError
from glassbert.text.documents import Form, Part, TextSource, detect_form, read_documents
from glassbert.text.files import read_lines
from glassbert.text.word_counts import bytes_on_disk, input_files

# A block is the unit of work of a process: large enough that handing it over costs little.
_BLOCK_CHARACTERS = 1 << 19
_TELL_EVERY_BYTES = 1 << 20


@dataclass(frozen=True)
class ReadProgress:
    """How far the files have been read."""

    num_done: int
    """Bytes on disk; for packed files an estimate until the file ends."""
    num_total: int
    num_text_bytes: int
    """Unpacked."""


OnRead = Callable[[ReadProgress], None]


@dataclass(frozen=True)
class Sources:
    """The files of a corpus."""

    texts: tuple[TextSource, ...]
    empty: tuple[Path, ...]
    """Files without text, which are left out."""

    def form_counts(self) -> Counter[Form]:
        """Return how many files have each form."""
        return Counter(source.form for source in self.texts)


def find_sources(paths: Sequence[Path], form: Form | None = None) -> Sources:
    """Return the files that ``paths`` name, each in the form given or, without one, in the form it shows."""
    texts, empty = [], []
    for path in input_files(paths):
        found = detect_form(path, form)
        if found is None:
            empty.append(path)
        else:
            texts.append(TextSource(path, found))
    if not texts:
        raise DataError(f"{', '.join(map(str, empty))}: no text in it; is it the right file?")
    return Sources(tuple(texts), tuple(empty))


def read_blocks(
    texts: Sequence[TextSource],
    on_read: OnRead | None = None,
    on_error: Callable[[DataError], None] | None = None,
) -> Iterator[tuple[Part, ...]]:
    """Yield all documents in blocks of about the same size; see `read_documents`."""
    parts: list[Part] = []
    num_characters = 0
    read = _Teller(texts, on_read).lines if on_read else read_lines
    for part in read_documents(texts, read, on_error):
        parts.append(part)
        num_characters += sum(map(len, part.lines))
        if num_characters >= _BLOCK_CHARACTERS:
            yield tuple(parts)
            parts, num_characters = [], 0
    if parts:
        yield tuple(parts)


class _Teller:
    """Reads lines and tells how far it is."""

    def __init__(self, texts: Sequence[TextSource], on_read: OnRead) -> None:
        self._sizes = {text.path: text.path.stat().st_size for text in texts}
        self._num_total = sum(text.path.stat().st_size for text in texts)
        self._on_read = on_read
        self._num_done = self._num_text_bytes = 0

    def lines(self, path: Path) -> Iterator[str]:
        size, num_bytes, told = self._sizes[path], 0, 0
        for line in read_lines(path):
            num_bytes += utf8_length(line) + 1
            if num_bytes - told >= _TELL_EVERY_BYTES:
                told = num_bytes
                self._tell(self._num_done + bytes_on_disk(path, num_bytes, size), num_bytes)
            yield line
        self._num_done += size
        self._num_text_bytes += num_bytes
        self._tell(self._num_done, 0)

    def _tell(self, num_done: int, num_new: int) -> None:
        self._on_read(ReadProgress(num_done, self._num_total, self._num_text_bytes + num_new))

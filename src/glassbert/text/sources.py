"""Files of raw text with their forms, and all their documents as one stream of blocks.

Vocabulary learning, `vocab inspect`, corpus build and corpus check all read text here.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glassbert.errors import DataError
from glassbert.messages import Log, to_stderr
from glassbert.text.documents import Form, Part, TextSource, detect_form, read_documents
from glassbert.text.files import bytes_on_disk, input_files, read_lines, utf8_length

# A block is the unit of work of a process: large enough that handing it over costs little.
_BLOCK_CHARACTERS = 1 << 19
_REPORT_EVERY_BYTES = 1 << 20


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
    """Files of text, each with its form."""

    texts: tuple[TextSource, ...]
    empty: tuple[Path, ...]
    """Files without text, which are left out."""

    def form_counts(self) -> Counter[Form]:
        """Return how many files have each form."""
        return Counter(source.form for source in self.texts)

    def describe(self, forms: Sequence[Form], log: Log) -> None:
        """Log the files that are left out, and which of ``forms`` were detected."""
        for path in self.empty if self.texts else ():
            log(f"{path}: no text in it; left out")
        for form, count in self.form_counts().items():
            if form in forms:
                example = next(source.path.name for source in self.texts if source.form == form)
                files = f"{count:,} file{'' if count == 1 else 's'}"
                log(f"form: {form} (detected; change it with --form), {files} such as {example}")


def find_sources(
    paths: str | Path | Sequence[str | Path],
    form: Form | None = None,
    *,
    on_error: Callable[[DataError], Form | None] | None = None,
) -> Sources:
    """Return the files that ``paths`` name, each in the form given or, without one, in the form it shows.

    Args:
        on_error: receives what is wrong with a file and returns the form to read it in, or None to leave it
            out; without it, the error is raised, and so is one if no file holds text.
    """
    texts, empty = [], []
    for path in input_files(paths):
        try:
            found = detect_form(path, form)
            if found is None:
                empty.append(path)
        except DataError as error:
            if on_error is None:
                raise
            found = on_error(error)
        if found is not None:
            texts.append(TextSource(path, found))
    if not texts and on_error is None:
        raise DataError(
            f"{', '.join(map(str, empty)) or 'no file given'}: no text in it; is it the right file?"
        )
    return Sources(tuple(texts), tuple(empty))


def read_blocks(
    texts: Sequence[TextSource],
    *,
    log: Log = to_stderr,
    on_read: OnRead | None = None,
    on_error: Callable[[DataError], None] | None = None,
) -> Iterator[tuple[Part, ...]]:
    """Yield all documents in blocks of about the same size; see `read_documents`."""
    read = _Meter(texts, on_read, log).lines if on_read else partial(read_lines, log=log)
    parts: list[Part] = []
    num_characters = 0
    for part in read_documents(texts, read, on_error):
        parts.append(part)
        num_characters += part.num_characters
        if num_characters >= _BLOCK_CHARACTERS:
            yield tuple(parts)
            parts, num_characters = [], 0
    if parts:
        yield tuple(parts)


class _Meter:
    """Reads lines and reports how far it is."""

    def __init__(self, texts: Sequence[TextSource], on_read: OnRead, log: Log) -> None:
        self._sizes = {text.path: text.path.stat().st_size for text in texts}
        self._num_total = sum(self._sizes[text.path] for text in texts)
        self._on_read, self._log = on_read, log
        self._num_done = self._num_text_bytes = 0

    def lines(self, path: Path) -> Iterator[str]:
        size, num_bytes, num_reported = self._sizes[path], 0, 0
        for line in read_lines(path, self._log):
            num_bytes += utf8_length(line) + 1
            if num_bytes - num_reported >= _REPORT_EVERY_BYTES:
                num_reported = num_bytes
                self._report(self._num_done + bytes_on_disk(path, num_bytes, size), num_bytes)
            yield line
        self._num_done += size
        self._num_text_bytes += num_bytes
        self._report(self._num_done, 0)

    def _report(self, num_done: int, num_new: int) -> None:
        self._on_read(ReadProgress(num_done, self._num_total, self._num_text_bytes + num_new))

"""The lines of a file: unpacked, decoded and numbered; a reader can look ahead."""

from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from glassbert.data.rows.record import Notes
from glassbert.text.files import read_lines

T = TypeVar("T")

_MAX_PEEKED = 1 << 20


class Ahead(Generic[T]):
    """An iterator whose next items can be looked at before they are taken."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._ahead: deque[T] = deque()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        return self._ahead.popleft() if self._ahead else next(self._items)

    def peek(self, count: int) -> list[T]:
        """Return the next ``count`` items, fewer at the end, without taking them."""
        while len(self._ahead) < count:
            try:
                self._ahead.append(next(self._items))
            except StopIteration:
                break
        return [item for item, _ in zip(self._ahead, range(count), strict=False)]


class Lines(Ahead[str]):
    """Lines that know their file and number."""

    def __init__(self, lines: Iterable[str], name: str) -> None:
        super().__init__(lines)
        self.name = name
        self.number = 0
        """Of the line that was taken last."""

    def __next__(self) -> str:
        line = super().__next__()
        self.number += 1
        return line

    @property
    def where(self) -> str:
        """The place of the line that was taken last."""
        return f"{self.name}:{self.number}"

    def peek_texts(self, count: int) -> list[str]:
        """Return the next ``count`` lines that are not blank without taking any.

        After very many blank lines, fewer are returned.
        """
        num_lines, texts, is_end = count, list[str](), False
        while len(texts) < count and not is_end:
            lines = self.peek(num_lines)
            texts = [line for line in lines if line.strip()][:count]
            is_end = len(lines) < num_lines or num_lines > _MAX_PEEKED
            num_lines *= 2
        return texts


def open_lines(path: Path, notes: Notes) -> Lines:
    """Return the lines of a file in UTF-8 or GB18030; a note says so if it is GB18030."""
    return Lines(read_lines(path, notes.say), str(path))

"""The lines of a file: unpacked, decoded, numbered, and open to a look ahead."""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Generic, TypeVar

from glassbert.data.rows.record import Notes
from glassbert.errors import DataError
from glassbert.text.files import decoded_lines, raw_lines

T = TypeVar("T")

_SAMPLE_LINES = 200

# Among any few hundred Chinese characters some are these; text in Big5 or EUC-KR that is taken for GB18030
# is all characters that nobody uses.
_FREQUENT = frozenset("\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\u6709\uff0c\u3002\u3001")
_ENOUGH_CHARACTERS = 200


class Ahead(Generic[T]):
    """An iterator that can be looked into before its items are taken."""

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
    """Lines that know where they stand."""

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
        """Return the next ``count`` lines that are not blank without taking any."""
        num_lines, texts, is_end = count, list[str](), False
        while len(texts) < count and not is_end:
            lines = self.peek(num_lines)
            texts = [line for line in lines if line.strip()][:count]
            is_end = len(lines) < num_lines
            num_lines *= 2
        return texts


def open_lines(path: Path, notes: Notes) -> Lines:
    """Return the lines of a file in UTF-8, or in GB18030 if that is what its bytes are."""
    return Lines(_decoded(Ahead(raw_lines(path)), path, notes), str(path))


def _decoded(raw_lines: Ahead[bytes], path: Path, notes: Notes) -> Iterator[str]:
    num_ascii = 0
    while (ahead := raw_lines.peek(1)) and ahead[0].isascii():
        yield _text(next(raw_lines), "ascii")
        num_ascii += 1
    sample = [raw for raw in raw_lines.peek(_SAMPLE_LINES) if not raw.isascii()]
    # A line of GB18030 is UTF-8 by chance at times, a file is not.
    if sum(map(_is_utf8, sample)) * 2 < len(sample) and _are_gb18030(sample):
        yield from _gb18030_lines(raw_lines, path, notes, num_ascii)
    else:
        # The empty lines stand for those above: the place of a wrong byte is counted from the first line on.
        all_lines = decoded_lines(chain(repeat(b"", num_ascii), raw_lines), str(path))
        yield from islice(all_lines, num_ascii, None)


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _gb18030_lines(raw_lines: Iterable[bytes], path: Path, notes: Notes, num_before: int) -> Iterator[str]:
    notes.say("read as GB18030, since it is not UTF-8; if characters look wrong, convert the file to UTF-8")
    for number, raw in enumerate(raw_lines, start=num_before + 1):
        try:
            yield _text(raw, "gb18030")
        except UnicodeDecodeError as error:
            raise DataError(
                f"{path}:{number}: byte {error.start + 1} (0x{raw[error.start]:02x}) is neither UTF-8 nor "
                "GB18030; convert the text to UTF-8 first, for example with iconv"
            ) from None


def _text(raw: bytes, encoding: str) -> str:
    return raw.decode(encoding).removesuffix("\n").removesuffix("\r")


def _are_gb18030(raw_lines: list[bytes]) -> bool:
    """Tell whether lines that are not UTF-8 read as Chinese; a few may be damaged.

    Nearly all bytes can be read as GB18030. Those of Latin-1 become rare characters, each of an accented
    letter and the letter after it; those of Chinese are mostly the characters of GB 2312, the common ones.
    """
    texts = [text for raw in raw_lines if (text := _gb18030(raw)) is not None]
    if len(texts) * 2 <= len(raw_lines):
        return False
    characters = [character for text in texts for character in text if not character.isascii()]
    num_common = len("".join(characters).encode("gb2312", errors="ignore")) // 2
    if num_common * 2 < len(characters):
        return False
    return len(characters) < _ENOUGH_CHARACTERS or not _FREQUENT.isdisjoint(characters)


def _gb18030(raw: bytes) -> str | None:
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return None

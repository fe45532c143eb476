"""What the pages of a parquet file become in memory, by their own headers.

The footer of a file counts bytes too, but readers do not need those counts, so they may be wrong. A reader
unpacks a page to the size that the header before it names. These headers, a few bytes each, are read here;
they are written in Thrift's compact protocol.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glassbert.open_files import PartsFile

_FIRST_BYTES = 1 << 10
_MAX_BYTES = 1 << 24
"""A header holds the least and the greatest value of its page; pyarrow refuses longer ones."""
_MAX_DEPTH = 8
# The types of values; a map is in no header.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 7, 8, 12
_INTEGERS, _LISTS = (4, 5, 6), (9, 10)
# The fields of a page's header, and of the headers within it.
_UNPACKED, _PACKED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
_SHARED_PREFIXES = 7
"""An encoding: a value is written as what it does not share with the one before."""


class NoPages(Exception):
    """The bytes are not the pages of a column; the message is the reason."""


@dataclass(frozen=True)
class Page:
    """What the header of a page says."""

    num_bytes: int
    """Unpacked."""
    num_packed_bytes: int
    num_values: int
    is_dictionary: bool
    has_shared_prefixes: bool


def pages(file: PartsFile, start: int, num_bytes: int) -> Iterator[Page]:
    """Yield the pages of a column, which are at these bytes of the file."""
    if start < 0 or num_bytes < 0 or start + num_bytes > file.size:
        raise NoPages(f"a column of {num_bytes:,} bytes at {start:,} in a file of {file.size:,}")
    end = start + num_bytes
    while start < end:
        header, size = _header(file, start, end)
        page = _page(header)
        yield page
        start += size + page.num_packed_bytes


def _header(file: PartsFile, start: int, end: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a header, and how long it is."""
    num_bytes = _FIRST_BYTES
    while True:
        reader = _Reader(bytes(file.read(start, min(num_bytes, end - start))))
        try:
            return reader.struct(), reader.at
        except IndexError:  # it is longer
            if num_bytes > min(_MAX_BYTES, end - start):
                raise NoPages(f"the header of the page at byte {start:,} has no end") from None
            num_bytes *= 8


def _page(header: dict[int, Any]) -> Page:
    data = next((header[kind] for kind in (_DATA, _DATA_2, _DICTIONARY) if kind in header), None)
    sizes = (header.get(_UNPACKED), header.get(_PACKED), data.get(1) if isinstance(data, dict) else 0)
    if not all(isinstance(one, int) and one >= 0 for one in sizes):
        raise NoPages("a page without a size")
    encoding = data.get(4 if _DATA_2 in header else 2) if isinstance(data, dict) else None
    return Page(*sizes, _DICTIONARY in header, encoding == _SHARED_PREFIXES)  # type: ignore[arg-type]


class _Reader:
    """Reads values from bytes; beyond their end it raises IndexError."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct by their numbers; only numbers and structs in it are kept."""
        fields: dict[int, Any] = {}
        number = 0
        while kind := self._byte():
            number = number + (kind >> 4) if kind >> 4 else self._integer()
            fields[number] = self._value(kind & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise NoPages("headers within headers")
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind in _INTEGERS:
            return self._integer()
        if kind in (_DOUBLE, _BINARY):
            return self._skip(8 if kind == _DOUBLE else self._varint())
        if kind in _LISTS:
            return self._list(depth)
        if kind == _STRUCT:
            return self.struct(depth + 1)
        raise NoPages(f"a header with a value of the type {kind}")

    def _list(self, depth: int) -> None:
        about = self._byte()
        count = about >> 4 if about >> 4 < 15 else self._varint()
        for _ in range(count):
            if about & 15 in (_TRUE, _FALSE):
                self._byte()
            else:
                self._value(about & 15, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise NoPages("a header with a number of too many bytes")
        return value | byte << shift

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)

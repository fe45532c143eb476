"""The byte formats under a TensorFlow checkpoint: varints, protobuf messages, the sorted table.

The table is LevelDB's, which TensorFlow uses for its ``.index`` files:

    file    data blocks, metaindex block, index block, footer
    footer  handle of the metaindex block, handle of the index block, padding, magic (8 bytes)
    handle  offset and size of a block's contents, two varints
    block   contents, kind (1 byte), masked CRC-32C of contents and kind (4 bytes)
    contents entries, restart offsets (4 bytes each), number of restarts (4 bytes)
    entry   three varints: key bytes shared with the key before, key bytes that follow, value bytes; then both

The index block's values are the handles of the data blocks. Restarts are for binary search; a reader of the
whole table skips them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Self

from glassbert.interop.tf1.crc32c import Bytes, masked_crc32c

_MAGIC = bytes.fromhex("57fb808b247547db")
_FOOTER_SIZE = 48
_CHECKSUM_SIZE = 4
# A key can repeat the whole key before it at the price of three bytes, so a small file could fill the memory.
_MAX_KEY_SIZE = 1024


class Damaged(Exception):
    """Bytes that contradict the format. The caller names the file in its message."""


class Unsupported(Exception):
    """Well-formed bytes that use a feature which is not read here."""


@dataclass
class Cursor:
    """A position in bytes that cannot be moved beyond their end."""

    data: bytes
    position: int = 0

    def is_at_end(self) -> bool:
        return self.position == len(self.data)

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.position:
            raise Damaged(f"{size} bytes are announced where {len(self.data) - self.position} are left")
        self.position += size
        return self.data[self.position - size : self.position]

    def fixed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "little")

    def varint(self) -> int:
        """Read seven bits a byte, lowest first, until a byte without the top bit."""
        value = 0
        for shift in range(0, 70, 7):
            byte = self.fixed(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
        raise Damaged("a varint is longer than 10 bytes")


@dataclass(frozen=True)
class Message:
    """The fields of one protobuf message by number; strings and nested messages stay bytes."""

    integers: dict[int, int] = field(default_factory=dict)
    parts: dict[int, list[bytes]] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        message, cursor = cls(), Cursor(data)
        while not cursor.is_at_end():
            number, wire_type = divmod(cursor.varint(), 8)
            match wire_type:
                case 0:
                    message.integers[number] = cursor.varint()
                case 1:
                    message.integers[number] = cursor.fixed(8)
                case 2:
                    message.parts.setdefault(number, []).append(cursor.take(cursor.varint()))
                case 5:
                    message.integers[number] = cursor.fixed(4)
                case _:
                    raise Damaged(f"protobuf wire type {wire_type} is unknown")
        return message

    def integer(self, number: int) -> int:
        """Return a signed field; protobuf leaves out fields that are zero."""
        value = self.integers.get(number, 0)
        return value - 2**64 if value >= 2**63 else value

    def nested(self, number: int) -> list["Message"]:
        return [Message.parse(part) for part in self.parts.get(number, [])]


def read_table(file: Bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a table, keys ascending, each block checked before it is used."""
    if len(file) < _FOOTER_SIZE:
        raise Damaged(f"{len(file)} bytes are too few for the {_FOOTER_SIZE} of a footer")
    footer = file[-_FOOTER_SIZE:].tobytes()
    if not footer.endswith(_MAGIC):
        raise Damaged("the last 8 bytes are not those of a TensorFlow index file")
    handles = Cursor(footer[: -len(_MAGIC)])
    _read_handle(handles)  # the metaindex block, empty in TensorFlow's tables
    previous: bytes | None = None
    for _, handle in _read_entries(_read_block(file, handles)):
        for key, value in _read_entries(_read_block(file, Cursor(handle))):
            if previous is not None and key <= previous:
                raise Damaged(f"key {key!r} comes after {previous!r}")
            yield key, value
            previous = key


def _read_handle(cursor: Cursor) -> tuple[int, int]:
    return cursor.varint(), cursor.varint()


def _read_block(file: Bytes, handle: Cursor) -> bytes:
    """Return a block's contents once its place, checksum and kind are right."""
    offset, size = _read_handle(handle)
    end = offset + size + 1
    if end + _CHECKSUM_SIZE > len(file) - _FOOTER_SIZE:
        raise Damaged(f"a block of {size} bytes at {offset} goes beyond the {len(file)} bytes of the file")
    stored = int.from_bytes(file[end : end + _CHECKSUM_SIZE].tobytes(), "little")
    if masked_crc32c(file[offset:end]) != stored:
        raise Damaged(f"the block of {size} bytes at {offset} fails its checksum")
    match int(file[end - 1]):
        case 0:
            return file[offset : end - 1].tobytes()
        case 1:
            raise Unsupported("has blocks compressed with snappy; save it again with TensorFlow's Saver")
        case kind:
            raise Unsupported(f"has blocks of unknown kind {kind}; save it again with TensorFlow's Saver")


def _read_entries(contents: bytes) -> Iterator[tuple[bytes, bytes]]:
    num_restarts = int.from_bytes(contents[-4:], "little")
    size = len(contents) - 4 * (num_restarts + 1)
    if size < 0:
        raise Damaged(f"a block of {len(contents)} bytes cannot hold {num_restarts} restarts")
    cursor, key = Cursor(contents[:size]), b""
    while not cursor.is_at_end():
        num_shared, num_own, value_size = cursor.varint(), cursor.varint(), cursor.varint()
        if num_shared > len(key):
            raise Damaged(f"a key shares {num_shared} bytes with one of {len(key)}")
        if num_shared + num_own > _MAX_KEY_SIZE:
            raise Damaged(f"a key has {num_shared + num_own} bytes; at most {_MAX_KEY_SIZE} are expected")
        key = key[:num_shared] + cursor.take(num_own)
        yield key, cursor.take(value_size)

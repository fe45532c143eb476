"""Files as bytes, unpacked a bounded piece at a time; one that unpacks to far more than its size is refused.

To add a packing, add its suffix and its reader to `PACKINGS`.
"""

import gzip
import importlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from glassbert.errors import DataError, UserError
from glassbert.open_files import PACKING_RATIO, open_stream

_CHUNK_BYTES = 1 << 18
# One packed kilobyte of Zstandard can become 32 MB, and its package unpacks all that it is given.
_ZSTANDARD_BYTES = 1 << 11
# A small file may well be one repeated line.
_NEVER_REFUSED_BYTES = 16 << 20


class Damaged(Exception):
    """A packed file that cannot be unpacked from here on; the message is the reason."""


def unpacked(path: str | Path) -> Iterator[bytes]:
    """Open a file, and return its bytes in small pieces; they raise `Damaged` where it cannot be unpacked."""
    path = Path(path)
    file = open_stream(path)
    unpack = PACKINGS.get(path.suffix)
    return _plain(file) if unpack is None else _bounded(unpack, _Packed(file, path))


def check_ratio(path: str | Path, num_bytes: int, num_packed_bytes: int) -> None:
    """Refuse a small file that would fill the memory or a disk."""
    if num_bytes > max(_NEVER_REFUSED_BYTES, PACKING_RATIO.value * num_packed_bytes):
        raise DataError(
            f"{path}: unpacks to more than {PACKING_RATIO.value:,} times its size; "
            f"unpack it first, or raise the limit with {PACKING_RATIO.variable}"
        )


def pieces_of(file: Any) -> Iterator[bytes]:
    """Yield the bytes of an open, buffered file as they arrive."""
    while chunk := file.read1(_CHUNK_BYTES):
        yield chunk


def _plain(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from pieces_of(file)


class _Packed:
    """A packed file that counts what was read of it."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self.path = file, path
        self.num_bytes = 0

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most ``size`` of them."""
        data: bytes = self._file.read1(size)  # type: ignore[attr-defined]  # what open() returns is buffered
        self.num_bytes += len(data)
        return data

    def close(self) -> None:
        self._file.close()


def _bounded(unpack: Callable[[_Packed], Iterator[bytes]], packed: _Packed) -> Iterator[bytes]:
    """Yield what ``unpack`` yields, in small pieces."""
    num_bytes = 0
    try:
        for chunk in unpack(packed):
            num_bytes += len(chunk)
            check_ratio(packed.path, num_bytes, packed.num_bytes)
            for start in range(0, len(chunk), _CHUNK_BYTES):
                yield chunk[start : start + _CHUNK_BYTES]
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise Damaged(str(error)) from None
    except Exception as error:
        # Both Zstandard modules raise their own class of this name, which may not be importable here.
        if type(error).__name__ != "ZstdError":
            raise
        raise Damaged(str(error)) from None
    finally:
        packed.close()


def _gzip(packed: _Packed) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=packed, mode="rb") as file:  # type: ignore[call-overload]  # needs read() only
        yield from pieces_of(file)


def _zstandard(packed: _Packed) -> Iterator[bytes]:
    """Unpack with the module of Python 3.14 or with the `zstandard` package, whichever is installed."""
    try:
        module = importlib.import_module("compression.zstd")
    except ImportError:
        yield from _zstandard_frames(packed, _zstandard_package(packed.path).ZstdDecompressor())
        return
    with module.open(packed, "rb") as file:
        yield from pieces_of(file)


def _zstandard_package(path: Path) -> Any:
    try:
        return importlib.import_module("zstandard")
    except ImportError:
        raise UserError(
            f"{path}: reading .zst needs Python 3.14 or the package zstandard; "
            "install it with `pip install zstandard`, or unpack the file first"
        ) from None


def _zstandard_frames(packed: _Packed, decompressor: Any) -> Iterator[bytes]:
    """Unpack frame by frame: the package's own file reader takes a truncated file for a whole one."""
    frame = None
    while data := packed.read(_ZSTANDARD_BYTES):
        while data:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the last frame is not complete")


PACKINGS: dict[str, Callable[[_Packed], Iterator[bytes]]] = {".gz": _gzip, ".zst": _zstandard}
"""The reader of each packing, by the suffix of the file."""

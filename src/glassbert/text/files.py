"""Read text line by line, plain or compressed."""

import gzip
import importlib
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from glassbert.errors import DataError, UserError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1 << 16


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without their line ends; `.gz` and `.zst` are unpacked on the way."""
    return decoded_lines(raw_lines(path), str(path))


def raw_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, unpacked; a damaged file is told."""
    return _checked(_unpacked_lines(path), path)


def decoded_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield ``lines`` as text; a byte that is not UTF-8 is named with its position in ``name``."""
    for number, raw in enumerate(lines, start=1):
        line = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 else raw
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            position = error.start + 1 + len(raw) - len(line)
            raise DataError(
                f"{name}:{number}: byte {position} (0x{line[error.start]:02x}) is not UTF-8; "
                "convert the text to UTF-8 first, for example with iconv"
            ) from None


def _unpacked_lines(path: Path) -> Iterator[bytes]:
    if path.suffix == ".gz":
        with gzip.open(path, "rb") as packed:
            yield from packed
    elif path.suffix == ".zst":
        yield from _zstandard_lines(path)
    else:
        with path.open("rb") as file:
            yield from file


def _zstandard_lines(path: Path) -> Iterator[bytes]:
    """Unpack with the module of Python 3.14 or with the `zstandard` package, whichever is there."""
    try:
        with importlib.import_module("compression.zstd").open(path, "rb") as packed:
            yield from packed
        return
    except ImportError:
        pass
    try:
        zstandard = importlib.import_module("zstandard")
    except ImportError:
        raise UserError(
            f"{path}: reading .zst needs Python 3.14 or the package zstandard; "
            "install it with `pip install zstandard`, or unpack the file first"
        ) from None
    rest = b""
    for chunk in _zstandard_chunks(path, zstandard.ZstdDecompressor()):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _zstandard_chunks(path: Path, decompressor: Any) -> Iterator[bytes]:
    """Unpack frame by frame: the package's own file reader takes a file that was cut off for a whole one."""
    frame = None
    with path.open("rb") as file:
        while data := file.read(_CHUNK_BYTES):
            while data:
                frame = frame or decompressor.decompressobj()
                yield frame.decompress(data)
                data = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the last frame is not complete")


def _checked(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yield ``lines``; damage of the packed file is told with the last line that could be read."""
    num_lines = 0
    try:
        for raw in lines:
            yield raw
            num_lines += 1
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise _damaged(path, num_lines, error) from None
    except Exception as error:
        # Both Zstandard modules raise a class of their own of this name, which may not be importable here.
        if type(error).__name__ != "ZstdError":
            raise
        raise _damaged(path, num_lines, error) from None


def _damaged(path: Path, num_lines: int, error: Exception) -> DataError:
    return DataError(f"{path}: damaged after line {num_lines} ({error}); fetch or pack the file again")

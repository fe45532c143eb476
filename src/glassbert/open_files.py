"""Open files that a user names, without waiting forever and without reading beyond a limit.

Each limit can be raised by the environment variable that its message names.
"""

import io
import os
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from glassbert.errors import DataError, ModelError, UserError

_MEGABYTE = 1 << 20
_WRITER_WAIT_S = 5.0
_POLL_S = 0.02


@dataclass(frozen=True)
class Limit:
    """A limit on how much is read."""

    variable: str
    """The environment variable that sets it."""
    default: int

    @property
    def value(self) -> int:
        """The limit that holds now."""
        text = os.environ.get(self.variable, "")
        if not text:
            return self.default
        if not (text.isdecimal() and text.isascii() and len(text) < 10 and int(text)):
            raise UserError(f"{self.variable}={text[:40]!r}; expected a whole number of 1 or more")
        return int(text)

    @property
    def num_bytes(self) -> int:
        """The same in bytes, for a limit in MB."""
        return self.value * _MEGABYTE

    def exceeded(self, what: str) -> str:
        """Return what a message says after the place: what is too long, and how to allow it."""
        return f"{what} of more than {self.value:,} MB; divide it, or raise the limit with {self.variable}"


LINE = Limit("GLASSBERT_MAX_LINE_MB", 8)
"""Of a line of text. The longest books have about 5 MB."""
CONFIG = Limit("GLASSBERT_MAX_CONFIG_MB", 8)
"""Of a file that describes something, such as config.json. A hundred thousand names of labels have 5 MB."""
DOCUMENT = Limit("GLASSBERT_MAX_DOCUMENT_MB", 256)
"""Of a file that is read as a whole, such as a JSON document or a vocabulary."""
PACKING_RATIO = Limit("GLASSBERT_MAX_PACKING_RATIO", 200)
"""How many bytes a packed byte may become. Text is packed to a third or a tenth."""


def open_stream(path: str | Path) -> BinaryIO:
    """Open a file, a pipe or a device to be read once, from its start to its end.

    A named pipe that nobody writes to is refused after a few seconds.
    """
    path = Path(path)
    _check_name(path, DataError)
    if not stat.S_ISFIFO(path.stat().st_mode):
        return path.open("rb")
    pipe = _Pipe(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
    stream = io.BufferedReader(pipe)
    deadline = time.monotonic() + _WRITER_WAIT_S
    while not stream.peek(1) and not pipe.has_writer:
        if time.monotonic() > deadline:
            stream.close()
            raise DataError(f"{path}: a pipe that nobody writes to; start its writer first, or give a file")
        time.sleep(_POLL_S)
    os.set_blocking(pipe.fileno(), True)
    return stream


def read_regular(path: str | Path, *, limit: Limit = DOCUMENT, error: type[UserError] = ModelError) -> bytes:
    """Return the bytes of a file that is read as a whole.

    A folder, a pipe or a device is refused at once, and so is a file beyond the limit. A missing file raises
    FileNotFoundError.
    """
    path = Path(path)
    check_regular(path, error=error)
    with path.open("rb") as file:
        content = file.read(limit.num_bytes + 1)
    if len(content) > limit.num_bytes:
        raise error(f"{path}: {limit.exceeded('a file')}")
    return content


def real_path(path: str | Path) -> Path:
    """Return a path without links; a circular one, on which pathlib fails, is returned unchanged."""
    _check_name(path, UserError)
    return Path(os.path.realpath(path))


def check_regular(path: str | Path, *, error: type[UserError] = ModelError) -> None:
    """Refuse a path that exists but is not a file: a folder, a pipe or a device."""
    _check_name(path, error)
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        raise error(f"{path}: expected a file, got {_kind(mode)}")


class PartsFile:
    """An open file of which parts are read.

    It is not mapped into memory: accessing a mapped file that was truncated in the meantime would kill the
    process. A read costs a few microseconds.
    """

    _seeking = threading.Lock()

    def __init__(self, path: str | Path, *, error: type[UserError] = ModelError) -> None:
        """Open a regular file; a missing one raises FileNotFoundError.

        Args:
            error: What to raise if it is not a file, or becomes shorter.
        """
        self.path, self._error = Path(path), error
        check_regular(self.path, error=error)
        self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.size = os.fstat(self._descriptor).st_size

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            os.close(self._descriptor)

    def read(self, start: int, num_bytes: int) -> bytes | bytearray:
        """Return ``num_bytes`` from byte ``start`` on."""
        if start + num_bytes > self.size:
            raise self._shorter()
        data = bytearray(num_bytes)
        self.read_into(start, memoryview(data))
        return data

    def read_into(self, start: int, buffer: memoryview) -> None:
        """Fill ``buffer`` with the bytes from ``start`` on."""
        done = 0
        while done < len(buffer):  # systems read at most 2 GB at once
            count = self._read_some(start + done, buffer[done:])
            if not count:
                raise self._shorter()
            done += count

    def _read_some(self, start: int, buffer: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._descriptor, [buffer], start)
        with self._seeking:
            os.lseek(self._descriptor, start, os.SEEK_SET)
            return os.readv(self._descriptor, [buffer])

    def _shorter(self) -> UserError:
        return self._error(f"{self.path}: became shorter since it was opened; write or fetch it again")


def _check_name(path: str | Path, error: type[UserError]) -> None:
    if "\0" in str(path):
        raise error(f"{path}: a path cannot hold the character NUL")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise error(f"{path}: a path cannot hold half of a character") from None


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    return "a pipe" if stat.S_ISFIFO(mode) else "a device"


class _Pipe(io.FileIO):
    """A pipe that is read without blocking, and that knows whether anybody writes to it."""

    has_writer = False

    def readinto(self, buffer: Any) -> Any:
        count = super().readinto(buffer)
        self.has_writer = self.has_writer or count is None  # nothing there yet, but not the end either
        return count

"""The one way in for files of text: which files, how they are packed, how they are encoded, line by line.

Text is UTF-8, with or without a byte order mark, or GB18030 if that is what the bytes are. To add a packing,
add its suffix and its reader to `_PACKINGS`.
"""

import codecs
import gzip
import importlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from glassbert.errors import DataError, UserError
from glassbert.messages import Log, to_stderr

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1 << 16
_USUAL_PACKING_RATIO = 3

_SAMPLE_LINES = 200
_SAMPLE_BYTES = 1 << 20

# A few hundred Chinese characters always include some of these; text in Big5 or EUC-KR that is read as
# GB18030 gives rare characters only.
_FREQUENT = frozenset("\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\u6709\uff0c\u3002\u3001")
_ENOUGH_CHARACTERS = 200


def input_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that ``paths`` name; a folder means all files in it that are not hidden."""
    if isinstance(paths, str | Path):
        paths = [paths]
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            path.stat()  # raises for a missing file before hours are spent on the others
            files.append(path)
            continue
        inside = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
        names = sorted(name for name in inside if not any(part[0] == "." for part in name.split("/")))
        if not names:
            raise DataError(f"{path}: no file in this folder; expected text files")
        files += [inside[name] for name in names]
    return files


def unpacked_name(path: str | Path) -> str:
    """Return the name of a file without the suffix of its packing."""
    name = Path(path).name
    for suffix in _PACKINGS:
        name = name.removesuffix(suffix)
    return name


def bytes_on_disk(path: str | Path, num_text_bytes: int, size: int) -> int:
    """Return how many of the ``size`` bytes of a file hold this much text; an estimate if it is packed."""
    ratio = _USUAL_PACKING_RATIO if Path(path).suffix in _PACKINGS else 1
    return min(num_text_bytes // ratio, size)


def utf8_length(text: str) -> int:
    """Return the number of bytes in UTF-8; a lone surrogate, which JSON can hold, counts too."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def read_lines(path: str | Path, log: Log = to_stderr) -> Iterator[str]:
    """Yield the lines of a file, unpacked and decoded, without their line ends.

    Args:
        log: receives a line if the file is read as GB18030.
    """
    lines = raw_lines(path)
    sample: list[bytes] = []
    num_ascii = 0
    for raw in lines:
        if not raw.isascii():
            sample = _sample(chain((raw,), lines))
            break
        yield _without_end(raw.decode("ascii"))
        num_ascii += 1
    is_gb18030 = _are_gb18030(sample)
    if is_gb18030:
        log(f"{path}: read as GB18030, since it is not UTF-8; if it looks wrong, convert the file to UTF-8")
    for number, raw in enumerate(chain(sample, lines), start=num_ascii + 1):
        yield _decoded(raw, str(path), number, is_gb18030=is_gb18030)


def raw_lines(path: str | Path) -> Iterator[bytes]:
    """Yield the lines of a file as bytes, unpacked; raises at the place where a packed file is damaged."""
    path = Path(path)
    return _checked(_PACKINGS.get(path.suffix, _plain_lines)(path), path)


def decoded_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 as text; raises with the position in ``name`` of a byte that is not UTF-8."""
    for number, raw in enumerate(lines, start=1):
        yield _decoded(raw, name, number)


def _sample(lines: Iterator[bytes]) -> list[bytes]:
    """Take enough lines to distinguish the encodings."""
    sample: list[bytes] = []
    num_bytes = 0
    for raw in lines:
        sample.append(raw)
        num_bytes += len(raw)
        if len(sample) == _SAMPLE_LINES or num_bytes >= _SAMPLE_BYTES:
            break
    return sample


def _decoded(raw: bytes, name: str, number: int, *, is_gb18030: bool = False) -> str:
    line = raw.removeprefix(_BYTE_ORDER_MARK) if number == 1 and not is_gb18030 else raw
    try:
        return _without_end(line.decode("gb18030" if is_gb18030 else "utf-8"))
    except UnicodeDecodeError as error:
        position = error.start + 1 + len(raw) - len(line)
        what = "neither UTF-8 nor GB18030" if is_gb18030 else "not UTF-8"
        raise DataError(
            f"{name}:{number}: byte {position} (0x{line[error.start]:02x}) is {what}; "
            "convert the text to UTF-8 first, for example with iconv"
        ) from None


def _without_end(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _are_gb18030(raw_lines: Sequence[bytes]) -> bool:
    """Return whether lines are not UTF-8 but Chinese in GB18030; a few may be damaged.

    Nearly all bytes can be read as GB18030. Those of Latin-1 become rare characters, each of an accented
    letter and the letter after it; those of Chinese are mostly the characters of GB 2312, the common ones.
    """
    lines = [raw for raw in raw_lines if not raw.isascii()]
    # A line of GB18030 is sometimes valid UTF-8, a file is not. No line means all ASCII, which is UTF-8.
    if sum(map(_is_utf8, lines)) * 2 >= len(lines):
        return False
    texts = [text for raw in lines if (text := _gb18030(raw)) is not None]
    if len(texts) * 2 <= len(lines):
        return False
    characters = [character for text in texts for character in text if not character.isascii()]
    num_common = len("".join(characters).encode("gb2312", errors="ignore")) // 2
    if num_common * 2 < len(characters):
        return False
    return len(characters) < _ENOUGH_CHARACTERS or not _FREQUENT.isdisjoint(characters)


def _is_utf8(raw: bytes) -> bool:
    """Return whether a line is UTF-8; the last one may end within a character if the file was cut off."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return False
    return True


def _gb18030(raw: bytes) -> str | None:
    try:
        return raw.decode("gb18030")
    except UnicodeDecodeError:
        return None


def _plain_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def _gzip_lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path, "rb") as packed:
        yield from packed


def _zstandard_lines(path: Path) -> Iterator[bytes]:
    """Unpack with the module of Python 3.14 or with the `zstandard` package, whichever is installed."""
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
    """Unpack frame by frame: the package's own file reader takes a truncated file for a whole one."""
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


_PACKINGS: dict[str, Callable[[Path], Iterator[bytes]]] = {".gz": _gzip_lines, ".zst": _zstandard_lines}
"""The reader of each packing, by the suffix of the file."""


def _checked(lines: Iterable[bytes], path: Path) -> Iterator[bytes]:
    """Yield ``lines``; raises with the last line that could be read if the packed file is damaged."""
    num_lines = 0
    try:
        for raw in lines:
            yield raw
            num_lines += 1
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise _damaged(path, num_lines, error) from None
    except Exception as error:
        # Both Zstandard modules raise their own class of this name, which may not be importable here.
        if type(error).__name__ != "ZstdError":
            raise
        raise _damaged(path, num_lines, error) from None


def _damaged(path: Path, num_lines: int, error: Exception) -> DataError:
    return DataError(f"{path}: damaged after line {num_lines} ({error}); download or pack the file again")

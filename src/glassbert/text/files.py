"""The only reader of text files: which files, and their lines, decoded.

Text is UTF-8, with or without a byte order mark, or GB18030 if that is what the bytes are. A line beyond the
limit is refused before it fills the memory. `unpack.py` unpacks.
"""

import codecs
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from glassbert.errors import DataError
from glassbert.messages import Log, to_stderr
from glassbert.open_files import DOCUMENT, LINE, Limit, check_regular
from glassbert.text.unpack import PACKINGS, Damaged, pieces_of, unpacked

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_USUAL_PACKING_RATIO = 3

_SAMPLE_LINES = 200
_SAMPLE_BYTES = 1 << 20

# A few hundred Chinese characters always include some of these; text in Big5 or EUC-KR that is read as
# GB18030 gives rare characters only.
_FREQUENT = frozenset("\u7684\u4e00\u662f\u4e0d\u4e86\u4eba\u6211\u5728\u6709\uff0c\u3002\u3001")
_ENOUGH_CHARACTERS = 200


def input_files(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files that ``paths`` name; a folder means all files in it that are not hidden.

    A pipe or a device is refused: files are read more than once.
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            check_regular(path, error=DataError)  # before hours are spent on the others
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
    for suffix in PACKINGS:
        name = name.removesuffix(suffix)
    return name


def bytes_on_disk(path: str | Path, num_text_bytes: int, size: int) -> int:
    """Return how many of the ``size`` bytes of a file hold this much text; an estimate if it is packed."""
    ratio = _USUAL_PACKING_RATIO if Path(path).suffix in PACKINGS else 1
    return min(num_text_bytes // ratio, size)


def utf8_length(text: str) -> int:
    """Return the number of bytes in UTF-8; a lone surrogate, which JSON can hold, counts too."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def read_lines(path: str | Path, log: Log = to_stderr) -> Iterator[str]:
    """Open a file, and return its lines, unpacked and decoded, without their line ends.

    Args:
        log: receives a line if the file is read as GB18030.
    """
    return _decoded_file(raw_lines(path), path, log)


def read_stream(stream: BinaryIO, name: str) -> Iterator[str]:
    """Yield the lines of an open stream of UTF-8 as they arrive; ``name`` is for messages."""
    return decoded_lines(_split(pieces_of(stream), name, LINE), name)


def raw_lines(path: str | Path) -> Iterator[bytes]:
    """Open a file, and return its lines as bytes, unpacked, without the line feed."""
    path = Path(path)
    # A JSON document may well be one line.
    limit = DOCUMENT if unpacked_name(path).endswith(".json") else LINE
    return _split(unpacked(path), str(path), limit)


def _decoded_file(lines: Iterator[bytes], path: str | Path, log: Log) -> Iterator[str]:
    sample: list[bytes] = []
    num_ascii = 0
    for raw in lines:
        if not raw.isascii():
            sample = _sample(chain((raw,), lines))
            break
        yield raw.decode("ascii").removesuffix("\r")
        num_ascii += 1
    is_gb18030 = _are_gb18030(sample)
    if is_gb18030:
        log(f"{path}: read as GB18030, since it is not UTF-8; if it looks wrong, convert the file to UTF-8")
    for number, raw in enumerate(chain(sample, lines), start=num_ascii + 1):
        yield _decoded(raw, str(path), number, is_gb18030=is_gb18030)


def decoded_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Yield lines of UTF-8 as text; raises with the position in ``name`` of a byte that is not UTF-8."""
    for number, raw in enumerate(lines, start=1):
        yield _decoded(raw, name, number)


def _split(chunks: Iterator[bytes], name: str, limit: Limit) -> Iterator[bytes]:
    """Yield the lines of a file, given in pieces, without the line feed.

    Raises at a line beyond the limit, and where a packed file is damaged.
    """
    max_bytes = limit.num_bytes
    begun: list[bytes] = []  # the line that no line feed has ended yet
    num_begun = num_lines = 0
    try:
        for chunk in chunks:
            first, *lines = chunk.split(b"\n")
            begun.append(first)
            num_begun += len(first)
            if num_begun > max_bytes:
                raise DataError(f"{name}:{num_lines + 1}: {limit.exceeded('a line')}")
            if lines:
                yield b"".join(begun)
                num_lines += len(lines)
                begun = [lines.pop()]
                num_begun = len(begun[0])
                yield from lines
    except Damaged as error:
        raise DataError(
            f"{name}: damaged after line {num_lines} ({error}); download or pack the file again"
        ) from None
    if num_begun:
        yield b"".join(begun)


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
        return line.decode("gb18030" if is_gb18030 else "utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        position = error.start + 1 + len(raw) - len(line)
        what = "neither UTF-8 nor GB18030" if is_gb18030 else "not UTF-8"
        raise DataError(
            f"{name}:{number}: byte {position} (0x{line[error.start]:02x}) is {what}; "
            "convert the text to UTF-8 first, for example with iconv"
        ) from None


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

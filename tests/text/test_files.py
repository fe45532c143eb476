import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from glassbert.errors import DataError, UserError
from glassbert.text.files import decoded_lines, read_lines

TEXT = "first\nzweite Zeile: größer\n\n第三行\u2028same line\nlast"
LINES = ["first", "zweite Zeile: größer", "", "第三行\u2028same line", "last"]


def test_plain_and_packed_files_give_the_same_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(TEXT.encode()[:20]) + gzip.compress(TEXT.encode()[20:]))
    assert list(read_lines(tmp_path / "a.txt")) == LINES
    assert list(read_lines(tmp_path / "a.txt.gz")) == LINES


def test_a_byte_order_mark_and_windows_line_ends_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "windows.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\r\n\xef\xbb\xbftwo\r\n")
    assert list(read_lines(path)) == ["one", "", "\ufefftwo"]


def test_lines_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    path.write_bytes(b"good\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == "good"
    with pytest.raises(DataError):
        next(lines)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"good\nab\xe9cd\n", r"text\.txt:2: byte 3 \(0xe9\) is not UTF-8; .*iconv"),
        (b"\xef\xbb\xbfab\xe9\n", r"text\.txt:1: byte 6 \(0xe9\)"),
        ("a".encode("utf-16"), r"text\.txt:1: byte 1 \(0xff\)"),
        ("cut off 中".encode()[:-1], r"text\.txt:1: byte 9 \(0xe4\)"),
    ],
)
def test_a_byte_that_is_not_utf8_is_named_with_its_place(tmp_path: Path, data: bytes, place: str) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(data)
    with pytest.raises(DataError, match=place) as raised:
        list(read_lines(path))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("damage", [lambda packed: packed[:-20], lambda packed: b"not gzip at all", bytes])
def test_a_damaged_archive_is_told_with_the_last_good_line(tmp_path: Path, damage) -> None:
    path = tmp_path / "text.gz"
    packed = gzip.compress(os.urandom(300_000).hex("\n", 40).encode())
    path.write_bytes(damage(packed))
    if damage is bytes:  # whole: the proof that the other two fail by their damage
        assert sum(1 for _ in read_lines(path)) == 7500
        return
    with pytest.raises(DataError, match=r"text\.gz: damaged after line \d+ \(.+\); fetch or pack"):
        list(read_lines(path))


def test_zst_without_a_module_for_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "text.zst"
    path.write_bytes(b"")
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UserError, match="pip install zstandard"):
        list(read_lines(path))


def test_zst_is_read_by_the_module_of_the_standard_library_and_its_damage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ZstdError(Exception):
        pass

    class Reader(io.BytesIO):
        def __iter__(self) -> Iterator[bytes]:
            yield from self.readlines()
            raise ZstdError("bad frame")

    module = ModuleType("compression.zstd")
    module.open = lambda path, mode: Reader(path.read_bytes())
    monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", module)
    (tmp_path / "text.zst").write_bytes(TEXT.encode())
    lines = read_lines(tmp_path / "text.zst")
    assert [next(lines) for _ in LINES] == LINES
    with pytest.raises(DataError, match=r"text\.zst: damaged after line 5 \(bad frame\)"):
        next(lines)


def test_zst_is_read_by_the_package_frame_by_frame_and_a_cut_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # zlib's objects have the same methods as those of the package, which need not be installed here.
    module = ModuleType("zstandard")
    module.ZstdDecompressor = lambda: SimpleNamespace(decompressobj=zlib.decompressobj)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", module)
    frames = zlib.compress(TEXT.encode()[:15]) + zlib.compress(TEXT.encode()[15:])
    (tmp_path / "text.zst").write_bytes(frames)
    assert list(read_lines(tmp_path / "text.zst")) == LINES
    (tmp_path / "text.zst").write_bytes(frames[:-3])
    with pytest.raises(DataError, match=r"damaged after line \d \(the last frame is not complete\)"):
        list(read_lines(tmp_path / "text.zst"))


def test_any_source_of_raw_lines_can_be_decoded() -> None:
    assert list(decoded_lines([b"one\n", "zwölf".encode()], "stdin")) == ["one", "zwölf"]
    with pytest.raises(DataError, match=r"^stdin:2: byte 1 \(0xff\)"):
        list(decoded_lines([b"one\n", b"\xff"], "stdin"))

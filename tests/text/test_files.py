import gzip
import io
import os
import sys
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from glassbert.errors import DataError, UserError
from glassbert.text import files, unpack
from glassbert.text.files import bytes_on_disk, input_files, read_lines, read_stream, unpacked_name

TEXT = "first\nzweite Zeile: größer\n\n第三行\u2028same line\nlast"
LINES = ["first", "zweite Zeile: größer", "", "第三行\u2028same line", "last"]


def write_packed(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


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
def test_a_damaged_archive_is_reported_with_the_last_good_line(tmp_path: Path, damage) -> None:
    path = tmp_path / "text.gz"
    packed = gzip.compress(os.urandom(300_000).hex("\n", 40).encode())
    path.write_bytes(damage(packed))
    if damage is bytes:  # whole: the proof that the other two fail by their damage
        assert sum(1 for _ in read_lines(path)) == 7500
        return
    with pytest.raises(DataError, match=r"text\.gz: damaged after line \d+ \(.+\); download or pack"):
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


def test_zst_is_read_by_the_standard_library_and_damage_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ZstdError(Exception):
        pass

    class Reader(io.BytesIO):
        is_damaged = False

        def read1(self, size: int = -1) -> bytes:
            if self.is_damaged and not self.getbuffer()[self.tell() :]:
                raise ZstdError("bad frame")
            return super().read1(size)

    module = ModuleType("compression.zstd")
    module.open = lambda packed, mode: Reader(packed.read())
    monkeypatch.setitem(sys.modules, "compression", ModuleType("compression"))
    monkeypatch.setitem(sys.modules, "compression.zstd", module)
    (tmp_path / "text.zst").write_bytes(TEXT.encode())
    assert list(read_lines(tmp_path / "text.zst")) == LINES
    Reader.is_damaged = True
    with pytest.raises(DataError, match=r"text\.zst: damaged after line 4 \(bad frame\)"):
        list(read_lines(tmp_path / "text.zst"))


def test_zst_is_read_by_the_package_frame_by_frame_and_a_truncated_file_is_reported(
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


def test_a_stream_is_decoded_line_by_line() -> None:
    assert list(read_stream(io.BytesIO(TEXT.encode()), "stdin")) == LINES
    with pytest.raises(DataError, match=r"^stdin:2: byte 1 \(0xff\)"):
        list(read_stream(io.BytesIO(b"one\n\xff"), "stdin"))


def test_a_line_of_a_stream_is_there_before_the_next_one_is_written() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stream, open(writing, "wb", buffering=0) as writer:
        lines = read_stream(stream, "stdin")
        for text in ("one", "two"):
            writer.write(f"{text}\n".encode())
            assert next(lines) == text


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_line_beyond_the_limit_is_refused_in_bounded_memory(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", "1")
    whole = b"short\n" + b"x" * (1 << 20) + b"\nshort\n"
    write_packed(tmp_path / name, whole)
    assert sum(map(len, read_lines(tmp_path / name))) == (1 << 20) + 10
    write_packed(tmp_path / name, whole.replace(b"xx", b"xxx", 1) + b"y" * (64 << 20))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"a\.txt.*:2: a line of more than 1 MB; .* GLASSBERT_MAX_LINE_MB$"):
        list(read_lines(tmp_path / name))
    assert tracemalloc.get_traced_memory()[1] < 8 << 20
    tracemalloc.stop()


def test_a_json_document_may_be_one_long_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", "1")
    write_packed(tmp_path / "a.json.gz", b"x" * (2 << 20))
    assert len(next(read_lines(tmp_path / "a.json.gz"))) == 2 << 20
    monkeypatch.setenv("GLASSBERT_MAX_DOCUMENT_MB", "1")
    with pytest.raises(DataError, match="GLASSBERT_MAX_DOCUMENT_MB"):
        next(read_lines(tmp_path / "a.json.gz"))


@pytest.mark.parametrize("line", [b"\0", b"a line\n"])
def test_a_bomb_is_refused_soon(tmp_path: Path, line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", "100000")
    monkeypatch.setattr(unpack, "_NEVER_REFUSED_BYTES", 1 << 20)
    write_packed(tmp_path / "bomb.gz", line * ((4 << 20) // len(line)))
    with pytest.raises(DataError, match=r"bomb\.gz: unpacks to more than 200 times its size; .*_RATIO$"):
        list(read_lines(tmp_path / "bomb.gz"))
    monkeypatch.setenv("GLASSBERT_MAX_PACKING_RATIO", "2000")
    assert sum(map(len, read_lines(tmp_path / "bomb.gz"))) > 3 << 20


def test_a_limit_that_is_not_a_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_bytes(b"text")
    for wrong in ("0", "-1", "nan", "1e9", "9" * 5000, "\u0663"):
        monkeypatch.setenv("GLASSBERT_MAX_LINE_MB", wrong)
        with pytest.raises(UserError, match=r"GLASSBERT_MAX_LINE_MB='.{1,40}'; expected a whole number"):
            list(read_lines(tmp_path / "a.txt"))


def test_a_file_that_is_deleted_after_it_was_opened_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    lines = read_lines(tmp_path / "a.txt")
    (tmp_path / "a.txt").unlink()
    assert list(lines) == ["one", "two"]


def test_pipes_and_devices_are_refused_where_files_are_read_more_than_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises(DataError, match=f"{path}: expected a file, got {kind}"):
            input_files([path])


def test_a_folder_means_its_files_in_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.txt", "a.txt", ".hidden", ".git/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert input_files([tmp_path]) == [tmp_path / "a.txt", tmp_path / "a/z.txt", tmp_path / "b.txt"]


def test_one_name_is_as_good_as_a_list(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.touch()
    assert input_files(str(path)) == input_files(path) == input_files([str(path)]) == [path]


def test_a_missing_file_is_reported_before_any_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(FileNotFoundError, match="nope"):
        input_files([tmp_path / "a.txt", tmp_path / "nope.txt"])


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file in this folder"):
        input_files([tmp_path])


def test_packings_are_not_part_of_a_name_and_shrink_a_file() -> None:
    assert unpacked_name("folder/a.jsonl.gz") == unpacked_name("a.jsonl.zst") == unpacked_name("a.jsonl")
    assert bytes_on_disk("a.txt", 300, 1000) == 300
    assert bytes_on_disk("a.txt.gz", 300, 1000) == 100
    assert bytes_on_disk("a.txt.gz", 9000, 1000) == 1000


CHINESE = "这家酒店的服务不错，房间也很干净。\n早餐一般，下次不会再来了。\n"
FRENCH = "Un été très agréable à la plage\nLe café était fermé\n"


def write(folder: Path, name: str, text: str | bytes) -> Path:
    (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    return folder / name


def read(path: Path) -> tuple[list[str], list[str]]:
    log: list[str] = []
    return list(read_lines(path, log.append)), log


@pytest.mark.parametrize("num_ascii", [0, 1, 500])
def test_a_file_in_gb18030_is_read_and_reported(tmp_path: Path, num_ascii: int) -> None:
    path = write(tmp_path, "a.txt", b"ascii\n" * num_ascii + CHINESE.encode("gb18030"))
    lines, log = read(path)
    assert lines == ["ascii"] * num_ascii + CHINESE.splitlines()
    assert len(log) == 1
    assert log[0].startswith(f"{path}: read as GB18030")


def test_a_line_of_gb18030_that_happens_to_be_utf8_is_read_like_its_neighbours(tmp_path: Path) -> None:
    chance = bytes([0xC2, 0xA1, 0xC3, 0xA2])  # two characters in either encoding
    lines, _ = read(write(tmp_path, "a", chance + b"\n" + CHINESE.encode("gb18030")))
    assert lines[0] == chance.decode("gb18030") != chance.decode("utf-8")


def test_text_in_utf8_is_never_taken_for_gb18030(tmp_path: Path) -> None:
    assert read(write(tmp_path, "a", CHINESE)) == (CHINESE.splitlines(), [])
    assert read(write(tmp_path, "b", "ascii\n" * 3 + FRENCH)) == (["ascii"] * 3 + FRENCH.splitlines(), [])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1251", "shift-jis"])
def test_other_encodings_are_refused_with_the_line(tmp_path: Path, encoding: str) -> None:
    text = {"cp1251": "Это было очень интересно\n", "shift-jis": "これはとても良い映画でした\n"}.get(
        encoding, "plain\n" + FRENCH
    )
    with pytest.raises(DataError, match=r"a\.txt:[12]: byte \d+ \(0x\w\w\) is not UTF-8; convert"):
        read(write(tmp_path, "a.txt", text.encode(encoding)))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("big5", "這家酒店的服務態度非常好，房間也很乾淨，下次還會再來的。\n"),
        ("euc-kr", "이 영화는 정말 재미있었습니다 배우들의 연기도 훌륭했고 음악도 좋았다\n"),
    ],
)
def test_long_texts_of_other_scripts_are_not_taken_for_gb18030(
    tmp_path: Path, encoding: str, text: str
) -> None:
    with pytest.raises(DataError, match=r"a\.txt:1: byte 1 .* is not UTF-8"):
        read(write(tmp_path, "a.txt", (text * 20).encode(encoding)))


def test_a_wrong_byte_is_reported_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a:4: byte 3 \(0xff\) is not UTF-8"):
        read(write(tmp_path, "a", b"ascii\nascii\n" + "größe\nab".encode() + b"\xff\n"))
    with pytest.raises(DataError, match=r"b:4: byte 1 \(0xff\) is neither UTF-8 nor GB18030"):
        read(write(tmp_path, "b", b"ascii\n" + CHINESE.encode("gb18030") + b"\xff\n"))


def test_few_large_lines_are_read_to_detect_the_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "今天的天气很好，" * 60_000
    raw = line.encode("gb18030")
    taken: list[bytes] = []

    def lines_of(_: Path) -> Iterator[bytes]:
        for _ in range(10):
            taken.append(raw)
            yield raw

    monkeypatch.setattr(files, "raw_lines", lines_of)
    lines = read_lines(tmp_path / "a.txt", lambda _: None)
    assert next(lines) == line
    assert len(taken) == 2, "more would fill the memory"
    assert len(list(lines)) == 9

from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.rows.lines import Ahead, Lines, open_lines
from glassbert.data.rows.record import Notes
from glassbert.errors import DataError

Write = Callable[[str, str | bytes], Path]

CHINESE = "这家酒店的服务不错，房间也很干净。\t好评\n早餐一般，下次不会再来了。\t差评\n"
FRENCH = "Un été très agréable à la plage\tpositif\nLe café était fermé\tnégatif\n"


def read(path: Path) -> tuple[list[str], list[str]]:
    notes = Notes()
    return list(open_lines(path, notes)), notes.lines()


def test_looking_ahead_takes_nothing() -> None:
    items = Ahead(iter(range(5)))
    assert items.peek(2) == [0, 1]
    assert next(items) == 0
    assert items.peek(10) == [1, 2, 3, 4]
    assert list(items) == [1, 2, 3, 4]
    assert items.peek(1) == []


def test_looking_ahead_reads_no_more_than_asked() -> None:
    def endless():  # type: ignore[no-untyped-def]
        yield 1
        raise AssertionError("read too far")

    assert Ahead(endless()).peek(1) == [1]
    assert Lines(map(str, endless()), "f").peek_texts(1) == ["1"]


def test_lines_know_where_they_stand_whatever_was_looked_at() -> None:
    lines = Lines(["a", "", "b"], "f")
    assert lines.peek_texts(2) == ["a", "b"]
    assert [(line, lines.where) for line in lines] == [("a", "f:1"), ("", "f:2"), ("b", "f:3")]


def test_marks_and_line_ends_of_windows_are_dropped(write: Write) -> None:
    assert read(write("a", b"\xef\xbb\xbfone\r\ntwo\r\n")) == (["one", "two"], [])


@pytest.mark.parametrize("num_ascii", [0, 1, 500])
def test_a_file_in_gb18030_is_read_and_told(write: Write, num_ascii: int) -> None:
    path = write("a.tsv", b"text\tlabel\n" * num_ascii + CHINESE.encode("gb18030"))
    lines, notes = read(path)
    assert lines == ["text\tlabel"] * num_ascii + CHINESE.splitlines()
    assert len(notes) == 1
    assert notes[0].startswith("read as GB18030")


def test_a_line_of_gb18030_that_is_utf8_by_chance_is_read_like_its_neighbours(write: Write) -> None:
    chance = bytes([0xC2, 0xA1, 0xC3, 0xA2])  # two characters in either encoding
    lines, _ = read(write("a", chance + b"\n" + CHINESE.encode("gb18030")))
    assert lines[0] == chance.decode("gb18030") != chance.decode("utf-8")


def test_text_in_utf8_is_never_taken_for_gb18030(write: Write) -> None:
    assert read(write("a", CHINESE)) == (CHINESE.splitlines(), [])
    assert read(write("b", "ascii\n" * 3 + FRENCH)) == (["ascii"] * 3 + FRENCH.splitlines(), [])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "cp1251", "shift-jis"])
def test_other_encodings_are_refused_with_the_line(write: Write, encoding: str) -> None:
    text = {"cp1251": "Это было очень интересно\n", "shift-jis": "これはとても良い映画でした\n"}.get(
        encoding, "plain\n" + FRENCH
    )
    with pytest.raises(DataError, match=r"a\.tsv:[12]: byte \d+ \(0x\w\w\) is not UTF-8; convert"):
        read(write("a.tsv", text.encode(encoding)))


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("big5", "這家酒店的服務態度非常好，房間也很乾淨，下次還會再來的。\n"),
        ("euc-kr", "이 영화는 정말 재미있었습니다 배우들의 연기도 훌륭했고 음악도 좋았다\n"),
    ],
)
def test_long_texts_of_other_scripts_are_not_taken_for_gb18030(
    write: Write, encoding: str, text: str
) -> None:
    with pytest.raises(DataError, match=r"a\.txt:1: byte 1 .* is not UTF-8"):
        read(write("a.txt", (text * 20).encode(encoding)))


def test_a_wrong_byte_is_told_with_its_line(write: Write) -> None:
    with pytest.raises(DataError, match=r"a:4: byte 3 \(0xff\) is not UTF-8"):
        read(write("a", b"ascii\nascii\n" + "größe\nab".encode() + b"\xff\n"))
    with pytest.raises(DataError, match=r"b:4: byte 1 \(0xff\) is neither UTF-8 nor GB18030"):
        read(write("b", b"ascii\n" + CHINESE.encode("gb18030") + b"\xff\n"))

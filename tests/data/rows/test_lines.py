from collections.abc import Callable
from pathlib import Path

from glassbert.data.rows.lines import Ahead, Lines, open_lines
from glassbert.data.rows.record import Notes

Write = Callable[[str, str | bytes], Path]

CHINESE = "这家酒店的服务不错，房间也很干净。\t好评\n早餐一般，下次不会再来了。\t差评\n"


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


def test_lines_know_their_number_however_far_a_reader_looked_ahead() -> None:
    lines = Lines(["a", "", "b"], "f")
    assert lines.peek_texts(2) == ["a", "b"]
    assert [(line, lines.where) for line in lines] == [("a", "f:1"), ("", "f:2"), ("b", "f:3")]


def test_marks_and_line_ends_of_windows_are_dropped(write: Write) -> None:
    assert read(write("a", b"\xef\xbb\xbfone\r\ntwo\r\n")) == (["one", "two"], [])


def test_a_file_in_gb18030_is_read_and_noted(write: Write) -> None:
    path = write("a.tsv", b"text\tlabel\n" + CHINESE.encode("gb18030"))
    lines, notes = read(path)
    assert lines == ["text\tlabel", *CHINESE.splitlines()]
    assert [note.split(";")[0] for note in notes] == [f"{path}: read as GB18030, since it is not UTF-8"]

import gzip
import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.errors import DataError
from glassbert.text import documents
from glassbert.text.documents import FORMS, Form, TextSource, detect_form, read_documents

TWO = "It rained all day. We stayed in."
WIKITEXT = (
    " \n = Cats = \n \n Cats sleep . \n \n = = Food = = \n \n They eat . \n \n = Dogs = \n \n Dogs bark . \n"
)


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    data = text.encode("utf-8", "surrogatepass")
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def texts_of(path: Path, form: Form) -> list[list[str]]:
    parts = list(read_documents([TextSource(path, form)]))
    assert [part.number for part in parts] == list(range(len(parts)))
    assert all(part.is_last for part in parts)
    return [[line.strip() for line in part.lines if line.strip()] for part in parts]


def test_blank_lines_separate_documents(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\na\nb\n \n\nc\n\n")
    assert texts_of(path, "sentences") == texts_of(path, "paragraphs") == [["a", "b"], ["c"]]


def test_each_line_is_a_document(tmp_path: Path) -> None:
    assert texts_of(write(tmp_path, "a\n\nb\nc"), "documents") == [["a"], ["b"], ["c"]]


def test_each_json_text_is_a_document_with_paragraphs(tmp_path: Path) -> None:
    rows = [{"text": "a\nb\r\nc"}, {"text": "", "title": "no"}, {"text": "d\x0be\u2028f"}]
    path = write(tmp_path, "".join(f"{json.dumps(row)}\n\n" for row in rows))
    assert texts_of(path, "jsonl") == [["a", "b", "c"], [], ["d\x0be\u2028f"]]


def test_a_title_opens_a_document_and_headings_lose_their_marks(tmp_path: Path) -> None:
    expected = [["Cats", "Cats sleep .", "Food", "They eat ."], ["Dogs", "Dogs bark ."]]
    assert texts_of(write(tmp_path, WIKITEXT), "wikitext") == expected


def test_text_before_the_first_title_is_a_document(tmp_path: Path) -> None:
    assert texts_of(write(tmp_path, "a = b\n = C = \nd\n"), "wikitext") == [["a = b"], ["C", "d"]]


@pytest.mark.parametrize("form", FORMS)
def test_lines_know_their_numbers(form: Form, tmp_path: Path) -> None:
    text = '\n{"text": "a"}\n\n = B = \n' if form != "jsonl" else '\n{"text": "a"}\n\n{"text": "b"}\n'
    path = write(tmp_path, text)
    for part in read_documents([TextSource(path, form)]):
        for index, line in enumerate(part.lines):
            number = part.line_number(index)
            assert not line.strip() or line.strip(" =").lower() in text.split("\n")[number - 1].lower()


def test_documents_are_numbered_through_all_files_and_end_with_them(tmp_path: Path) -> None:
    one = TextSource(write(tmp_path, "a\n\nb\n"), "sentences")
    two = TextSource(write(tmp_path, "c\n", "b.txt"), "sentences")
    assert [(part.number, part.path.name) for part in read_documents([one, two])] == [
        (0, "a.txt"),
        (1, "a.txt"),
        (2, "b.txt"),
    ]


def test_a_long_document_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 4)
    path = write(tmp_path, "aa\nbb\ncc\ndd\n\nee\n")
    parts = list(read_documents([TextSource(path, "sentences")]))
    assert [(part.number, part.first_line, part.is_last) for part in parts] == [
        (0, 1, False),
        (0, 3, True),
        (1, 5, True),
    ]
    assert [line for part in parts for line in part.lines if line] == ["aa", "bb", "cc", "dd", "ee"]


@pytest.mark.parametrize(
    ("text", "name", "form"),
    [
        ("One.\nTwo.\n\nThree.\n", "a.txt", "sentences"),
        ("今天下雨；我们在家。\n明天呢？\n\n好。\n", "a.txt.gz", "sentences"),
        (f"{TWO}\n{TWO}\n\n{TWO}\n", "a.txt", "paragraphs"),
        (f"{TWO}\n{TWO}\n{TWO}\n", "a.txt", "documents"),
        (f"{TWO}\n\n{TWO}\n\n{TWO}\n", "a.txt", "documents"),
        ("今天下雨。我们在家。\n明天呢？不知道。\n", "a.txt", "documents"),
        ("One.", "a.txt", "documents"),
        ('{"text": "One."}\n', "a.txt", "jsonl"),
        ('{"text": "One."}\n', "a.jsonl.gz", "jsonl"),
        (WIKITEXT, "wiki.raw", "wikitext"),
        ("", "a.txt", None),
        (" \n\n", "a.txt", None),
        ("\n", "a.jsonl", None),
    ],
)
def test_the_form_is_detected(text: str, name: str, form: Form | None, tmp_path: Path) -> None:
    assert detect_form(write(tmp_path, text, name)) == form


@pytest.mark.parametrize("text", ["One.\nTwo.\nThree.\n", "One.\n\nTwo.\n\nThree.\n", "明天呢？\n不知道。\n"])
def test_an_ambiguous_form_is_refused_with_what_to_do(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt: .*--form documents .* --form sentences"):
        detect_form(write(tmp_path, text))


@pytest.mark.parametrize("line", ['{"title": "a"}', "{a"])
def test_json_without_text_is_named(line: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.txt:2: .*\"text\"|a\.txt:2: .*object"):
        detect_form(write(tmp_path, f"\n{line}\n"))


@given(st.lists(st.sampled_from(["= ", " =", "=", " ", "a", "\t", "Title", " ="]), max_size=9).map("".join))
def test_headings_lose_their_marks_as_by_one_regular_expression(line: str) -> None:
    heading = re.fullmatch(r"\s*((?:= )+)(.*?)(?: =)+\s*", line)
    assert documents._without_marks(line) == (heading[2] if heading else line)


def test_a_long_line_of_marks_takes_no_time() -> None:
    for line in ("= " * 1_000_000 + "x", "= " + " =" * 1_000_000 + "x =", " " * 1_000_000 + "="):
        started = time.process_time()
        assert len(documents._without_marks(line)) > 1_000_000
        assert time.process_time() - started < 1


def test_blank_lines_without_end_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_PART_LINES", 10)
    lines = iter(["= T =", *[""] * 100, "words"])
    parts = list(documents._wikitext_documents(lines, Path("a")))
    assert [len(lines) for _, lines, _, _ in parts] == [10] * 10 + [2]
    assert [is_last for _, _, is_last, _ in parts] == [False] * 10 + [True]

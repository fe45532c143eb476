import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions, Table, TextExample
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.rows import CLASSIFY, PAIR

Write = Callable[[str, str | bytes], Path]


def rows(table: Table[TextExample]) -> list[tuple[str, str | None, tuple[str, ...]]]:
    return [(example.text, example.pair, example.labels) for example in table.examples]


@pytest.mark.parametrize(
    "header",
    [
        "sentence\tlabel",
        "review\trating",
        "Text_A\tLabel",
        "文本\t标签",
        "内容\t类别",
        "评论内容\t情感倾向",
        "Text\tQuality",
    ],
)
def test_usual_names_of_columns_are_known(write: Write, header: str) -> None:
    assert rows(read_examples(CLASSIFY, write("a.tsv", f"{header}\ngood\tA\nbad\tB\n"))) == [
        ("good", None, ("A",)),
        ("bad", None, ("B",)),
    ]


@pytest.mark.parametrize(
    "header",
    [
        "sentence1\tsentence2\tlabel",
        "question1\tquestion2\tis_duplicate",
        "text_a\ttext_b\tlabels",
        "#1 String\t#2 String\tQuality",
        "premise\thypothesis\tgold_label",
        "句子1\t句子2\t标签",
        "query\ttitle\tclass",
    ],
)
def test_usual_names_of_pairs_are_known(write: Write, header: str) -> None:
    assert rows(read_examples(PAIR, write("a.tsv", f"{header}\nx\ty\t1\nz\tw\t0\n"))) == [
        ("x", "y", ("1",)),
        ("z", "w", ("0",)),
    ]


def test_columns_may_be_in_any_order_and_unused_ones_are_reported(write: Write) -> None:
    path = write("a.csv", "id,label,title,content\n1,A,head,body\n")
    table = read_examples(CLASSIFY, path)
    assert rows(table) == [("body", None, ("A",))]
    assert table.notes == [
        "columns: text = 'content', label = 'label'",
        "columns that are not used: 'id', 'title'",
    ]


def test_quotes_are_characters_in_tsv(write: Write) -> None:
    text = 'sentence1\tsentence2\tlabel\n" He left .\the said " no " .\t1\n'
    assert rows(read_examples(PAIR, write("a.tsv", text))) == [('" He left .', 'he said " no " .', ("1",))]


def test_quotes_of_csv_may_hold_commas_quotes_and_lines(write: Write) -> None:
    text = 'text,label\r\n"a, ""b""\r\nc",X\r\nplain,Y\r\n'
    table = read_examples(CLASSIFY, write("a.csv", text))
    assert rows(table) == [('a, "b"\nc', None, ("X",)), ("plain", None, ("Y",))]
    assert [example.where.rsplit(":", 1)[1] for example in table.examples] == ["2", "4"]


@pytest.mark.parametrize(("delimiter", "reported"), [(";", "';'"), ("\t", r"'\t'")])
def test_other_delimiters_of_csv_are_detected_and_reported(
    write: Write, delimiter: str, reported: str
) -> None:
    path = write("a.csv", f'text{delimiter}label\n"a{delimiter}b"{delimiter}X\n')
    table = read_examples(CLASSIFY, path)
    assert rows(table) == [(f"a{delimiter}b", None, ("X",))]
    assert f"cells are separated by {reported}" in table.notes


def test_a_tsv_with_quotes_can_be_read_as_csv(write: Write) -> None:
    path = write("a.tsv", 'text\tlabel\n"a ""b"""\tX\n')
    assert rows(read_examples(CLASSIFY, path, ReadOptions(format="csv"))) == [('a "b"', None, ("X",))]


def test_a_cell_of_csv_may_be_as_long_as_a_book(write: Write) -> None:
    path = write("a.csv", f"text,label\n{'x' * 300_000},A\n")
    assert len(read_examples(CLASSIFY, path).examples[0].text) == 300_000


def test_a_quote_that_is_never_closed_is_reported_with_its_line(write: Write) -> None:
    with pytest.raises(DataError, match=r'a\.csv:3: a quote \("\) that opens here is never closed'):
        read_examples(CLASSIFY, write("a.csv", 'text,label\ngood,A\n"bad,B\nmore,A\n'))


def test_a_row_that_is_no_csv_is_bad_and_the_next_is_read(write: Write) -> None:
    path = write("a.csv", 'text,label\n"quoted" and more,A\nfine,B\n')
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=1))
    assert rows(table) == [("fine", None, ("B",))]
    assert table.bad[0].where.endswith("a.csv:2")
    assert table.bad[0].reason.startswith("not CSV")


def test_rows_with_the_wrong_number_of_columns_are_bad(write: Write) -> None:
    path = write("a.tsv", "text\tlabel\nfine\tA\nno label\na\tb\tA\n\nlast\tB\n")
    table = read_examples(CLASSIFY, path, ReadOptions(skip_bad=2))
    assert rows(table) == [("fine", None, ("A",)), ("last", None, ("B",))]
    assert [(bad.where.rsplit(":", 1)[1], bad.reason) for bad in table.bad] == [
        ("3", "1 columns, expected 2"),
        ("4", "3 columns, expected 2"),
    ]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("a film\tpos\nb film\tneg\nc film\tpos\n", "no header: column 0 is the text, column 1 is the label"),
        ("pos\ta film\nneg\tb film\npos\tc film\n", "no header: column 1 is the text, column 0 is the label"),
        ("pos\ta film\nneg\tb film\n", "no header: column 1 is the text, column 0 is the label"),
    ],
)
def test_without_a_header_the_label_is_the_column_with_few_values(
    write: Write, text: str, notes: str
) -> None:
    table = read_examples(CLASSIFY, write("a.tsv", text))
    assert table.notes == [notes]
    assert {label for example in table.examples for label in example.labels} == {"pos", "neg"}
    assert table.examples[1].text == "b film"


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a\tpositive\nb\tnegative\nc\tpositive\n", ["positive", "negative", "positive"]),
        ("ab\tcd\nef\tgh\n", ["cd", "gh"]),
    ],
)
def test_few_values_count_before_short_ones_and_the_last_column_if_all_is_equal(
    write: Write, text: str, labels: list[str]
) -> None:
    table = read_examples(CLASSIFY, write("a.tsv", text))
    assert [example.labels for example in table.examples] == [(label,) for label in labels]


def test_without_a_header_pairs_come_in_order_and_numbers_are_labels(write: Write) -> None:
    table = read_examples(PAIR, write("a.tsv", "1\tx\tx\n0\tx\tx\n1\tz\tv\n"))
    assert rows(table) == [("x", "x", ("1",)), ("x", "x", ("0",)), ("z", "v", ("1",))]
    assert rows(read_examples(PAIR, write("b.tsv", "x\ty\nz\tw\n"))) == [("x", "y", ()), ("z", "w", ())]


def test_words_above_numbers_are_a_header_whatever_they_are(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.tsv", "foo\tbar\na film\t1\nb film\t0\nc film\t1\n"))
    assert [example.labels for example in table.examples] == [("1",), ("0",), ("1",)]
    assert table.notes == ["columns: text = 'foo', label = 'bar'"]


def test_a_label_that_comes_again_is_no_name_of_a_column(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.tsv", "one text\ttopic\nmore text\tmood\nlast text\ttopic\n"))
    assert [example.labels for example in table.examples] == [("topic",), ("mood",), ("topic",)]


def test_a_column_of_unknown_name_is_used_if_only_one_is_left(write: Write) -> None:
    table = read_examples(CLASSIFY, write("a.csv", "id,Body Text (EN),label\n1,good,A\n"))
    assert rows(table) == [("good", None, ("A",))]
    assert table.notes[0] == "columns: label = 'label', text = 'Body Text (EN)'"
    table = read_examples(CLASSIFY, write("b.csv", "text,mood\ngood,A\n"))
    assert rows(table) == [("good", None, ("A",))]


def test_columns_that_are_unclear_are_shown_and_asked_for(write: Write) -> None:
    with pytest.raises(
        DataError,
        match=r"4 columns without a header, .*0: 'gj04', 1: '1', 2: '', 3: 'One more\.'.*"
        r"--set data\.columns\.text=NUMBER --set data\.columns\.label=NUMBER",
    ):
        read_examples(CLASSIFY, write("a.tsv", "gj04\t1\t\tOne more.\ngj04\t0\t*\tAnd one.\n"))
    with pytest.raises(DataError, match=r"'one', 'two', 'label' is known as the text; .*columns\.text=NAME"):
        read_examples(CLASSIFY, write("b.csv", "one,two,label\nx,y,z\n"))


def test_columns_are_named_by_number_or_by_name(write: Write) -> None:
    path = write("a.tsv", "gj04\t1\t\tOne more.\ngj04\t0\t*\tAnd one.\n")
    by_number = ReadOptions(columns={"text": "3", "label": "1"})
    assert rows(read_examples(CLASSIFY, path, by_number)) == [
        ("One more.", None, ("1",)),
        ("And one.", None, ("0",)),
    ]
    path = write("b.csv", "one,two,label,my label\nx,y,z,w\n")
    by_name = ReadOptions(columns={"text_a": "Two", "labels": "my label"})
    assert rows(read_examples(CLASSIFY, path, by_name)) == [("y", None, ("w",))]
    two = write("c.tsv", "A\tone\nB\ttwo\n")
    assert rows(read_examples(CLASSIFY, two, ReadOptions(columns={"label": "1"})))[0] == (
        "A",
        None,
        ("one",),
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": "nope"}, r"a\.csv: no column 'nope'; the first row is 'text', 'label'"),
        ({"text": "7"}, r"a\.csv: no column '7'; the columns are 'text', 'label'"),
        ({"colour": "text"}, r"data\.columns\.colour: classify has no such column; use label, score, text"),
    ],
)
def test_columns_that_are_not_there_are_refused(write: Write, columns: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_examples(CLASSIFY, write("a.csv", "text,label\nx,y\n"), ReadOptions(columns=columns))


def test_a_number_beyond_the_last_column_is_refused(write: Write) -> None:
    with pytest.raises(UserError, match=r"data\.columns\.text=2; the columns are 0 to 1"):
        read_examples(CLASSIFY, write("a.tsv", "one\t1\ntwo\t0\n"), ReadOptions(columns={"text": "2"}))


def test_two_columns_of_one_name_are_refused_if_they_are_needed(write: Write) -> None:
    with pytest.raises(DataError, match="two columns are named 'text'"):
        read_examples(CLASSIFY, write("a.csv", "text,text,label\nx,y,z\n"))
    assert read_examples(CLASSIFY, write("b.csv", "text,x,x,label\na,1,2,z\n")).examples[0].text == "a"


def test_memory_is_that_of_the_examples(write: Write) -> None:
    path = write("a.tsv", "text\tlabel\n" + "".join(f"{'word ' * 40}{i}\t{i % 2}\n" for i in range(5_000)))
    tracemalloc.start()
    table = read_examples(CLASSIFY, path)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table.examples) == 5_000
    assert peak < 2.5 * held

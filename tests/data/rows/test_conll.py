from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions, Span, TagExample
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.tag.rows import TAG

Write = Callable[[str, str | bytes], Path]


def named(example: TagExample) -> list[tuple[str, str]]:
    assert example.spans is not None
    return [(example.text[span.start : span.end], span.label) for span in example.spans]


@pytest.mark.parametrize("name", ["a.conll", "a.tsv", "a.txt", "a.bio", "a"])
@pytest.mark.parametrize("delimiter", ["\t", " "])
def test_blank_lines_separate_sentences(write: Write, name: str, delimiter: str) -> None:
    text = "Ann B-PER\nLee I-PER\nleft O\n\nParis B-LOC\n\t\nHi O\n".replace(" ", delimiter)
    table = read_examples(TAG, write(name, text))
    assert [example.text for example in table.examples] == ["Ann Lee left", "Paris", "Hi"]
    assert [named(example) for example in table.examples] == [[("Ann Lee", "PER")], [("Paris", "LOC")], []]
    assert [example.where.rsplit(":", 1)[1] for example in table.examples] == ["1", "5", "7"]
    assert (table.format, table.notes) == ("conll", ["tags are BIO"])


def test_the_last_column_is_the_tag_unless_the_user_names_another(write: Write) -> None:
    text = "-DOCSTART- -X- -X- O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\nGerman JJ I-NP I-MISC\n"
    path = write("a.txt", text)
    table = read_examples(TAG, path)
    assert named(table.examples[0]) == [("EU", "ORG"), ("German", "MISC")]
    assert table.notes == ["tags are IOB1"]
    chunks = read_examples(TAG, path, ReadOptions(columns={"tag": "2"}))
    assert named(chunks.examples[0]) == [("EU", "NP"), ("rejects", "VP"), ("German", "NP")]


def test_characters_of_chinese_are_joined(write: Write) -> None:
    path = write("a.bmes", "王 B-NAME\n小 M-NAME\n明 E-NAME\n在 O\n沪 S-LOC\n2 O\n0 O\n")
    table = read_examples(TAG, path)
    assert table.examples[0].text == "王小明在沪20"
    assert table.examples[0].spans == (Span(0, 3, "NAME"), Span(4, 5, "LOC"))
    assert table.notes == ["tags are BMES"]


def test_comments_are_left_out_but_a_hash_is_a_token(write: Write) -> None:
    path = write("a.conll", "# id 7 domain=en\n#\tO\nnlp\tB-TOPIC\n")
    assert read_examples(TAG, path).examples[0].text == "# nlp"


def test_a_line_with_one_column_makes_its_sentence_bad(write: Write) -> None:
    path = write("a.conll", "Ann\tB-PER\nLee\nleft\tO\n\nHi\tO\n")
    table = read_examples(TAG, path, ReadOptions(skip_bad=1))
    assert [example.text for example in table.examples] == ["Hi"]
    assert [(bad.where.rsplit(":", 1)[1], bad.reason) for bad in table.bad] == [
        ("2", "1 columns, expected 2")
    ]


def test_a_line_of_a_byte_order_mark_ends_a_sentence_and_is_reported(write: Write) -> None:
    table = read_examples(TAG, write("a.conll", "Hi\tO\n\ufeff\nyou\tO\n"))
    assert [example.text for example in table.examples] == ["Hi", "you"]
    assert table.notes == ["lines of nothing but a byte order mark, read as blank: 1"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("x\tPER", "tag 'PER'; expected O, or B-"),
        ("\tO", "an empty token"),
        ("x\tO\tO", "3 columns, expected 2"),
    ],
)
def test_bad_lines_have_a_reason(write: Write, line: str, reason: str) -> None:
    with pytest.raises(DataError, match=rf"1 bad of 2 rows: \S+a\.conll:3: {reason}"):
        read_examples(TAG, write("a.conll", f"Hi\tO\n\n{line}\n"), ReadOptions(format="conll"))


def test_columns_that_are_missing_are_reported(write: Write) -> None:
    path = write("a.conll", "Hi\tO\n")
    with pytest.raises(DataError, match=r"2 columns; data\.columns asks for 5"):
        read_examples(TAG, path, ReadOptions(columns={"tags": "5"}))
    with pytest.raises(UserError, match=r"data\.columns\.tags='ner'; expected the number of a column"):
        read_examples(TAG, path, ReadOptions(columns={"tags": "ner"}))


def test_plain_text_is_not_read_as_columns(write: Write) -> None:
    table = read_examples(TAG, write("a.txt", "My plan B\nThe weather is fine\nAs it was yesterday\n"))
    assert table.format == "text"
    assert [example.spans for example in table.examples] == [None, None, None]

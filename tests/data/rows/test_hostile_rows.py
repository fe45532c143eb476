"""Rows of the wrong shape are bad rows with a reason, whatever the format and the task."""

import json
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import ReadOptions
from glassbert.data.rows import lines
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.labels import label_set
from glassbert.tasks.registry import TASKS, schema_of

LABEL_STUDIO = {"data": {"text": "abc"}, "annotations": [{"result": [{"value": {"choices": ["a"]}}]}]}


def labelled(**changes: Any) -> dict[str, Any]:
    return {"text": "abc", "label": "a", **changes}


def studio(**changes: Any) -> dict[str, Any]:
    return {**LABEL_STUDIO, **changes}


def question(start: Any) -> dict[str, Any]:
    return {"question": "b", "context": "abc", "answers": [{"text": "b", "answer_start": start}]}


@pytest.mark.parametrize(
    ("task", "row", "reason"),
    [
        ("tag", studio(annotations=5), "the annotations are '5'; expected a list"),
        ("tag", studio(annotations=[{"result": 5}]), "the result of an annotation is '5'; expected a list"),
        ("classify", studio(annotations=True), "the annotations are 'True'; expected a list"),
        (
            "classify",
            studio(annotations=[{"result": [{"value": {"choices": 5}}]}]),
            r"the choices are '\[5\]'; expected lists of labels",
        ),
        ("answer", question("--5"), "answer_start is '--5'; expected a number of characters"),
        ("answer", question("9" * 5000), "answer_start is '9999.*'; expected a number"),
        ("classify", labelled(label="a" * 100_000), "a label of 100,000 characters; expected at most 1,000"),
        ("classify", labelled(label="a\nb"), r"the label 'a\\nb' holds a line end or another control"),
        ("classify", labelled(label=["a", "\x1b[31mred"]), "holds a line end or another control"),
        ("classify", labelled(label="a\ud800"), "half of a character"),
        ("tag", {"text": "abc", "spans": [[0, 1, "a\nb"]]}, "holds a line end or another control"),
        ("tag", {"tokens": ["a"], "tags": ["B-" + "x" * 2000]}, "a label of 2,000 characters"),
        ("classify", {"text": "abc", "score": 1e300}, r"the score is '1e\+300'; expected at most 1e\+15"),
    ],
)
def test_a_row_of_the_wrong_shape_is_a_bad_row(
    tmp_path: Path, task: str, row: dict[str, Any], reason: str
) -> None:
    good = {
        "classify": labelled(),
        "tag": {"text": "abc", "spans": [[0, 1, "a"]]},
        "answer": question(1),
    }[task]
    if "data" in row:
        good = LABEL_STUDIO
    if "score" in row:
        good = {"text": "abc", "score": 1}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in (good, row)))
    with pytest.raises(DataError, match=rf"rows\.jsonl: 1 bad of 2 rows.*:2: .*{reason}") as raised:
        read_examples(schema_of(task), path)
    assert len(str(raised.value).splitlines()) == 1


def test_scores_that_are_no_numbers_are_bad_rows_and_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("text,score\none,1.5\ntwo,nan\nthree,inf\nfour,-Infinity\n")
    with pytest.raises(DataError, match="3 bad of 4 rows.*the score is 'nan'; expected a number"):
        read_examples(schema_of("classify"), path)


def test_a_nul_character_in_a_table_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"text,label\na\0b,x\nc,y\n")
    with pytest.raises(DataError, match=r"rows\.csv:2: a NUL character; if the file is UTF-16, convert"):
        read_examples(schema_of("classify"), path)


@pytest.mark.parametrize("task", sorted(TASKS))
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".conll"])
def test_a_column_of_5000_digits_is_refused(tmp_path: Path, task: str, suffix: str) -> None:
    schema = schema_of(task)
    path = tmp_path / f"rows{suffix}"
    path.write_text('{"text": "a"}\n' if suffix == ".jsonl" else "a,b\tB-c\nd,e\tO\n")
    role = "tokens" if task == "tag" and suffix != ".jsonl" else schema.required[0]
    with pytest.raises(UserError) as raised:
        read_examples(schema, path, ReadOptions(columns={role: "1" * 5000}))
    assert len(str(raised.value)) < 1000


def test_labels_have_one_order_even_with_nan_among_them() -> None:
    class Labelled:
        def __init__(self, label: str) -> None:
            self.labels = (label,)

    labels = ["nan", "10.0", "3.0", "2.0", "nan", "inf"]
    orders = {label_set(map(Labelled, turned)) for turned in (labels, labels[::-1], labels[3:] + labels[:3])}
    assert orders == {("10.0", "2.0", "3.0", "inf", "nan")}
    assert label_set(map(Labelled, ["10", "9", "2.5"])) == ("2.5", "9", "10")


def test_blank_lines_without_end_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MAX_PEEKED", 8)
    endless = lines.Lines(("" for _ in range(1000)), "a")
    assert endless.peek_texts(1) == []
    assert len(endless._ahead) < 40


def test_a_document_of_many_lines_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSBERT_MAX_DOCUMENT_MB", "1")
    path = tmp_path / "rows.json"
    path.write_text("[\n" + '{"text": "abc", "label": "a"},\n' * 50_000)
    with pytest.raises(DataError, match="a JSON document of more than 1 MB; .* GLASSBERT_MAX_DOCUMENT_MB"):
        read_examples(schema_of("classify"), path)


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.jsonl"])
def test_a_million_columns_are_no_table(tmp_path: Path, name: str) -> None:
    separator = "\t" if name.endswith("tsv") else ","
    keys = ", ".join(f'"{number}": 1' for number in range(20_000))
    path = tmp_path / name
    path.write_text(
        f'{{"text": "a", {keys}}}' if name.endswith("jsonl") else f"a{separator}" * 1_000_000 + "\na"
    )
    with pytest.raises(DataError, match=r"(1,000,001 columns|20,001 keys); expected at most 10,000"):
        read_examples(schema_of("classify"), path)

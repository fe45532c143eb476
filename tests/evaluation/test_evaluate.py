from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions, TextExample
from glassbert.errors import UserError
from glassbert.evaluation.evaluate import evaluate
from glassbert.inference.loading import load
from glassbert.reports.page import write_report
from glassbert.reports.terminal import render
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import sentence_pairs, write_arbitrary_translator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A classifier."""
    return save_oracle(make_oracle("BertForSequenceClassification"), tmp_path / "model")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.tsv"
    path.write_text("text\tlabel\nthe cat\tLABEL_0\na dog\tLABEL_1\nno label\n")
    return path


def test_a_folder_and_a_loaded_model_give_the_same(folder: Path, data: Path) -> None:
    options = ReadOptions(skip_bad=1)
    of_folder = evaluate(str(folder), str(data), options=options)
    assert of_folder.metrics == evaluate(load(folder), data, options=options).metrics
    assert (of_folder.task, of_folder.model, of_folder.data) == ("classify", str(folder), str(data))
    assert of_folder.examples == 2


def test_rows_are_taken_as_they_are(folder: Path, data: Path) -> None:
    rows = [
        TextExample("the cat", None, ("LABEL_0",), None, "row 1"),
        TextExample("a dog", None, ("LABEL_1",), None, "row 2"),
    ]
    evaluation = evaluate(folder, rows)
    items = [{"text": "the cat", "label": "LABEL_0"}, {"text": "a dog", "label": "LABEL_1"}]
    assert evaluate(folder, items).metrics == evaluation.metrics
    assert evaluation.metrics == evaluate(folder, data, options=ReadOptions(skip_bad=1)).metrics
    assert evaluation.data == "2 rows"


def test_what_was_left_out_is_logged_and_noted(folder: Path, data: Path) -> None:
    lines: list[str] = []
    evaluation = evaluate(folder, data, options=ReadOptions(skip_bad=1), log=lines.append)
    assert any(line.startswith(f"left out {data}:4: ") for line in lines)
    assert any(note.startswith(f"1 rows left out; the first: {data}:4: ") for note in evaluation.notes)


def test_a_task_that_the_model_does_not_do_is_refused(folder: Path, data: Path) -> None:
    with pytest.raises(UserError, match="task=tag: the model does classify"):
        evaluate(folder, data, task="tag")


def test_how_rows_are_read_is_nothing_to_a_translator(tmp_path: Path) -> None:
    translator = load(write_arbitrary_translator(tmp_path))
    with pytest.raises(UserError, match="for labelled rows"):
        evaluate(translator, sentence_pairs(2), options=ReadOptions(format="csv"))


def test_a_model_in_int8_is_measured_in_float32_as_well(folder: Path, data: Path, tmp_path: Path) -> None:
    options = ReadOptions(skip_bad=1)
    lines: list[str] = []
    both = evaluate(load(folder, precision="int8"), data, options=options, log=lines.append)
    exact = evaluate(folder, data, options=options)
    assert exact.float32 is None
    assert both.float32 == exact.metrics
    assert both.metrics != exact.metrics
    assert both.to_json()["float32"] == dict(exact.metrics)
    assert sum("left out" in line for line in lines) == 1
    assert "int8  float32" in " ".join(render(both).split("\n")[2].split()).replace(" ", "  ")
    write_report(tmp_path / "report.html", both)
    assert "<th scope" in (tmp_path / "report.html").read_text()
    translator = load(write_arbitrary_translator(tmp_path), precision="int8")
    found = evaluate(translator, sentence_pairs(2))
    assert found.float32 is not None
    assert found.float32.keys() == found.metrics.keys()

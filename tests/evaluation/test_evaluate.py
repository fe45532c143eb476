from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions, TextExample
from glassbert.errors import UserError
from glassbert.evaluation.evaluate import evaluate
from glassbert.inference.loading import load
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

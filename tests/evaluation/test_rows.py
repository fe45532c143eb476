import json
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import TextExample
from glassbert.errors import DataError
from glassbert.evaluation.rows import evaluate_rows
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.reports.page import write_report
from glassbert.reports.terminal import render
from helpers.oracles import make_oracle, save_oracle

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "single": ("BertForSequenceClassification", {"problem_type": "single_label_classification"}),
    "multi": ("BertForSequenceClassification", {"problem_type": "multi_label_classification"}),
    "regression": ("BertForSequenceClassification", {"problem_type": "regression", "num_labels": 1}),
    "tag": ("BertForTokenClassification", {"id2label": {0: "O", 1: "B-X", 2: "I-X"}, "num_labels": 3}),
    "answer": ("BertForQuestionAnswering", {}),
}


def model_of(kind: str, folder: Path) -> Model:
    name, changes = KINDS[kind]
    return load(save_oracle(make_oracle(name, **changes), folder))


def row(text: str, label: str) -> TextExample:
    return TextExample(text, None, (label,), None, "f:1")


@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_make_an_empty_evaluation(kind: str, tmp_path: Path) -> None:
    evaluation = evaluate_rows(model_of(kind, tmp_path / "model"), [], name="model", data="data")
    content = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert content["examples"] == 0
    assert set(content["metrics"].values()) <= {0.0}
    assert render(evaluation)
    write_report(tmp_path / "report.html", evaluation)


def test_tokens_are_counted_without_encoding_the_rows_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of("single", tmp_path / "model")
    label, unknown = model.task.head().labels[0], "\u4e0d"
    encoded = []
    original = type(model.task).inputs
    monkeypatch.setattr(
        type(model.task),
        "inputs",
        lambda self, rows, **options: encoded.append(len(rows)) or original(self, rows, **options),
    )
    rows = [row("the cat", label), row(f"the {unknown}", label)]
    evaluation = evaluate_rows(model, rows, name="m", data="d")
    assert encoded == [2]
    assert (evaluation.tokens, evaluation.unknown) == (8 + 6, 1)


def test_a_row_without_a_label_is_refused(tmp_path: Path) -> None:
    unlabelled = TextExample("the cat", None, (), None, "f:7")
    with pytest.raises(DataError, match="f:7: no label"):
        evaluate_rows(model_of("single", tmp_path / "model"), [unlabelled], name="m", data="d")


def test_degenerate_predictions_raise_an_alarm(tmp_path: Path) -> None:
    model = model_of("single", tmp_path / "model")
    labels = model.task.head().labels
    evaluation = evaluate_rows(model, [row("the cat", label) for label in labels], name="m", data="d")
    assert evaluation.alarm is not None
    assert "every text gets the label" in evaluation.alarm
    assert evaluation.alarm in render(evaluation)

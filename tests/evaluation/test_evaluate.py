import json
from pathlib import Path
from typing import Any

import pytest

from glassbert.evaluation.evaluate import evaluation_of
from glassbert.inference.model import load
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


@pytest.mark.parametrize("kind", KINDS)
def test_no_examples_make_an_empty_evaluation(kind: str, tmp_path: Path) -> None:
    name, changes = KINDS[kind]
    model = load(save_oracle(make_oracle(name, **changes), tmp_path / "model"))
    evaluation = evaluation_of(model, "model", "data", [])
    content = json.loads(json.dumps(evaluation.to_json(), allow_nan=False))
    assert content["examples"] == 0
    assert set(content["metrics"].values()) <= {0.0}
    assert render(evaluation)
    write_report(tmp_path / "report.html", evaluation)

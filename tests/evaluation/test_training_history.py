from pathlib import Path

import pytest

from glassbert.errors import ModelError
from glassbert.evaluation.result import TrainingCurve
from glassbert.evaluation.training_history import read_curves, read_runs

LOG = """\
{"step": 10, "epoch": 0.5, "learning_rate": 0.1, "loss": 2.0}
{"step": 10, "evaluation": {"loss": 1.5, "f1": 0.5}}
{"step": 20, "epoch": 1.0, "learning_rate": 0.05, "loss": 1.0}
"""


def test_each_number_becomes_a_curve(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(LOG, encoding="utf-8")
    assert read_curves(path) == (
        TrainingCurve("learning_rate", "train", (10, 20), (0.1, 0.05)),
        TrainingCurve("loss", "train", (10, 20), (2.0, 1.0)),
        TrainingCurve("loss", "evaluation", (10,), (1.5,)),
        TrainingCurve("f1", "evaluation", (10,), (0.5,)),
    )


def test_a_line_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(LOG + '{"step": 30, "lo', encoding="utf-8")
    assert read_curves(path)[1].steps == (10, 20)


def test_a_run_without_a_log_has_no_curves(tmp_path: Path) -> None:
    assert read_curves(tmp_path / "metrics.jsonl") == ()


@pytest.mark.parametrize("content", ["{}", '{"runs": 5}', '{"runs": [5]}', '{"runs": [{"name": "a"}]}', "[]"])
def test_a_damaged_list_of_runs_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "seeds.json").write_text(content)
    with pytest.raises(ModelError, match=r"seeds\.json"):
        read_runs(tmp_path / "seeds.json")


def test_lines_of_a_log_that_are_no_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(
        b'{"step": 1, "loss": 2.0}\n\x80\x81\n[]\n{"loss": 3}\n{"step": 2, "loss": "x", "evaluation": 3}\n'
    )
    with path.open("a") as file:
        for value in ('"x"', "[{}]", "{}", "true", "1e999"):
            file.write(f'{{"step": 3, "evaluation": {{"f1": {value}}}}}\n{{"step": {value}, "loss": 1}}\n')
    assert [(curve.name, curve.values) for curve in read_curves(path)] == [("loss", (2.0,))]

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from glassbert.cli.main import main
from glassbert.evaluation.evaluate import evaluate
from glassbert.storage import read_json
from glassbert.tasks.classify.task import Classify
from helpers.small_finetune import NUM_DEV, NUM_TRAIN, run, write_inputs


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


def train(given: Path, out: Path, *options: str) -> None:
    """Run `train classify` for an epoch."""
    files = ["--model", str(given / "model"), "--train", str(given / "train.tsv")]
    settings = ["--set", "train.epochs=1", "--set", "train.batch_size=32"]
    with patch("glassbert.training.log.measured_peak", return_value=1e9):
        assert (
            main(
                [
                    "train",
                    "classify",
                    *files,
                    "--dev",
                    str(given / "dev.tsv"),
                    "--out",
                    str(out),
                    *settings,
                    *options,
                ]
            )
            == 0
        )


@contextmanager
def counted_rows(method: str) -> Iterator[list[int]]:
    """Count the rows of each call of a method of the task: `inputs` encodes them, `raw` reads the network."""
    counts: list[int] = []
    original = getattr(Classify, method)

    def counting(self: Classify, *arguments: Any, **options: Any) -> Any:
        found = original(self, *arguments, **options)
        counts.append(len(found))
        return found

    with patch.object(Classify, method, counting):
        yield counts


def num_evaluations(run: Path) -> int:
    rows = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return sum("evaluation" in row for row in rows)


def test_the_network_sees_the_dev_rows_once_after_training(given: Path, tmp_path: Path) -> None:
    with counted_rows("raw") as predicted, counted_rows("inputs") as encoded:
        train(given, tmp_path / "out")
    # One row to learn which metrics there are, and the evaluations of the training itself.
    in_training = 1 + NUM_DEV * num_evaluations(tmp_path / "out")
    assert sum(predicted) == in_training + NUM_DEV
    assert sum(encoded) == NUM_TRAIN + NUM_DEV


def test_the_best_of_several_runs_is_not_measured_again_for_its_report(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with counted_rows("raw") as predicted:
        train(given, out, "--seeds", "2")
    evaluations = sum(num_evaluations(out / f"seed-{seed}") for seed in (0, 1))
    num_checks = len(predicted) - len([count for count in predicted if count > 1])
    assert sum(predicted) == num_checks + NUM_DEV * (evaluations + 2)
    assert (out / "report.html").is_file()


def test_run_json_and_report_show_the_same_figures(given: Path, tmp_path: Path) -> None:
    train(given, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    metrics = read_json(tmp_path / "best" / "run.json")["metrics"]
    assert {"accuracy", "f1", "ece"} <= metrics.keys()
    for name, value in metrics.items():
        assert f'{name}</th><td dir="auto">{value:.4f}</td>' in page


def test_a_calibrated_model_is_only_measured(given: Path, tmp_path: Path) -> None:
    first = run(given, tmp_path)
    saved = (
        (tmp_path / "best" / "run.json").read_bytes(),
        (tmp_path / "best" / "model.safetensors").read_bytes(),
    )
    again = run(given, tmp_path)
    assert again.metrics == first.metrics
    assert again.evaluation is not None
    assert again.evaluation.metrics == pytest.approx(dict(first.metrics))
    assert saved == (
        (tmp_path / "best" / "run.json").read_bytes(),
        (tmp_path / "best" / "model.safetensors").read_bytes(),
    )


def test_the_evaluation_of_a_run_is_that_of_its_loaded_model(given: Path, tmp_path: Path) -> None:
    result = run(given, tmp_path)
    assert result.evaluation is not None
    loaded = evaluate(result.model, given / "dev.tsv")
    assert loaded.metrics == pytest.approx(dict(result.evaluation.metrics), abs=1e-6)
    assert loaded.tokens == result.evaluation.tokens
    assert loaded.settings == result.evaluation.settings
    assert [one.where for one in loaded.mistakes] == [one.where for one in result.evaluation.mistakes]

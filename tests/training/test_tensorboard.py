import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from glassbert.training.checkpoint import checkpoints
from glassbert.training.tensorboard import Curves
from helpers.small_run import STEPS, run, small_task, with_event


def curve(run_folder: Path, name: str) -> list[tuple[int, float]]:
    """Return the points of a curve as TensorBoard shows them."""
    events = EventAccumulator(str(run_folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    return [(point.step, point.value) for point in events.Scalars(name)]


def test_tensorboard_shows_what_metrics_jsonl_holds(tmp_path: Path) -> None:
    run(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    for name in ("mlm_loss", "nsp_accuracy", "learning_rate", "grad_norm"):
        expected = [(row["step"], pytest.approx(row[name])) for row in rows if name in row]
        assert len(expected) == STEPS
        assert curve(tmp_path, f"train/{name}") == expected
    evaluations = [(row["step"], row["evaluation"]["mlm_loss"]) for row in rows if "evaluation" in row]
    assert curve(tmp_path, "evaluation/mlm_loss") == [(s, pytest.approx(v)) for s, v in evaluations]
    assert len(curve(tmp_path, "speed/tokens_per_s")) == STEPS


def test_a_resumed_run_shows_no_point_twice(tmp_path: Path) -> None:
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    run(straight)
    run(stopped, with_event(small_task(), 7, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    # As after a kill: points were written after the checkpoint that is left.
    shutil.rmtree(checkpoints(stopped)[-1])
    run(stopped)
    assert len(list((stopped / "tensorboard").iterdir())) == 2
    for name in ("train/mlm_loss", "evaluation/mlm_loss"):
        assert curve(stopped, name) == curve(straight, name)


def test_a_run_that_had_ended_writes_nothing_more(tmp_path: Path) -> None:
    run(tmp_path)
    run(tmp_path)
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1


def test_what_a_kill_cut_off_spoils_no_later_session(tmp_path: Path) -> None:
    for start in (0, 2):
        curves = Curves(tmp_path, start)
        for step in (start + 1, start + 2):
            curves.add("train", {"loss": float(step)}, step)
        curves.flush()
        last = max((tmp_path / "tensorboard").iterdir())
        last.write_bytes(last.read_bytes()[:-3])
    assert curve(tmp_path, "train/loss") == [(1, 1.0), (3, 3.0)]


def test_without_tensorboard_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.record_writer", None)
    run(tmp_path)
    assert not (tmp_path / "tensorboard").exists()
    assert (tmp_path / "metrics.jsonl").exists()

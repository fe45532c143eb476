"""What a session takes over from the one before it, beside what it computes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.pretraining import corpus_batches
from glassbert.data.pretraining.examples import Arrangement, EpochPlan, Examples
from glassbert.tasks.pretraining import Pretrain
from glassbert.training.checkpoint import checkpoints, read_snapshot
from helpers.small_run import run, small_task, with_event


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The epochs that are planned, in the order in which it happens."""
    epochs: list[int] = []
    plan_epoch = corpus_batches.plan_epoch

    def counted(arrangement: Arrangement, plan: EpochPlan) -> Examples:
        epochs.append(plan.epoch)
        return plan_epoch(arrangement, plan)

    monkeypatch.setattr(corpus_batches, "plan_epoch", counted)
    return epochs


def step_in_epoch(epoch: int) -> int:
    """Return a step in the middle of an epoch."""
    epochs = small_task().batches.epochs
    return sum(epochs.num_batches(earlier) for earlier in range(epoch)) + 2


def stopping_task(step: int) -> Pretrain:
    return with_event(small_task(), step, lambda: os.kill(os.getpid(), signal.SIGTERM))


OPTIONS = {"save_every": 1000, "evaluate_every": 1000, "log_every": 1}


@pytest.mark.parametrize("length", [{"steps": 1000}, {"steps": None, "epochs": 5.0}])
def test_a_run_that_resumes_in_its_fourth_epoch_plans_no_other(
    tmp_path: Path, planned: list[int], length: dict[str, float | None]
) -> None:
    step = step_in_epoch(3)
    assert not run(tmp_path, stopping_task(step), **OPTIONS, **length).is_finished
    task = stopping_task(step + 3)
    planned.clear()
    assert run(tmp_path, task, **OPTIONS, **length).step == step + 4
    assert planned == [3]


def test_a_checkpoint_of_an_older_version_only_costs_time(tmp_path: Path, planned: list[int]) -> None:
    from glassbert.storage import read_json, sha256_of, write_json

    step = step_in_epoch(3)
    run(tmp_path, stopping_task(step), **OPTIONS, steps=1000)
    folder = checkpoints(tmp_path)[-1]
    progress, manifest = read_json(folder / "progress.json"), read_json(folder / "manifest.json")
    assert len(progress.pop("data")["batch_counts"]) == 4
    write_json(folder / "progress.json", progress)
    manifest["sha256"]["progress.json"] = sha256_of(folder / "progress.json")
    write_json(folder / "manifest.json", manifest)
    task = stopping_task(step + 3)
    planned.clear()
    assert run(tmp_path, task, **OPTIONS, steps=1000).step == step + 4
    assert planned == [0, 1, 2, 3]


def test_the_last_step_plans_no_epoch_that_never_comes(tmp_path: Path, planned: list[int]) -> None:
    task = small_task()
    planned.clear()
    assert run(tmp_path, task, **OPTIONS, steps=None, epochs=2.0).is_finished
    assert sorted(set(planned)) == [0, 1]


def test_guessing_is_counted_once_in_the_life_of_a_run(tmp_path: Path) -> None:
    num_counts = 0

    def count() -> float:
        nonlocal num_counts
        num_counts += 1
        return 5.0

    def guessing(task: Pretrain, guess: Callable[[], float]) -> Pretrain:
        task._guess = guess
        return task

    reported: list[str] = []
    run(tmp_path, guessing(stopping_task(5), count), reported)
    assert num_counts == 1
    assert read_snapshot(checkpoints(tmp_path)[-1]).progress.data["guessing_loss"] == 5.0
    run(tmp_path, guessing(small_task(), count), reported)
    assert num_counts == 1
    verdicts = [line for line in reported if line.startswith("held out: ")]
    assert len(verdicts) == 3
    assert all("frequency alone gives 5.0000" in line for line in verdicts)

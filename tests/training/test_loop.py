import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassbert.config import ModelConfig
from glassbert.errors import ModelError, RunFailed
from glassbert.inference.loading import load
from glassbert.storage import read_json
from glassbert.tasks.pretraining import Pretrain
from glassbert.training.checkpoint import checkpoints
from glassbert.training.state import TrainState
from glassbert.training.status import Status
from helpers.small_run import STEPS, run, small_task, with_event

FILES = ("last/model.safetensors", "best/model.safetensors", "metrics.jsonl")
FINAL = f"checkpoint-{STEPS}/training.safetensors"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run(folder)
    return folder


@pytest.fixture(scope="module")
def stopped_after_8(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stopped")
    run(folder, stopping_task(7, signal.SIGTERM))
    assert [path.name for path in checkpoints(folder)] == ["checkpoint-6", "checkpoint-8"]
    return folder


def assert_same_bytes(folder: Path, uninterrupted: Path) -> None:
    for name in (*FILES, FINAL):
        assert (folder / name).read_bytes() == (uninterrupted / name).read_bytes(), name


def stopping_task(step: int, number: int) -> Pretrain:
    """Return a task that sends this process a signal when the batch of ``step`` is asked for."""
    return with_event(small_task(), step, lambda: os.kill(os.getpid(), number))


def test_a_run_leaves_a_model_that_loads(uninterrupted: Path) -> None:
    model = load(uninterrupted / "last")
    assert isinstance(model.config, ModelConfig)
    assert model.config.head == "pretraining"
    rows = [
        row for row in (uninterrupted / "metrics.jsonl").read_text().splitlines() if "learning_rate" in row
    ]
    assert len(rows) == STEPS
    assert [path.name for path in checkpoints(uninterrupted)] == ["checkpoint-9", "checkpoint-12"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("step", [0, 4, 5, 11])
def test_a_stopped_run_resumes_as_if_it_had_not_stopped(
    tmp_path: Path, uninterrupted: Path, step: int, number: int
) -> None:
    result = run(tmp_path, stopping_task(step, number))
    assert result.is_finished == (step == STEPS - 1)
    assert result.step == step + 1
    assert run(tmp_path).is_finished
    assert_same_bytes(tmp_path, uninterrupted)


def test_muon_resumes_with_its_momentum(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    run(whole, optimizer="muon")
    run(stopped, stopping_task(5, signal.SIGTERM), optimizer="muon")
    run(stopped, optimizer="muon")
    assert_same_bytes(stopped, whole)
    assert any(".momentum." in name for name in load_file(whole / FINAL))


def test_a_finished_run_is_not_trained_further(tmp_path: Path, uninterrupted: Path) -> None:
    run(tmp_path)
    assert run(tmp_path).step == STEPS
    assert_same_bytes(tmp_path, uninterrupted)


def damage_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    "name", ["model.safetensors", "training.safetensors", "progress.json", "manifest.json"]
)
@pytest.mark.parametrize("harm", [damage_last_byte, truncate, Path.unlink])
def test_a_damaged_checkpoint_is_skipped_and_reported(
    tmp_path: Path, stopped_after_8: Path, uninterrupted: Path, name: str, harm: object
) -> None:
    shutil.copytree(stopped_after_8, tmp_path, dirs_exist_ok=True)
    harm(tmp_path / "checkpoint-8" / name)  # type: ignore[operator]
    reported: list[str] = []
    run(tmp_path, reported=reported)
    assert any(line.startswith("skipping checkpoint-8: ") and name in line for line in reported)
    assert "resuming from checkpoint-6" in reported
    assert_same_bytes(tmp_path, uninterrupted)


def test_no_whole_checkpoint_is_an_error_not_a_fresh_start(tmp_path: Path) -> None:
    run(tmp_path, stopping_task(1, signal.SIGTERM))
    damage_last_byte(tmp_path / "checkpoint-2" / "model.safetensors")
    with pytest.raises(ModelError, match="none of its 1 checkpoints is intact"):
        run(tmp_path)


def test_what_a_crashed_save_left_is_swept_and_not_taken_for_a_checkpoint(
    tmp_path: Path, uninterrupted: Path
) -> None:
    run(tmp_path, stopping_task(4, signal.SIGTERM))
    (tmp_path / ".checkpoint-6.12345678.part").mkdir()
    (tmp_path / ".best.12345678.old").mkdir()
    run(tmp_path)
    assert not list(tmp_path.glob(".*"))
    assert_same_bytes(tmp_path, uninterrupted)


def test_a_number_that_is_none_names_step_and_tensor_and_keeps_the_run(tmp_path: Path) -> None:
    task = small_task()
    loss = task.module.forward

    def poisoned(part: object) -> dict[str, torch.Tensor]:
        sums = loss(part)  # type: ignore[arg-type]
        return sums | {"mlm_loss": sums["mlm_loss"] * float("nan")} if task.module.training else sums

    with_event(task, 7, lambda: setattr(task.module, "forward", poisoned))
    with pytest.raises(
        RunFailed, match=r"^step 7, batch of epoch .*: the gradient of bert\..* is not finite"
    ):
        run(tmp_path, task)
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-3", "checkpoint-6"]


def test_an_averaged_model_is_what_is_saved_for_use(uninterrupted: Path) -> None:
    last = load_file(uninterrupted / "last" / "model.safetensors")
    raw = load_file(uninterrupted / f"checkpoint-{STEPS}" / "model.safetensors")
    average = load_file(uninterrupted / FINAL)
    name = "bert.pooler.dense.weight"
    assert torch.equal(last[name], average["average.bert.pooler.dense.weight"])
    assert not torch.equal(last[name], raw[name])
    assert not torch.equal(last[name], small_task().module.bert.pooler.dense.weight), "it never moved"


def test_dropout_follows_the_seed(tmp_path: Path) -> None:
    losses = {
        (seed, dropout): run(tmp_path / f"{seed}-{dropout}", steps=2, seed=seed, dropout=dropout).metrics[
            "mlm_loss"
        ]
        for seed in (0, 1)
        for dropout in (0.0, 0.5)
    }
    assert losses[0, 0.5] != losses[1, 0.5]
    assert losses[0, 0.0] == losses[1, 0.0]


def test_run_json_describes_the_run(tmp_path: Path) -> None:
    run(tmp_path, steps=1)
    assert "glassbert" in read_json(tmp_path / "last" / "run.json")


def test_a_budget_that_ends_before_the_first_step_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"^train\.minutes=1e-06 ended before the first step") as caught:
        run(tmp_path, steps=None, minutes=1e-6)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "last").exists(), "an untrained model is not a result"


def test_a_run_whose_minutes_are_over_is_finished_when_it_has_learned(tmp_path: Path) -> None:
    run(tmp_path, steps=2)
    reported: list[str] = []
    result = run(tmp_path, reported=reported, steps=None, minutes=1e-6)
    assert (result.is_finished, result.step) == (True, 2)
    assert reported == ["resuming from checkpoint-2"]


def test_a_run_that_the_clock_ends_is_evaluated_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elapsed_s = 0.0

    def let_time_pass(reading: Status) -> None:
        nonlocal elapsed_s
        elapsed_s = 120.0  # after the loop has asked whether this step is the last

    monkeypatch.setattr(TrainState, "elapsed_s", property(lambda state: elapsed_s))
    result = run(tmp_path, steps=None, minutes=1.0, on_status=let_time_pass)
    assert (result.is_finished, result.step, result.best_step) == (True, 2, 2)
    assert "mlm_loss" in result.metrics
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-2"]
    assert (tmp_path / "best").is_dir()


def test_a_run_stopped_before_it_was_measured_is_measured_when_its_minutes_are_over(tmp_path: Path) -> None:
    given = {"steps": None, "minutes": 1.0, "evaluate_every": 100}
    first = run(tmp_path, stopping_task(1, signal.SIGTERM), **given)
    assert (first.is_finished, first.best_step) == (False, None)
    result = run(tmp_path, **given | {"minutes": 1e-6})
    assert (result.is_finished, result.best_step) == (True, first.step)
    assert "mlm_loss" in result.metrics
    assert (tmp_path / "best").is_dir()
    log = (tmp_path / "metrics.jsonl").read_bytes()
    assert run(tmp_path, **given | {"minutes": 1e-6}).best_step == first.step
    assert (tmp_path / "metrics.jsonl").read_bytes() == log, "what is measured stays so"


def test_a_run_works_in_any_thread(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(run, tmp_path, steps=1).result().is_finished


@pytest.mark.slow
def test_twenty_kills_change_no_bit(tmp_path: Path) -> None:
    """Kill -9 at random moments, some of them during a save, and resume each time."""
    steps = 200
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    run(straight, steps=steps)
    generator = random.Random(0)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).parents[1] / "helpers" / "small_run.py"), str(killed)]
    command.append(json.dumps({"steps": steps}))
    num_during_save = 0
    for _ in range(20):
        before = {path.name for path in killed.glob("*")} if killed.exists() else set()
        process = subprocess.Popen(command, env=environment)
        # The imports take most of the time: wait until the run writes something, then a little.
        while process.poll() is None and {path.name for path in killed.glob("*")} == before:
            time.sleep(0.001)
        time.sleep(generator.uniform(0.0, 0.2))
        assert process.poll() is None, "the run ended before it was killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
        num_during_save += any(killed.glob(".*.part"))
    subprocess.run(command, env=environment, check=True)
    for name in (*FILES, f"checkpoint-{steps}/training.safetensors"):
        assert (killed / name).read_bytes() == (straight / name).read_bytes(), name
    assert num_during_save, "no kill fell into a save"

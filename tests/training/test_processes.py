import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from glassbert.errors import UserError
from glassbert.inference.loading import load
from glassbert.training.checkpoint import checkpoints
from helpers.small_run import STEPS, recorded, run, small_task

SCRIPT = Path(__file__).parents[1] / "helpers" / "small_run.py"


def torchrun(folder: Path, num_processes: int = 2, options: tuple[str, ...] = (), **changes: Any) -> str:
    """Train with several processes on this machine; return what they said on stderr."""
    paths = os.pathsep.join(filter(None, [str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={num_processes}",
    ]
    command += [*options, str(SCRIPT), str(folder), json.dumps(changes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stderr


def metrics(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def assert_same_losses(ours: Path, theirs: Path, num_steps: int) -> None:
    """Compare the metrics of two runs, line by line."""
    rows = list(zip(metrics(ours), metrics(theirs), strict=True))
    assert sum("learning_rate" in row for row, _ in rows) == num_steps
    for two, one in rows:
        assert set(two) == set(one)
        for name in (name for name in one if name.endswith("_loss") or name == "grad_norm"):
            assert two[name] == pytest.approx(one[name], rel=1e-5), (one["step"], name)


def examples(path: Path) -> dict[str, Counter[str]]:
    """Return which examples a process learned from in each step."""
    return {step: Counter(hashes) for step, hashes in json.loads(path.read_text()).items()}


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("WORLD_SIZE", "x", "WORLD_SIZE='x'; expected a whole number, as torchrun sets it"),
        ("WORLD_SIZE", "9" * 50, "WORLD_SIZE='999"),
        ("RANK", "-1", "RANK='-1'; expected a whole number"),
        ("WORLD_SIZE", "2", "WORLD_SIZE=2, but .*; start processes with torchrun"),
    ],
)
def test_variables_of_torchrun_that_make_no_sense_are_refused(
    variable: str, value: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=message):
        run(tmp_path / "out", small_task(dropout=0.0))
    monkeypatch.setenv(variable, "")
    run(tmp_path / "out", small_task(dropout=0.0))
    assert metrics(tmp_path / "out")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run(folder, recorded(small_task(dropout=0.0), folder.with_name("alone.json")))
    return folder


# Dropout is drawn per process; without it, one and two processes compute the same sums in another order.
NO_DROPOUT = {"dropout": 0.0}


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What two processes learned, by strategy."""
    folders = {strategy: tmp_path_factory.mktemp(strategy) / "two" for strategy in ("ddp", "fsdp")}
    for strategy, folder in folders.items():
        torchrun(folder, strategy=strategy, record=True, **NO_DROPOUT)
    return folders


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_learns(together: dict[str, Path], alone: Path, strategy: str) -> None:
    folder = together[strategy]
    assert_same_losses(folder, alone, STEPS)
    assert load(folder / "last").config == load(alone / "last").config
    # Each example of a batch is learned from once, by one process or the other; both have work.
    whole = examples(alone.with_name("alone.json"))
    first, second = (examples(folder.with_name(f"two-{rank}.json")) for rank in (0, 1))
    assert list(first) == list(second) == list(whole) == [str(step) for step in range(STEPS)]
    for step, batch in whole.items():
        assert first[step] + second[step] == batch
        assert first[step]
        assert second[step]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_learns_over_fifty_steps(tmp_path: Path, strategy: str) -> None:
    options = {"steps": 50, **NO_DROPOUT}
    run(tmp_path / "one", **options)
    torchrun(tmp_path / "two", strategy=strategy, **options)
    assert_same_losses(tmp_path / "two", tmp_path / "one", 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sop", "rtd", "mae", "mlm+causal"])
def test_two_processes_learn_what_one_learns_whatever_the_objective(tmp_path: Path, name: str) -> None:
    options = {"steps": 20, **NO_DROPOUT}
    run(tmp_path / "one", small_task(dropout=0.0, name=name), steps=20)
    torchrun(tmp_path / "two", name=name, **options)
    assert_same_losses(tmp_path / "two", tmp_path / "one", 20)


def test_a_sharded_checkpoint_is_resumed_by_one_process(
    together: dict[str, Path], tmp_path: Path, alone: Path
) -> None:
    shutil.copytree(together["fsdp"], tmp_path, dirs_exist_ok=True)
    shutil.rmtree(checkpoints(tmp_path)[-1])
    assert checkpoints(tmp_path)[-1].name == f"checkpoint-{STEPS - 3}"
    assert run(tmp_path, **NO_DROPOUT).is_finished
    assert metrics(tmp_path)[-1]["evaluation"]["mlm_loss"] == pytest.approx(
        metrics(alone)[-1]["evaluation"]["mlm_loss"], rel=1e-4
    )


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_resumes(tmp_path: Path, alone: Path) -> None:
    torchrun(tmp_path, options=("--max-restarts=2",), kill_rank_at=7, **NO_DROPOUT)
    assert (tmp_path / "killed").exists()
    assert metrics(tmp_path)[-1]["step"] == STEPS
    assert metrics(tmp_path)[-1]["evaluation"]["mlm_loss"] == pytest.approx(
        metrics(alone)[-1]["evaluation"]["mlm_loss"], rel=1e-4
    )

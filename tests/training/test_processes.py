import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from glassbert.inference.model import load
from glassbert.training.checkpoint import checkpoints
from training.small_run import STEPS, run

SCRIPT = Path(__file__).parent / "small_run.py"


def torchrun(folder: Path, num_processes: int = 2, options: tuple[str, ...] = (), **changes: Any) -> str:
    """Train with several processes on this machine; return what they said on stderr."""
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parents[1]), "OMP_NUM_THREADS": "1"}
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


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    run(folder, **NO_DROPOUT)
    return folder


# Dropout is drawn per process; without it, one and two processes compute the same sums in another order.
NO_DROPOUT = {"dropout": 0.0}


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_learns(tmp_path: Path, alone: Path, strategy: str) -> None:
    torchrun(tmp_path, strategy=strategy, **NO_DROPOUT)
    ours, theirs = metrics(tmp_path), metrics(alone)
    assert len(ours) == len(theirs) >= STEPS
    for two, one in zip(ours, theirs, strict=True):
        for name in ("mlm_loss", "nsp_loss", "grad_norm"):
            if name in one:
                assert two[name] == pytest.approx(one[name], rel=1e-5), (one["step"], name)
    assert load(tmp_path / "last").config == load(alone / "last").config


def test_a_sharded_checkpoint_goes_on_alone(tmp_path: Path, alone: Path) -> None:
    torchrun(tmp_path, strategy="fsdp", stop_after=6, **NO_DROPOUT)
    assert checkpoints(tmp_path)[-1].name == "checkpoint-6"
    assert run(tmp_path, **NO_DROPOUT).is_finished
    assert metrics(tmp_path)[-1]["evaluation"]["mlm_loss"] == pytest.approx(
        metrics(alone)[-1]["evaluation"]["mlm_loss"], rel=1e-4
    )


@pytest.mark.slow
def test_a_killed_process_is_started_again_and_goes_on(tmp_path: Path, alone: Path) -> None:
    torchrun(tmp_path, options=("--max-restarts=2",), kill_rank_at=7, **NO_DROPOUT)
    assert (tmp_path / "killed").exists()
    assert metrics(tmp_path)[-1]["step"] == STEPS
    assert metrics(tmp_path)[-1]["evaluation"]["mlm_loss"] == pytest.approx(
        metrics(alone)[-1]["evaluation"]["mlm_loss"], rel=1e-4
    )

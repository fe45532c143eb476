"""Checkpoints: model folders with the state to resume from; atomic, verified, never a pickle."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import ModelError, RunFailed
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.interop.weights import save_tensors
from glassbert.model.sharded import full
from glassbert.outputs import WRITTEN, remove_ours
from glassbert.storage import is_disk_full, new_folder, read_json, sha256_of, write_json
from glassbert.training.processes import like
from glassbert.typed import record_from

MANIFEST = "manifest.json"
PROGRESS = "progress.json"
TRAINING = "training.safetensors"
_NAME = re.compile(r"checkpoint-(\d+)")
MOMENTS = ("exp_avg", "exp_avg_sq", "momentum")
"""What optimisers remember about a parameter: AdamW the first two, Muon the last."""


@dataclass(frozen=True)
class Progress:
    """How far a run is. The step is also the position in the data."""

    step: int = 0
    """Updates done."""
    elapsed_s: float = 0.0
    """Time spent in training, over all sessions of the run."""
    best: float | None = None
    """Best value of the metric that chooses."""
    best_loss: float = 0.0
    """The loss with it, which breaks ties."""
    best_step: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the trainable wants back; see `RemembersData`."""


@dataclass(frozen=True)
class Snapshot:
    """Everything that a checkpoint holds beside the model."""

    progress: Progress
    tensors: Mapping[str, Tensor]
    """Optimiser moments and the averaged weights, by name."""


def checkpoints(run: Path) -> list[Path]:
    """Return the checkpoints of a run folder, oldest first."""
    found = [path for path in run.glob("checkpoint-*") if path.is_dir() and _NAME.fullmatch(path.name)]
    return sorted(found, key=step_of)


def step_of(checkpoint: Path) -> int:
    """Return after how many updates a checkpoint was written."""
    return int(checkpoint.name.split("-")[1])


def save_checkpoint(run: Path, snapshot: Snapshot, write_model: Callable[[Path], None], *, keep: int) -> Path:
    """Write checkpoint-<step> and delete all but the newest ``keep``."""
    path = run / f"checkpoint-{snapshot.progress.step}"
    with new_folder(path, overwrite=True) as folder:
        write_model(folder)
        save_tensors(snapshot.tensors, folder / TRAINING)
        write_json(folder / PROGRESS, asdict(snapshot.progress))
        files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != WRITTEN)
        sums = {file.relative_to(folder).as_posix(): sha256_of(file) for file in files}
        write_json(folder / MANIFEST, {"sha256": sums})
    for old in checkpoints(run)[:-keep]:
        remove_ours(old)
    return path


@contextmanager
def full_disk_reported(run: Path) -> Iterator[None]:
    """Turn a full disk into an error that says what to do."""
    try:
        yield
    except Exception as error:
        if not is_disk_full(error):
            raise
        found = checkpoints(run)
        kept = f"{found[-1].name} is intact" if found else "nothing was saved yet"
        raise RunFailed(
            f"{run}: no space left on its disk; {kept}: free some space and run the same command again"
        ) from None


def forget_stops(run: Path, save_every: int) -> None:
    """Delete the checkpoints that stops left between the regular ones, except the one to resume from."""
    newest = newest_good(run, lambda line: None)
    for path in checkpoints(run):
        if path == newest:
            break
        if step_of(path) % save_every:
            remove_ours(path)


def verify(path: Path) -> None:
    """Raise ModelError unless every file of a checkpoint is as it was written."""
    sums = read_json(path / MANIFEST).get("sha256")
    if not isinstance(sums, dict) or not sums:
        raise ModelError(f"{path / MANIFEST}: expected the sha256 of each file")
    for name, expected in sums.items():
        file = path / name
        if not file.is_file():
            raise ModelError(f"{file} is missing")
        if sha256_of(file) != expected:
            raise ModelError(f"{file} is damaged: its sha256 is not the one in {MANIFEST}")


def newest_good(run: Path, log: Callable[[str], None]) -> Path | None:
    """Return the newest intact checkpoint; damaged ones are skipped and reported."""
    for path in run.glob("checkpoint-*"):
        if _NAME.fullmatch(path.name) and not path.is_dir():
            raise ModelError(f"{path}: a file where a checkpoint belongs; remove it")
    found = checkpoints(run)
    for path in reversed(found):
        try:
            verify(path)
        except ModelError as error:
            log(f"skipping {path.name}: {error}")
            continue
        return path
    if found:
        raise ModelError(f"{run}: none of its {len(found)} checkpoints is intact; delete them to start again")
    return None


def read_snapshot(path: Path) -> Snapshot:
    """Read what a checkpoint holds beside the model."""
    progress = record_from(Progress, read_json(path / PROGRESS), str(path / PROGRESS), error=ModelError)
    return Snapshot(progress, dict(SafetensorsFile(path / TRAINING)))


def moments_of(optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str]) -> dict[str, Tensor]:
    """Return the optimiser's moments under the names of its parameters."""
    return {
        f"optimizer.{moment}.{names[parameter]}": full(state[moment])
        for parameter, state in optimizer.state.items()
        for moment in MOMENTS
        if moment in state
    }


def restore_moments(
    optimizer: torch.optim.Optimizer, names: Mapping[Tensor, str], tensors: Mapping[str, Tensor], step: int
) -> None:
    """Give the optimiser the moments that `moments_of` returned after ``step`` updates."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            keys = {moment: f"optimizer.{moment}.{names[parameter]}" for moment in MOMENTS}
            optimizer.state[parameter] = {
                # The fused optimiser keeps it on the parameter's device.
                "step": torch.tensor(float(step), device=parameter.device),
                **{moment: like(tensors[key], parameter) for moment, key in keys.items() if key in tensors},
            }

"""A run in memory: the module, its optimiser and its progress; how they are saved and restored."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import RunFailed
from glassbert.model.sharded import full
from glassbert.storage import new_folder
from glassbert.training.checkpoint import (
    Progress,
    Snapshot,
    full_disk_reported,
    moments_of,
    read_snapshot,
    restore_moments,
    save_checkpoint,
)
from glassbert.training.optimizer import Average, make_optimizer, set_rate
from glassbert.training.processes import Processes, like, reshard
from glassbert.training.schedule import rate_factor
from glassbert.training.settings import TrainSettings
from glassbert.training.step import StepResult, train_step
from glassbert.training.trainable import RemembersData, Trainable

# Odd constants of splitmix64: they spread neighbouring numbers over all seeds.
_SEED_STEP, _SEED_RANK = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9
# Weights of trained models are below 100: a model with larger ones has learned nothing.
_LARGEST_WEIGHT = 1e8
_ADVICE = "the run has diverged: lower train.learning_rate, and look at the data"


class TrainState:
    """Everything that changes during a run."""

    def __init__(self, trainable: Trainable, settings: TrainSettings, processes: Processes) -> None:
        self.trainable, self.settings, self.processes = trainable, settings, processes
        self.module = processes.wrap(trainable.module, settings.strategy, trainable.blocks())
        self.optimizer = make_optimizer(trainable.module, trainable.depth_of, settings)
        self.average = (
            Average(trainable.module.parameters(), settings.ema_decay) if settings.ema_decay else None
        )
        # Now: a sharded module has other parameters while it computes.
        self.names: dict[Tensor, str] = {p: name for name, p in trainable.module.named_parameters()}
        self.progress = Progress()
        self._elapsed_before_s, self._started_at = 0.0, time.monotonic()

    @cached_property
    def num_steps(self) -> int | None:
        """Updates of the whole run; None if the clock ends it.

        Computed late: counting epochs may mean planning them, except those that an earlier session counted.
        """
        return self.settings.num_steps(self.trainable.steps_in_epochs)

    @property
    def step(self) -> int:
        """Updates done."""
        return self.progress.step

    @property
    def elapsed_s(self) -> float:
        """Time spent on this run, over all its sessions."""
        return self._elapsed_before_s + time.monotonic() - self._started_at

    @property
    def share_done(self) -> float:
        """How much of the run is done, by steps or by the clock."""
        if self.settings.minutes is not None:
            # All processes use one clock: they must agree on the rate and on when to stop.
            elapsed_s = self.processes.sum({"s": self.elapsed_s})["s"] / self.processes.size
            return min(1.0, elapsed_s / (60 * self.settings.minutes))
        assert self.num_steps is not None
        return self.step / self.num_steps

    @property
    def left_s(self) -> float:
        """Estimated time to the end, at the speed so far; asks no other process."""
        if self.settings.minutes is not None:
            return max(0.0, 60 * self.settings.minutes - self.elapsed_s)
        assert self.num_steps is not None
        return self.elapsed_s * (self.num_steps / max(1, self.step) - 1)

    def update(self) -> tuple[StepResult, float, Mapping[str, int]]:
        """Do one update; return what it measured, its learning rate and the counts of its batch."""
        settings, step = self.settings, self.step
        batch = self.trainable.batch(step)
        counts = self.trainable.counts(batch)
        rate = settings.learning_rate * rate_factor(
            settings.schedule, settings.warmup, self._progress_of_update()
        )
        set_rate(self.optimizer, rate)
        # Dropout is a function of the step as well: no generator has to be saved.
        torch.manual_seed((settings.seed + step * _SEED_STEP + self.processes.rank * _SEED_RANK) % 2**63)
        self.module.train()
        try:
            result = train_step(
                self.module,
                self._own_parts(batch, counts["tokens"]),
                counts,
                self.trainable.loss_weights,
                self.optimizer,
                max_grad_norm=settings.max_grad_norm,
                sum_over_processes=self.processes.sum,
                gradient_scale=float(self.processes.size),
                precision=getattr(torch, settings.precision),
                device=self.processes.device,
            )
        except RunFailed as error:
            raise RunFailed(
                f"step {step}, batch of epoch {self.trainable.epoch_of(step):.2f}: {error}"
            ) from None
        if self.average:
            self.average.update()
        self.progress = replace(self.progress, step=step + 1, elapsed_s=self.elapsed_s)
        return result, rate, counts

    def note_metrics(self, metrics: Mapping[str, float]) -> bool:
        """Remember the metrics if they are the best so far; return whether they are."""
        name, is_higher_better = self.trainable.best_by
        value, best = metrics.get(name), self.progress.best
        if value is None or (best is not None and (value < best if is_higher_better else value > best)):
            return False
        # On a few hundred rows many evaluations have the same accuracy; the loss still differs.
        loss = metrics.get("loss", 0.0)
        if value == best and loss >= self.progress.best_loss:
            return False
        self.progress = replace(
            self.progress, elapsed_s=self.elapsed_s, best=value, best_loss=loss, best_step=self.step
        )
        return True

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Put the averaged weights, if any are kept, in place of the weights."""
        if self.average:
            self.average.swap()
        try:
            yield
        finally:
            if self.average:
                self.average.swap()

    def evaluate(self) -> dict[str, float]:
        """Measure the weights that would be saved; every process does, since shards need all of them."""
        self.trainable.module.eval()
        with self.averaged(), torch.no_grad():
            metrics = self.trainable.evaluate()
            reshard(self.trainable.module)
        for name, value in metrics.items():
            if name.endswith(("loss", "cross_entropy")) and not math.isfinite(value):
                raise RunFailed(f"step {self.step}: {name} on held-out data is {value}; {_ADVICE}")
        return metrics

    def save(self, run: Path, about: Mapping[str, Any]) -> None:
        """Write a checkpoint to resume from."""
        weights, tensors = self._weights(), moments_of(self.optimizer, self.names)
        if self.average:
            values = zip(self.names.values(), self.average.values, strict=True)
            tensors |= {f"average.{name}": full(value) for name, value in values}
        data = self.trainable.data_state() if isinstance(self.trainable, RemembersData) else {}
        snapshot = Snapshot(replace(self.progress, data=data), tensors)

        def write(folder: Path) -> None:
            self.trainable.save(folder, weights, about)

        with full_disk_reported(run):
            self.processes.run_on_main(lambda: save_checkpoint(run, snapshot, write, keep=self.settings.keep))

    def save_model(self, out: Path, about: Mapping[str, Any]) -> None:
        """Write a model folder, with the averaged weights if they are kept."""
        with self.averaged():
            weights = self._weights()

        def write() -> None:
            with new_folder(out, overwrite=True) as folder:
                self.trainable.save(folder, weights, about)

        with full_disk_reported(out.parent):
            self.processes.run_on_main(write)

    def resume(self, checkpoint: Path) -> None:
        """Continue from a checkpoint as if the run had never stopped."""
        weights = self.trainable.read_weights(checkpoint)
        with torch.no_grad():
            for parameter, name in self.names.items():
                parameter.copy_(like(weights[name].detach(), parameter))
        snapshot = read_snapshot(checkpoint)
        restore_moments(self.optimizer, self.names, snapshot.tensors, snapshot.progress.step)
        if self.average:
            self.average.values = [
                like(snapshot.tensors[f"average.{name}"], parameter) for parameter, name in self.names.items()
            ]
        self.progress = snapshot.progress
        if snapshot.progress.data and isinstance(self.trainable, RemembersData):
            self.trainable.restore_data_state(snapshot.progress.data)
        self._elapsed_before_s, self._started_at = snapshot.progress.elapsed_s, time.monotonic()

    def _progress_of_update(self) -> float:
        """Return the schedule position of this update, kept off both ends so that the rate is never 0."""
        if self.settings.minutes is not None:
            return max(1e-6, self.share_done)
        assert self.num_steps is not None
        return (self.step + 1) / (self.num_steps + 1)

    def _own_parts(self, batch: Any, num_tokens: int) -> list[Any]:
        """Return this process's share of the batch, in parts that fit in memory."""
        shares = self.trainable.split(batch, self.processes.size)
        if len(shares) < self.processes.size:
            raise RunFailed(
                f"a batch of {len(shares)} examples cannot be shared by {self.processes.size} processes"
            )
        num_parts = -(-num_tokens // (self.processes.size * self.settings.micro_tokens))
        # The same number on each process: all of them gather the shards of a model together, once per part.
        num_parts = min(len(self.trainable.split(share, num_parts)) for share in shares)
        return list(self.trainable.split(shares[self.processes.rank], num_parts))

    def _weights(self) -> dict[str, Tensor]:
        """Return copies of the weights; averaged ones are swapped out again before they are written."""
        weights = {name: full(parameter).cpu().clone() for parameter, name in self.names.items()}
        for name, weight in weights.items():
            largest = float(weight.abs().max()) if weight.numel() else 0.0
            if not largest < _LARGEST_WEIGHT:
                raise RunFailed(f"step {self.step}: {name} has grown to {largest:.1e}; {_ADVICE}")
        return weights

"""The training loop: next batch, step, maybe log, maybe evaluate, maybe save."""

import gc
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from glassbert.errors import RunFailed
from glassbert.messages import Log, say_nothing
from glassbert.signals import handled_by
from glassbert.storage import sweep
from glassbert.training.checkpoint import newest_good
from glassbert.training.log import RunLog
from glassbert.training.processes import Processes
from glassbert.training.settings import TrainSettings
from glassbert.training.state import TrainState
from glassbert.training.status import OnStatus
from glassbert.training.trainable import Trainable


@dataclass(frozen=True)
class TrainResult:
    """How a run, or this session of it, ended."""

    step: int
    is_finished: bool
    """False when a signal stopped the run; the same command resumes it."""
    metrics: dict[str, float]
    """Of the last evaluation."""
    best: float | None
    best_step: int | None


def train(
    trainable: Trainable,
    settings: TrainSettings,
    run: Path,
    *,
    about: Mapping[str, Any],
    log: Log,
    on_status: OnStatus | None = None,
) -> TrainResult:
    """Train in the folder ``run``, from its newest checkpoint if there is one.

    Args:
        about: What run.json says about every model of the run.
        log: Receives lines for the user.
        on_status: Receives the status after each step; without it, some of them are logged as lines.
    """
    processes = Processes.join(settings)
    if not processes.is_main:
        log, on_status = say_nothing, None
    result = _train(processes, trainable, settings, run, about, log, on_status)
    # The wrapper around the module must be freed before the processes leave their group: as the
    # group's last owner, it would end the group's threads while holding the lock that they wait for.
    if processes.size > 1:
        gc.collect()
    processes.leave()
    return result


def _train(
    processes: Processes,
    trainable: Trainable,
    settings: TrainSettings,
    run: Path,
    about: Mapping[str, Any],
    log: Log,
    on_status: OnStatus | None,
) -> TrainResult:
    state = TrainState(trainable, settings, processes)
    if processes.is_main:
        sweep(run)
    checkpoint = newest_good(run, log)
    if checkpoint is not None:
        state.resume(checkpoint)
        log(f"resuming from {checkpoint.name}")
    metrics: dict[str, float] = {}
    with stop_signals() as stop, RunLog(run, state, log, on_status) as report:

        def measure() -> dict[str, float]:
            metrics = state.evaluate()
            report.evaluation(metrics)
            if state.note_metrics(metrics):
                state.save_model(run / "best", about)
            return metrics

        # Checked once a step: checked twice, the clock could end the run without evaluating or saving it.
        is_last = state.share_done >= 1.0 or _has_stalled(state)
        while not is_last:
            result, rate, counts = state.update()
            is_last = state.share_done >= 1.0
            should_stop = processes.any(stop.is_asked)
            report.step(result, rate, counts, is_last=is_last)
            if is_last or state.step % settings.evaluate_every == 0:
                metrics = measure()
                if _has_stalled(state) and not is_last:
                    log(f"no improvement since step {state.progress.best_step}; the run ends early")
                    is_last = True
            if is_last or should_stop or state.step % settings.save_every == 0:
                report.flush()
                state.save(run, about)
            if should_stop and not is_last:
                log(f"stopped after step {state.step}; the same command resumes from there")
                return TrainResult(state.step, False, metrics, state.progress.best, state.progress.best_step)
        if not state.step:
            raise RunFailed(
                f"train.minutes={settings.minutes} ended before the first step; allow more, and name another "
                "folder with --out"
            )
        if state.progress.best_step is None and not metrics:
            # Stopped before the first evaluation, and its minutes were over before it was resumed.
            metrics = measure()
            if metrics:
                report.flush()
                state.save(run, about)
        state.save_model(run / "last", about)
    return TrainResult(state.step, True, metrics, state.progress.best, state.progress.best_step)


def _has_stalled(state: TrainState) -> bool:
    """Whether the last `patience` evaluations brought no improvement."""
    settings, best_step = state.settings, state.progress.best_step
    if not settings.patience or best_step is None:
        return False
    return state.step - best_step >= settings.patience * settings.evaluate_every


@dataclass
class Stop:
    """Whether a signal asked the run to stop."""

    is_asked: bool = False

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal; a second Ctrl-C does not wait for the step to end."""
        if self.is_asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_asked = True


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C, SIGTERM and a closed terminal into a request to stop after the current step."""
    stop = Stop()
    with handled_by(stop.ask):
        yield stop

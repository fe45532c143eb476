"""The log of a run: metrics.jsonl for programs, a live display or plain lines for people, curves.

metrics.jsonl holds only what the run computes, so it is the same byte for byte however often the run was
stopped; times and speeds go to speed.jsonl.
"""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from glassbert.errors import RunFailed
from glassbert.messages import Log
from glassbert.outputs import check_replaceable
from glassbert.parsing import json_text
from glassbert.storage import read_log, write_atomically
from glassbert.training.checkpoint import full_disk_reported
from glassbert.training.hardware import measured_peak, peak_memory
from glassbert.training.status import OnStatus, Status
from glassbert.training.step import StepResult
from glassbert.training.tensorboard import Curves

if TYPE_CHECKING:
    from glassbert.training.state import TrainState

METRICS = "metrics.jsonl"
SPEED = "speed.jsonl"
FLUSH_SECONDS = 2.0
"""Lines are written at least this often; a resumed run drops those after its checkpoint."""


class RunLog:
    """Writes the two logs of a run and reports its status to the user."""

    def __init__(
        self,
        run: Path,
        state: "TrainState",
        log: Log,
        on_status: OnStatus | None = None,
    ) -> None:
        """Measure the machine.

        Args:
            log: Receives lines for the user.
            on_status: Receives the status after each step; without it, some of them are logged as lines.
        """
        self.run, self.state, self.log, self.on_status = run, state, log, on_status
        processes = state.processes
        self.peak = measured_peak(processes.device) * processes.size if processes.is_main else 0.0
        self._lines: dict[str, list[dict[str, Any]]] = {METRICS: [], SPEED: []}
        self._curves: Curves | None = None
        self._flushed_at = time.monotonic()
        self._num_tokens = self._num_teaching = 0
        self._teaching_before = (time.process_time(), 0)
        # Time and number of tokens after each of the last steps, as many as make up a line.
        self._marks = deque([(time.monotonic(), 0)], maxlen=state.settings.log_every + 1)

    def __enter__(self) -> Self:
        if self.state.processes.is_main:
            with full_disk_reported(self.run):
                self.run.mkdir(parents=True, exist_ok=True)
                for name in (METRICS, SPEED):
                    forget_after(self.run / name, self.state.step)
            self._curves = Curves(self.run, self.state.step)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # A log that cannot be written must not hide the error that ended the run.
        with suppress(RunFailed) if kind else nullcontext():
            self.flush()

    def step(self, result: StepResult, rate: float, counts: Mapping[str, int], *, is_last: bool) -> None:
        """Record an update; every few of them become a line."""
        state = self.state
        self._num_tokens += counts["tokens"]
        self._num_teaching += counts.get("teaching_tokens", 0)
        self._marks.append((time.monotonic(), self._num_tokens))
        is_logged = is_last or state.step % state.settings.log_every == 0
        if not (is_logged or self.on_status):
            return
        status = self._status(result, rate)
        if self.on_status:
            self.on_status(status)
        if not is_logged:
            return
        row = {
            "step": state.step,
            "epoch": round(state.trainable.epoch_of(state.step), 4),
            "learning_rate": rate,
        }
        row |= {"grad_norm": result.grad_norm, **result.losses}
        if "teaching_tokens" in counts:
            row["teaching_tokens"] = counts["teaching_tokens"]
        speed = {"tokens_per_s": round(status.tokens_per_s, 1), "memory_bytes": status.memory_bytes}
        if "teaching_tokens" in counts:
            speed["teaching_tokens_per_cpu_s"] = round(self._teaching_speed(), 1)
        self._lines[METRICS].append(row)
        self._lines[SPEED].append({"step": state.step, "elapsed_s": round(state.elapsed_s, 3), **speed})
        self._draw("train", row)
        self._draw("speed", speed)
        if not self.on_status:
            self.log(status.line())
        if time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def _teaching_speed(self) -> float:
        """Return the tokens that taught since the last line, for each second of all cores of this process."""
        used_s, num_before = self._teaching_before
        self._teaching_before = (time.process_time(), self._num_teaching)
        return (self._num_teaching - num_before) / max(self._teaching_before[0] - used_s, 1e-9)

    def evaluation(self, metrics: Mapping[str, float]) -> None:
        """Record an evaluation."""
        if metrics:
            self._lines[METRICS].append({"step": self.state.step, "evaluation": dict(metrics)})
            self._draw("evaluation", metrics)
            self.log(self.state.trainable.verdict(metrics))

    def flush(self) -> None:
        """Append the lines to the files; also called before each checkpoint, so that no line is lost."""
        self._flushed_at = time.monotonic()
        # Emptied first: lines that were partly written must not be written again after that.
        lines, self._lines = self._lines, {METRICS: [], SPEED: []}
        if not self.state.processes.is_main:
            return
        with full_disk_reported(self.run):
            for name, rows in lines.items():
                if rows:
                    check_replaceable(self.run / name)
                    with (self.run / name).open("a", encoding="utf-8") as file:
                        file.writelines(json_text(row) + "\n" for row in rows)
            if self._curves:
                self._curves.flush()

    def _draw(self, group: str, values: Mapping[str, float | None]) -> None:
        """Add a point to each of a group of curves."""
        if self._curves:
            points = {name: value for name, value in values.items() if value is not None and name != "step"}
            self._curves.add(group, points, self.state.step)

    def _status(self, result: StepResult, rate: float) -> Status:
        state = self.state
        (started_at, tokens_before), (ended_at, tokens_after) = self._marks[0], self._marks[-1]
        speed = (tokens_after - tokens_before) / max(ended_at - started_at, 1e-9)
        flops = speed * state.trainable.flops_per_token()
        self.peak = max(self.peak, flops)  # the machine may have been busy when the peak was measured
        return Status(
            step=state.step,
            num_steps=state.num_steps,
            losses=result.losses,
            learning_rate=rate,
            tokens_per_s=speed,
            share_of_peak=flops / self.peak,
            memory_bytes=peak_memory(state.processes.device),
            elapsed_s=state.elapsed_s,
            left_s=state.left_s,
        )


def forget_after(path: Path, step: int) -> None:
    """Drop the lines after ``step``: the run resumes there and writes them again."""
    kept = b"".join(line for line, row in read_log(path) if row["step"] <= step)
    if path.is_file() and len(kept) < path.stat().st_size:
        write_atomically(path, kept)

"""What a run tells: metrics.jsonl for programs, a live line for people, TensorBoard if it is installed.

metrics.jsonl holds only what the run computes, so that it is the same to the byte however often the run was
stopped; what the clock says goes to speed.jsonl.
"""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch

from glassbert.storage import write_atomically
from glassbert.training.step import StepResult

if TYPE_CHECKING:
    from glassbert.training.state import TrainState

METRICS = "metrics.jsonl"
SPEED = "speed.jsonl"


class Report:
    """Writes the two logs of a run and tells the user how it goes."""

    def __init__(self, run: Path, state: "TrainState", tell: Callable[[str], None]) -> None:
        self.run, self.state, self.tell = run, state, tell
        self.peak = measured_peak() if state.processes.is_main else 0.0
        self._lines: dict[str, list[dict[str, Any]]] = {METRICS: [], SPEED: []}
        self._since_log = {"tokens": 0, "started_at": time.monotonic()}

    def __enter__(self) -> Self:
        if self.state.processes.is_main:
            self.run.mkdir(parents=True, exist_ok=True)
            for name in (METRICS, SPEED):
                forget_after(self.run / name, self.state.step)
        return self

    def __exit__(self, *_: object) -> None:
        self.flush()

    def step(self, result: StepResult, rate: float, counts: Mapping[str, int], *, is_last: bool) -> None:
        """Take note of an update; every few of them become a line."""
        state = self.state
        self._since_log["tokens"] += counts["tokens"]
        if not (is_last or state.step % state.settings.log_every == 0):
            return
        row = {"step": state.step, "epoch": round(state.task.epoch_of(state.step), 4), "learning_rate": rate}
        row |= {"grad_norm": result.grad_norm, **result.losses}
        self._lines[METRICS].append(row)
        elapsed_s = time.monotonic() - self._since_log["started_at"]
        speed = self._since_log["tokens"] / elapsed_s
        self._lines[SPEED].append(
            {"step": state.step, "elapsed_s": round(state.elapsed_s, 3), "tokens_per_s": round(speed, 1)}
        )
        self._since_log = {"tokens": 0, "started_at": time.monotonic()}
        self.tell(self._line(row, speed))

    def evaluation(self, metrics: Mapping[str, float]) -> None:
        """Take note of an evaluation."""
        if metrics:
            self._lines[METRICS].append({"step": self.state.step, "evaluation": dict(metrics)})
            self.tell(self.state.task.verdict(metrics))

    def flush(self) -> None:
        """Append the lines to the files; called before each checkpoint, so that none is lost."""
        for name, rows in self._lines.items():
            if rows and self.state.processes.is_main:
                with (self.run / name).open("a", encoding="utf-8") as file:
                    file.writelines(json.dumps(row) + "\n" for row in rows)
            rows.clear()

    def _line(self, row: Mapping[str, Any], speed: float) -> str:
        state = self.state
        known = ("step", "epoch", "learning_rate", "grad_norm")
        values = "  ".join(f"{name} {value:.4f}" for name, value in row.items() if name not in known)
        flops = speed * state.task.flops_per_token()
        self.peak = max(self.peak, flops)  # it may have been measured while the machine was busy
        share = flops / self.peak
        left_s = state.elapsed_s * (1 / max(state.share_done, 1e-9) - 1)
        return (
            f"step {row['step']}  {values}  lr {row['learning_rate']:.2e}  {speed:,.0f} tokens/s "
            f"({share:.0%} of peak)  {_duration(left_s)} left"
        )


def forget_after(path: Path, step: int) -> None:
    """Drop the lines after ``step``: the run goes on from there and will write them again."""
    if not path.is_file():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
    if len(kept) < len(lines):
        write_atomically(path, "".join(kept).encode("utf-8"))


def measured_peak(seconds: float = 0.2) -> float:
    """Return the floating-point operations per second of a large matrix product, here and now."""
    a, b = torch.randn(1024, 768), torch.randn(768, 3072)
    torch.mm(a, b)
    best, ends_at = float("inf"), time.monotonic() + seconds
    while time.monotonic() < ends_at:
        started_at = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - started_at)
    return 2 * 1024 * 768 * 3072 / best


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

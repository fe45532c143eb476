"""The status of a run after a step, and how it is worded."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far a run is, how well it does and how fast."""

    step: int
    num_steps: int | None
    """None if the clock ends the run."""
    losses: Mapping[str, float]
    """By name; also what else the trainable counts, such as accuracies."""
    learning_rate: float
    tokens_per_s: float
    """Over the last few steps, on all processes."""
    share_of_peak: float
    """Relative to the highest measured number of floating-point operations per second."""
    memory_bytes: int | None
    """Peak memory of this process; None if the system does not report it."""
    elapsed_s: float
    left_s: float

    @property
    def share_done(self) -> float:
        """How much of the run is done."""
        return self.elapsed_s / max(self.elapsed_s + self.left_s, 1e-9)

    def position(self) -> str:
        """Return the step, and of how many."""
        return f"step {self.step}" + (f"/{self.num_steps}" if self.num_steps is not None else "")

    def results(self) -> str:
        """Return the losses and whatever else was counted."""
        return "  ".join(f"{name} {value:.4f}" for name, value in self.losses.items())

    def machine(self) -> str:
        """Return the learning rate, the speed and the memory."""
        memory = "" if self.memory_bytes is None else f"  {self.memory_bytes / 1e9:.2f} GB"
        return (
            f"lr {self.learning_rate:.2e}  {self.tokens_per_s:,.0f} tokens/s "
            f"({self.share_of_peak:.0%} of peak){memory}"
        )

    def time_left(self) -> str:
        """Return the estimated time to the end."""
        return f"{duration(self.left_s)} left"

    def line(self) -> str:
        """Return everything on one line, for output that is not a terminal."""
        return f"step {self.step}  {self.results()}  {self.machine()}  {self.time_left()}"


OnStatus = Callable[[Status], None]
"""Receives the status of a run after each step."""


def duration(seconds: float) -> str:
    """Return a duration as m:ss or h:mm:ss."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"

"""Phases of a run: how many tokens a batch holds, and how long its texts are, from one step to another.

Each phase begins an epoch of its own, so no order and no mask of an earlier phase is repeated. Every batch is
still a pure function of seed and step.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.errors import UserError
from glassbert.ranges import Count, Length, Range
from glassbert.typed import check_fields

# The number of a phase's first epoch, so that no two phases share one.
_EPOCHS_PER_PHASE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a run with settings of its own; what it does not set is as in the rest of the recipe."""

    until: Annotated[float, Range(0, 1, has_low=False)]
    """Share of the run's steps at which it ends."""
    batch_tokens: Count | None = None
    """Real tokens of one update."""
    max_length: Length | None = None
    """Tokens of the longest example."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Stretch:
    """A phase in steps."""

    phase: Phase
    first_step: int
    first_epoch: int


def stretches(phases: Sequence[Phase], num_steps: int) -> list[Stretch]:
    """Return the phases of a run of ``num_steps``; what they leave open at the end is one more phase."""
    ends = [phase.until for phase in phases]
    if sorted(set(ends)) != ends:
        raise UserError(f"the phases end at {', '.join(map(str, ends))}; expected each later than the last")
    if ends[-1:] != [1.0]:
        phases = [*phases, Phase(until=1.0)]
    starts = [0, *(round(phase.until * num_steps) for phase in phases)]
    return [
        Stretch(phase, start, index * _EPOCHS_PER_PHASE)
        for index, (phase, start) in enumerate(zip(phases, starts[:-1], strict=True))
        if starts[index + 1] > start
    ]


class Batches(Protocol):
    """What a run is trained on: `CorpusBatches`, or several of them in turn."""

    @property
    def seed(self) -> int:
        """Of all random choices."""

    def batch(self, step: int, num_steps: int | None = None) -> PretrainBatch:
        """Return the batch of a step; see `CorpusBatches.batch`."""

    def epoch_of(self, step: int) -> float:
        """Return how many epochs are done before a step."""

    def steps_in_epochs(self, num_epochs: float) -> int:
        """Return the number of steps that ``num_epochs`` take."""

    def counts_so_far(self) -> list[Any]:
        """Return the sizes of the epochs known so far, as JSON."""

    def restore_counts(self, counts: Sequence[Any]) -> None:
        """Put back what `counts_so_far` returned, which saves planning past epochs again."""


class PhasedBatches:
    """The batches of a run in phases."""

    def __init__(self, parts: Sequence[CorpusBatches]) -> None:
        """Put the phases one after the other; each knows its first step."""
        assert parts, "a run without a phase"
        self.parts = tuple(parts)
        self.seed = parts[0].seed
        self._starts = [part.first_step for part in parts]

    def batch(self, step: int, num_steps: int | None = None) -> PretrainBatch:
        """Return the batch of a step, from the phase that it falls into."""
        return self.parts[bisect_right(self._starts, step) - 1].batch(step, num_steps)

    def epoch_of(self, step: int) -> float:
        """Return how many epochs are done before a step, those of all phases together."""
        begun = self.parts[: max(1, bisect_left(self._starts, step))]
        ends = [*(part.first_step for part in begun[1:]), step]
        return sum(part.epoch_of(end) for part, end in zip(begun, ends, strict=True))

    def steps_in_epochs(self, num_epochs: float) -> int:
        """Refuse: the length of a phase is a share of the run's steps, which must be known first."""
        raise UserError("data.phases are shares of a run of known length; set train.steps")

    def counts_so_far(self) -> list[Any]:
        """Return the sizes of the epochs known so far, by phase."""
        return [part.counts_so_far() for part in self.parts]

    def restore_counts(self, counts: Sequence[Any]) -> None:
        """Put back what `counts_so_far` returned."""
        for part, of_part in zip(self.parts, counts, strict=True):
            part.restore_counts(of_part)

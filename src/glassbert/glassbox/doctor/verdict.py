"""The doctor's report: one verdict for each check."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from glassbert.messages import one_line
from glassbert.sentence import Sentence, joined

State = Literal["ok", "warn", "fault", "skipped"]
SHOWN_NAMES = 3
NO_ADVICE = Sentence("")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one check."""

    check: str
    """What was looked at, in a word or two."""
    state: State
    finding: Sentence
    """What was found, with its figure."""
    advice: Sentence = NO_ADVICE
    """What to do about it; empty if it is ok."""

    def __str__(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return one_line(f"{self.state:<8}{self.check:<14}{self.finding}{advice}")


@dataclass(frozen=True)
class Diagnosis:
    """All verdicts on a model. `print` shows a line for each."""

    model: str
    verdicts: tuple[Verdict, ...]

    @property
    def faults(self) -> tuple[Verdict, ...]:
        """What is wrong."""
        return tuple(one for one in self.verdicts if one.state == "fault")

    @property
    def warnings(self) -> tuple[Verdict, ...]:
        """What may be wrong, or is worth knowing."""
        return tuple(one for one in self.verdicts if one.state == "warn")

    def to_json(self) -> dict[str, Any]:
        """Return what `doctor --json` prints."""
        return {
            "model": self.model,
            "faults": len(self.faults),
            "warnings": len(self.warnings),
            "verdicts": [{name: str(value) for name, value in asdict(one).items()} for one in self.verdicts],
        }

    def __str__(self) -> str:
        total = f"{self.model}: {counted(self.faults, 'fault')}, {counted(self.warnings, 'warning')}"
        return "\n".join([*map(str, self.verdicts), one_line(total)])


def named(names: Sequence[str]) -> Sentence:
    """Return some names, and how many more there are."""
    shown, num_more = joined(names[:SHOWN_NAMES]), len(names) - SHOWN_NAMES
    return (
        Sentence("{names} and {num_more:,} more", names=shown, num_more=num_more) if num_more > 0 else shown
    )


def counted(verdicts: Sequence[Verdict], noun: str) -> str:
    """Return how many verdicts there are, in words."""
    return f"{len(verdicts) or 'no'} {noun}{'s' * (len(verdicts) != 1)}"

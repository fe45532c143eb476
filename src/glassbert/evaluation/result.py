"""The result of an evaluation: everything that the reports show."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

from glassbert.metrics.baselines import Baselines
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.comparison import Comparison
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.report import Report as Report
from glassbert.metrics.thresholds import Acceptance
from glassbert.metrics.translation import TranslationReport


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """A number that was logged during training, over the steps."""

    name: str
    kind: Literal["train", "evaluation"]
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeedResult:
    """The metrics of a run with another seed."""

    seed: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, repr=False)
class Evaluation:
    """How good a model is on labelled rows, on sentence pairs or on a corpus."""

    task: str
    """classify, pair, tag, answer, translate or pretrain."""
    model: str
    data: str
    examples: int
    report: Report
    """The scores of the task in full; `metrics` has the main figures."""
    float32: Mapping[str, float] | None = None
    """The metrics of the same model in float32, of one that computes in int8."""
    calibration: Calibration | None = None
    acceptance: Acceptance | None = None
    """From which score on guesses can be accepted, for classifiers."""
    mistakes: tuple[Mistake, ...] = ()
    """The worst ones, worst first."""
    alarm: str | None = None
    """Why the predictions are degenerate, such as the same label for every text."""
    truncated: int | None = None
    """Examples of which the model saw only a part; None if not counted, as for the next two."""
    tokens: int | None = None
    unknown: int | None = None
    """Tokens that replace characters missing from the vocabulary."""
    baselines: Baselines | None = None
    """What simple methods and the model scored on the dev rows of its training."""
    comparison: Comparison | None = None
    """The model beside the teacher that it learned from; None if there was none."""
    curves: tuple[TrainingCurve, ...] = ()
    seeds: tuple[SeedResult, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the evaluation and of the training run by name, such as the learning rate."""
    notes: tuple[str, ...] = ()
    """Guesses and repairs made while reading the data, rows left out, texts cut."""

    @cached_property
    def metrics(self) -> Mapping[str, float]:
        """The figures by the names that `evaluate --json` prints and `--min` reads."""
        of_calibration = self.calibration.metrics() if self.calibration else {}
        return {**self.report.metrics(), **of_calibration}

    def __repr__(self) -> str:
        figures = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        return f"<Evaluation of {self.model} on {self.data}: {self.examples:,} examples, {figures}>"

    def to_json(self) -> dict[str, Any]:
        """Return what `evaluate --json` prints; mistakes and curves are left to the report."""
        report = self.report.to_json()
        return {
            "task": self.task,
            "model": self.model,
            "data": self.data,
            "examples": self.examples,
            "metrics": dict(self.metrics),
            "float32": None if self.float32 is None else dict(self.float32),
            "truncated": self.truncated,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "report": report,
            "calibration": self.calibration.to_json() if self.calibration else None,
            "thresholds": [one.to_json() for one in self.acceptance.thresholds] if self.acceptance else [],
            "alarm": self.alarm,
            "baselines": self.baselines.to_json() if self.baselines else None,
            "student": self.comparison.to_json() if self.comparison else None,
            "seeds": [asdict(seed) for seed in self.seeds],
            "notes": list(self.notes),
            # A translator's scores have always been at the top level as well.
            **(report if isinstance(self.report, TranslationReport) else {}),
        }

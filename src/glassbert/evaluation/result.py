"""Everything that is known of a model after it was tried on labelled data: what the reports show."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from glassbert.metrics.answers import AnswerReport
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.classes import ClassReport, MultiLabelReport
from glassbert.metrics.regression import RegressionReport
from glassbert.metrics.spans import SpanReport
from glassbert.metrics.thresholds import ClassThreshold, ThresholdCurve

Report = ClassReport | MultiLabelReport | RegressionReport | SpanReport | AnswerReport


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a text to be shown as found, missed or wrongly guessed; in code points, end exclusive."""

    start: int
    end: int
    label: str
    kind: Literal["right", "missed", "wrong"]


@dataclass(frozen=True, slots=True)
class Passage:
    """A text of an example."""

    name: str
    """What the text is to the example, such as "question"; empty where there is only one."""
    text: str
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Mistake:
    """An example that the model got wrong."""

    where: str
    passages: tuple[Passage, ...]
    gold: str
    """What is right, as a person would write it."""
    guess: str
    score: float
    """How wrong it is, such as the model's confidence in its wrong guess; reports show the highest first."""


@dataclass(frozen=True, slots=True)
class TrainingCurve:
    """How a number went during training."""

    name: str
    kind: Literal["train", "evaluation"]
    steps: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SeedResult:
    """What a run with another seed came to."""

    seed: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A model's results on a file of labelled examples."""

    task: str
    model: str
    data: str
    examples: int
    report: Report
    calibration: Calibration | None = None
    thresholds: tuple[ClassThreshold, ...] = ()
    thresholds_for: str = ""
    """What the thresholds were made for, such as "precision 0.95"."""
    abstain: ThresholdCurve | None = None
    """What accuracy a model would have that answers only when it is sure."""
    points: tuple[tuple[float, float], ...] = ()
    """Gold and guess of each number, for regression."""
    mistakes: tuple[Mistake, ...] = ()
    curves: tuple[TrainingCurve, ...] = ()
    seeds: tuple[SeedResult, ...] = ()
    truncated: int = 0
    """Examples of which the model saw only a part."""
    tokens: int = 0
    unknown: int = 0
    """Tokens that stand for characters which the vocabulary does not have."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What a reader should know of the run, by name: the learning rate, the seed, versions."""
    notes: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        """Return all numbers that gates can use."""
        of_calibration = self.calibration.metrics() if self.calibration else {}
        return {**self.report.metrics(), **of_calibration}

    def to_json(self) -> dict[str, Any]:
        """Return what `evaluate --json` prints; the mistakes are for people and stay out."""
        return {
            "task": self.task,
            "model": self.model,
            "data": self.data,
            "examples": self.examples,
            "metrics": self.metrics(),
            "truncated": self.truncated,
            "tokens": self.tokens,
            "unknown": self.unknown,
            "report": self.report.to_json(),
            "calibration": self.calibration.to_json() if self.calibration else None,
            "thresholds": [threshold.to_json() for threshold in self.thresholds],
            "seeds": [asdict(seed) for seed in self.seeds],
            "notes": list(self.notes),
        }

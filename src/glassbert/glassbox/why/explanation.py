"""The result of `why`: the parts that an answer depends on, each with its value."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from glassbert.arguments import checked_methods
from glassbert.errors import GateError
from glassbert.inference.model import Candidate
from glassbert.inference.questions import Baseline, Method
from glassbert.interop.names import nearest
from glassbert.outputs import HTML, check_new
from glassbert.storage import write_atomically

ORDERED = ("layers", "lens", "tokens")
"""Methods whose parts are listed in their own order rather than by size."""
MAX_GAP = 0.05
"""Integrated gradients that leave more than this share unexplained allow no conclusion."""


class Place(NamedTuple):
    """Characters of one of the texts."""

    text: int
    """Number of the text: 0, or 1 for the second of a pair."""
    start: int
    end: int
    """The character after the last."""


@dataclass(frozen=True, slots=True)
class Part:
    """A token, a word, a head, a layer or a row, and its value."""

    name: str
    value: float
    """In the unit of the explanation; positive for what supports the answer."""
    place: Place | None = None
    """Where it is in the texts; None for what is not in them, such as a head or [SEP]."""
    note: str = ""
    candidates: tuple[Candidate, ...] = ()
    """What is nearest, or likeliest here, best first."""

    @property
    def about(self) -> str:
        """The note, or the candidates with their scores, in one line."""
        return ", ".join(f"{one.token} {one.score:.3f}" for one in self.candidates) or self.note

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; what is empty is left out."""
        content: dict[str, Any] = {"name": self.name, "value": self.value}
        if self.place:
            content |= self.place._asdict()
        if self.note:
            content["note"] = self.note
        if self.candidates:
            content["candidates"] = [asdict(one) for one in self.candidates]
        return content


@dataclass(frozen=True)
class Completeness:
    """Whether integrated gradients add up: the parts must sum to the score minus the baseline's."""

    baseline: Baseline
    baseline_score: float
    """The score with every token of the texts replaced by the baseline."""
    steps: int
    """Places on the way from the baseline to the text where gradients were taken."""
    gap: float
    """What the parts miss of the difference of the two scores, as a share of it."""


@checked_methods
@dataclass(frozen=True)
class Explanation:
    """Why a model gave an answer. `print` shows it with bars, a notebook as a page."""

    method: Method
    task: str
    texts: tuple[str, ...]
    target: str
    """The answer that is explained, in words; empty if the method explains none."""
    unit: str
    """What the values are measured in."""
    score: float | None
    """The number that is explained: log-odds of the target; for a regression, the number itself."""
    probability: float | None
    """The same as a probability, where it is that of a single decision."""
    parts: tuple[Part, ...]
    """In the order of the text, or of the model."""
    notes: tuple[str, ...] = ()
    """What to know before drawing conclusions."""
    completeness: Completeness | None = None
    """For integrated gradients."""

    @property
    def is_conclusive(self) -> bool:
        """Whether the parts may be ranked: integrated gradients have to add up within 5%."""
        return self.completeness is None or self.completeness.gap <= MAX_GAP

    @property
    def refusal(self) -> str:
        """Why there is no conclusion; empty if there is one."""
        if self.completeness is None or self.is_conclusive:
            return ""
        known = self.completeness
        return (
            f"the completeness gap is {known.gap:.1%} after {known.steps} steps, above {MAX_GAP:.0%}: no "
            "conclusion; raise steps, or choose another baseline"
        )

    def ranked(self, top: int | None = None) -> list[Part]:
        """Return the parts, those that matter most first; refuse it where they allow no conclusion."""
        if self.refusal:
            raise GateError(self.refusal)
        return sorted(self.parts, key=lambda part: -abs(part.value))[:top]

    def listed(self, top: int | None = None) -> list[Part]:
        """Return the parts as they are shown: layers in their order, all else ranked."""
        return list(self.parts[:top]) if self.method in ORDERED else self.ranked(top)

    def to_json(self) -> dict[str, Any]:
        """Return what `why --json` prints."""
        return {
            "method": self.method,
            "task": self.task,
            "target": self.target,
            "unit": self.unit,
            "score": self.score,
            "probability": self.probability,
            "parts": [part.to_json() for part in self.parts],
            "notes": list(self.notes),
            "completeness": asdict(self.completeness) if self.completeness else None,
            "is_conclusive": self.is_conclusive,
        }

    def to_html(self) -> str:
        """Return a page with the texts highlighted."""
        from glassbert.glassbox.why.page import page

        return page(self)

    def save_html(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the page to a file."""
        check_new(path, HTML, overwrite=overwrite)
        write_atomically(Path(path), self.to_html().encode("utf-8"))

    def __str__(self) -> str:
        from glassbert.glassbox.why.terminal import render

        return render(self)

    def _repr_html_(self) -> str:
        from glassbert.glassbox.why.page import frame

        return frame(self)


def guess(given: str, known: Sequence[str]) -> str:
    """Return the end of a message that names the known word that looks most like ``given``."""
    found = nearest(given, known)
    return f" (nearest: {found!r})" if found else ""

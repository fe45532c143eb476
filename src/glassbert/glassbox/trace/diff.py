"""Where two traces diverge: of two texts, of two models, or of two moments of a training."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassbert.glassbox.trace.graph import Step
from glassbert.glassbox.trace.record import GRAD

if TYPE_CHECKING:
    from glassbert.glassbox.trace.trace import Trace

SAME = 1e-6
"""Relative distance up to which two tensors count as equal: rounding alone, in float32."""
SHOWN = 12

Places = tuple[list[int], list[int]]
"""Positions in the one trace, and those of the same tokens in the other."""


@dataclass(frozen=True)
class Distance:
    """How far a tensor of one trace is from the same in another."""

    name: str
    relative: float
    """Norm of the difference, divided by the larger norm: 0 if equal, up to 2 if opposite."""
    largest: float
    """The largest difference of two numbers."""
    share: float
    """How much of the larger tensor was compared; less than 1 if the texts have different tokens."""


@dataclass(frozen=True)
class TraceDiff:
    """The distances of all tensors that two traces share, in the order of computation."""

    distances: tuple[Distance, ...]
    only_first: tuple[str, ...]
    """Names that only the first trace has, or that have no token in common."""
    only_second: tuple[str, ...]

    @property
    def first(self) -> Distance | None:
        """Where they diverge: the first result that is not the same; None if all are."""
        steps = (one for one in self.distances if not one.name.startswith(GRAD))
        return next((one for one in steps if one.relative > SAME), None)

    @property
    def ranked(self) -> tuple[Distance, ...]:
        """The distances, largest first."""
        return tuple(sorted(self.distances, key=lambda one: -one.relative))

    def __getitem__(self, name: str) -> Distance:
        return next(one for one in self.distances if one.name == name)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "first": self.first and self.first.name,
            "ranked": [asdict(one) for one in self.ranked],
            "only_first": list(self.only_first),
            "only_second": list(self.only_second),
        }

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, number: int = SHOWN) -> Iterator[str]:
        """Yield where they diverge, then the ``number`` names that are furthest apart."""
        num_same = sum(one.relative <= SAME for one in self.distances)
        if self.first is None:
            yield f"the traces agree in all {num_same} tensors that they share"
        else:
            num_all = len(self.distances)
            yield f"they diverge at {self.first.name}; {num_same} of {num_all} tensors are the same"
            width = max(len(one.name) for one in self.ranked[:number])
            yield f"{'name':{width}}  relative  largest"
            for one in self.ranked[:number]:
                yield f"{one.name:{width}}  {one.relative:8.4f}  {one.largest:.3g}"
        for which, names in (("first", self.only_first), ("second", self.only_second)):
            if names:
                yield f"only in the {which}: {', '.join(names[:4])}{' ...' if len(names) > 4 else ''}"


def diff(first: "Trace", second: "Trace") -> TraceDiff:
    """Compare two traces tensor by tensor, each read once; tokens that both texts have are matched."""
    places = {
        "token": matched(first.tokens, second.tokens),
        "target": matched(first.target_tokens, second.target_tokens),
    }
    steps = {step.name: step for step in first.graph}
    found, apart = [], set()
    others = set(second.names())
    for name in (name for name in first.names() if name in others):
        step = steps.get(name.removeprefix(GRAD))
        if step is not None and step.is_given:
            continue
        distance = _distance(name, first[name], second[name], step, places)
        if distance is None:
            apart.add(name)
        else:
            found.append(distance)
    whole = {step.name for trace in (first, second) for step in trace.graph if step.is_given}
    return TraceDiff(
        tuple(found),
        tuple(name for name in first.names() if name not in whole and (name not in others or name in apart)),
        tuple(name for name in second.names() if name not in whole and (name not in first or name in apart)),
    )


def matched(first: Sequence[str], second: Sequence[str]) -> Places:
    """Return the positions of the tokens that two texts have in common, in order."""
    pairs: Places = ([], [])
    for start, other, size in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        pairs[0].extend(range(start, start + size))
        pairs[1].extend(range(other, other + size))
    return pairs


def _distance(
    name: str, a: NDArray[Any], b: NDArray[Any], step: Step | None, places: Mapping[str, Places]
) -> Distance | None:
    """Return how far two tensors are from each other; None if they have nothing to compare."""
    size = max(a.size, b.size)
    if a.shape != b.shape and step is not None and len(a.shape) == len(b.shape):
        for axis, dim in enumerate(step.dims):
            if dim in places and a.shape[axis] != b.shape[axis]:
                a, b = a.take(places[dim][0], axis), b.take(places[dim][1], axis)
    if a.shape != b.shape or not a.size:
        return None
    is_both = np.isfinite(a) & np.isfinite(b)  # minus infinity, where a mask hides a token
    first, second = a[is_both].astype(np.float64), b[is_both].astype(np.float64)
    gap = np.abs(first - second)
    norm = max(float(np.linalg.norm(first)), float(np.linalg.norm(second)))
    relative = float(np.linalg.norm(gap)) / norm if norm else 0.0
    return Distance(name, relative, float(gap.max(initial=0.0)), a.size / size)

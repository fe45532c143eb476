"""What a compute thread hands back for one text, before any dialect has shaped it."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Row(Generic[V]):
    """The answer for one text."""

    value: V
    """A vector, a prediction, a translation, or the candidates of each mask."""
    tokens: int
    """Tokens that the model read."""
    truncated: bool
    windows: int = 1
    """Parts in which the text was read."""
    logits: NDArray[np.float64] | None = None
    """Before softmax. Of a classifier, the mean of the windows; of a tagger, those of each piece."""


AnyRow = Row[Any]

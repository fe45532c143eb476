"""Check what Python code passes to a model, before anything is computed, and what the model returns."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.arguments import checked
from glassbert.errors import ModelError, UserError
from glassbert.parsing import is_text


@checked
def check_characters(texts: Sequence[str]) -> None:
    """Refuse texts that are not whole characters."""
    for index, text in enumerate(texts):
        if not is_text(text):
            raise UserError(f"text {index} holds half of a character (a lone surrogate); remove it")


def check_finite(values: NDArray[Any], what: str) -> None:
    """Refuse a result with NaN or infinity: the weights are damaged, or too large to compute with."""
    if not np.isfinite(values).all():
        raise ModelError(f"{what} not finite numbers; the weights of the model are damaged, use another")

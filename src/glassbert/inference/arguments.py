"""What Python code passes to a model, checked before anything is computed; and what the model gives back."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import ModelError, UserError
from glassbert.parsing import is_text


def checked_texts(texts: Any) -> list[str]:
    """Return texts as a list; refuse what is not some texts, and texts that are not whole characters."""
    if isinstance(texts, str | bytes | bytearray | Mapping) or not isinstance(texts, Iterable):
        hint = "; wrap it in a list" if isinstance(texts, str) else ""
        raise UserError(f"expected a list of texts, got a {type(texts).__name__}{hint}")
    found = list(texts)
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise UserError(
                f"text {index}: expected texts that are str, got a {type(text).__name__}; convert it first"
            )
        if not is_text(text):
            raise UserError(f"text {index} holds half of a character (a lone surrogate); remove it")
    return found


def check_finite(values: NDArray[Any], what: str) -> None:
    """Refuse a result with NaN or infinity: the weights are damaged, or too large to compute with."""
    if not np.isfinite(values).all():
        raise ModelError(f"{what} not finite numbers; the weights of the model are damaged, use another")

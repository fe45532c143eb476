"""Sums of products, written once with letters and shown with numbers too."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Formula:
    """A count and its formula."""

    symbolic: str
    """With letters: `D x I + I`."""
    numeric: str
    """With numbers: `1024 x 4096 + 4096`."""
    value: int


def formula(symbolic: str, symbols: Mapping[str, int]) -> Formula:
    """Evaluate a sum of products such as `D x I + I`; a factor is a letter of ``symbols`` or a number."""
    terms = [
        [symbols[factor] if factor in symbols else int(factor) for factor in term.split(" x ")]
        for term in symbolic.split(" + ")
    ]
    numeric = " + ".join(" x ".join(str(factor) for factor in term) for term in terms)
    return Formula(symbolic, numeric, sum(math.prod(term) for term in terms))

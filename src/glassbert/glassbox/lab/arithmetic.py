"""Products and sums written out with their symbols, their numbers and their result."""

from collections.abc import Iterable, Sequence
from math import fsum, prod
from typing import NamedTuple

from glassbert.glassbox.lab.result import Cell, Table
from glassbert.glassbox.lab.words import Text, Words

DIGITS = 10


class Factor(NamedTuple):
    """A number with its name."""

    name: str
    value: float


Term = tuple[Factor, ...]
"""Factors that are multiplied."""


def result(value: float) -> str:
    """Return a number with all its digits."""
    return f"{value:.{DIGITS}f}"


def short(value: float) -> str:
    """Return a number as a part of a formula: without zeros at its end, in brackets if negative."""
    text = result(value).rstrip("0").rstrip(".") if "." in result(value) else result(value)
    return f"({text})" if value < 0 else text


def sum_of_products(name: str, terms: Sequence[Term]) -> tuple[str, float]:
    """Return the line for ``a*b + c*d + e``, from its symbols to its result, and the result."""
    products = [prod(factor.value for factor in term) for term in terms]
    total = fsum(products)
    stages = [
        " + ".join("*".join(factor.name for factor in term) for term in terms),
        " + ".join("*".join(short(factor.value) for factor in term) for term in terms),
    ]
    if len(terms) > 1 and any(len(term) > 1 for term in terms):
        stages.append(" + ".join(map(short, products)))
    return f"{name} = {' = '.join(stages)} = {result(total)}", total


def contributions(
    title: Text,
    factors: tuple[Text, Text],
    pairs: Iterable[tuple[float, float]],
    *,
    num_rows: int,
    extra: Iterable[tuple[Text, float]] = (),
) -> tuple[Table, float]:
    """Return the largest terms of a long sum of products as a table that adds up, and the sum.

    Args:
        factors: Names of the two columns of factors.
        num_rows: Terms to show one by one; the others are one row.
        extra: What else is added, such as a bias.
    """
    terms = [(index, a, b, a * b) for index, (a, b) in enumerate(pairs)]
    ranked = sorted(terms, key=lambda term: -abs(term[3]))
    rows: list[tuple[Cell, ...]] = [(str(index), a, b, ab) for index, a, b, ab in sorted(ranked[:num_rows])]
    if ranked[num_rows:]:
        others = Words("{} other terms", "其余 {} 项").format(len(ranked) - num_rows)
        rows.append((others, "", "", fsum(term[3] for term in ranked[num_rows:])))
    added = [*extra]
    rows += [(name, "", "", value) for name, value in added]
    total = fsum([*(term[3] for term in terms), *(value for _, value in added)])
    rows.append((Words("sum", "合计"), "", "", total))
    columns = (Words("dimension", "维"), *factors, Words("product", "乘积"))
    return Table(title, columns, tuple(rows), digits=6, is_fixed=True), total

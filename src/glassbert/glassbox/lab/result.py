"""What an experiment gives: arithmetic written out, tables, plots, claims with verdicts, and what it means.

All of it is data in both languages, so that a result can be saved, read again and drawn in any form.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal

from glassbert.errors import DataError
from glassbert.glassbox.lab.estimate import Estimate, Verdict
from glassbert.glassbox.lab.words import Text, Words
from glassbert.open_files import DOCUMENT
from glassbert.outputs import GENERATOR, JSON, check_new
from glassbert.sentence import Language
from glassbert.storage import read_json, write_json
from glassbert.typed import fits

Cell = Text | float | Estimate
_MAX_DIGITS = 50
"""More than a float has."""


@dataclass(frozen=True)
class Steps:
    """Arithmetic written out, one line a step."""

    title: Text
    lines: tuple[Text, ...]
    kind: Literal["steps"] = "steps"


@dataclass(frozen=True)
class Table:
    """Rows of names and numbers."""

    title: Text
    columns: tuple[Text, ...]
    rows: tuple[tuple[Cell, ...], ...]
    digits: int = 4
    """Significant digits of a number; with ``is_fixed``, digits behind the point."""
    is_fixed: bool = False
    kind: Literal["table"] = "table"

    def column(self, number: int) -> tuple[Cell, ...]:
        """Return the cells of a column."""
        return tuple(row[number] for row in self.rows)


@dataclass(frozen=True)
class Line:
    """A line of a plot, with the limits of its interval where it was measured more than once."""

    name: Text
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lows: tuple[float, ...] = ()
    highs: tuple[float, ...] = ()
    kind: Literal["line"] = "line"

    @classmethod
    def of(cls, name: Text, xs: tuple[float, ...], estimates: list[Estimate]) -> "Line":
        """Return a line through estimates."""
        return cls(
            name,
            xs,
            tuple(one.mean for one in estimates),
            tuple(one.low for one in estimates),
            tuple(one.high for one in estimates),
        )


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis."""

    title: Text
    x_name: Text
    y_name: Text
    lines: tuple[Line, ...]
    is_share: bool = False
    """Whether the y axis is from 0 to 1."""
    kind: Literal["lines"] = "lines"


@dataclass(frozen=True)
class Bars:
    """A bar for each name."""

    title: Text
    bars: tuple[tuple[Text, Estimate], ...]
    is_share: bool = False
    kind: Literal["bars"] = "bars"


@dataclass(frozen=True)
class Matrix:
    """Numbers in rows and columns, shaded by size and sign."""

    title: Text
    values: tuple[tuple[float, ...], ...]
    rows: tuple[Text, ...] = ()
    columns: tuple[Text, ...] = ()
    kind: Literal["matrix"] = "matrix"


Plot = Lines | Bars | Matrix


@dataclass(frozen=True)
class Claim:
    """A statement that was put to the test."""

    source: Text
    """Who says it: the section of the text it is taken from, or theory."""
    statement: Words
    found: Words
    """The numbers that decide."""
    verdict: Verdict
    kind: Literal["claim"] = "claim"


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the run of an experiment returns."""

    meaning: Words
    steps: tuple[Steps, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    claims: tuple[Claim, ...] = ()
    seeds: tuple[int, ...] = ()
    """What randomness was drawn from; empty if nothing is random."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Result(Report):
    """A report with what was asked and how it was run. Shows itself in a notebook; `print` gives text."""

    name: str
    question: Words
    theory: Words
    settings: dict[str, Any]
    elapsed_s: float
    versions: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        verdicts = [claim.verdict for claim in self.claims]
        counts = ", ".join(f"{verdicts.count(one)} {one}" for one in dict.fromkeys(verdicts))
        return f"Result({self.name!r}, claims: {counts or 'none'}, {self.elapsed_s:.1f} s)"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return self.html()

    def text(self, language: Language = "en") -> str:
        """Return the result as text for a terminal or a pipe."""
        from glassbert.glassbox.lab.show import as_text

        return as_text(self, language)

    def html(self, language: Language = "en") -> str:
        """Return the result as one self-contained page of HTML."""
        from glassbert.glassbox.lab.page import as_page

        return as_page(self, language)

    def svg(self, language: Language = "en") -> str:
        """Return the plots as one self-contained SVG."""
        from glassbert.glassbox.lab.page import as_svg

        return as_svg(self, language)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON; texts are objects with "en" and "zh"."""
        return _encoded(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the result as a JSON file, which `read_result` reads.

        Args:
            overwrite: Replace a result that was saved there.
        """
        check_new(path, JSON, overwrite=overwrite)
        write_json(Path(path), {"generator": GENERATOR, **self.to_json()})


def read_result(path: str | Path) -> Result:
    """Read a result that `Result.save` wrote."""
    content = read_json(Path(path), limit=DOCUMENT)
    content.pop("generator", None)
    try:
        result = Result(**{name: _decoded(value) for name, value in content.items()})
    except (KeyError, TypeError) as error:
        raise DataError(f"{path}: not a result of the lab ({error}); run the experiment again") from None
    if not fits(result, Result) or not all(map(_is_whole, (*result.tables, *result.plots))):
        raise DataError(f"{path}: a damaged result of the lab; run the experiment again")
    return result


def _is_whole(part: Table | Plot) -> bool:
    """Return whether the rows, lines or columns of a part from a file have the same length."""
    if isinstance(part, Table):
        return 0 <= part.digits <= _MAX_DIGITS and all(len(row) == len(part.columns) > 0 for row in part.rows)
    if isinstance(part, Lines):
        return bool(part.lines) and all(
            len(one.xs) == len(one.ys) > 0 and {len(one.lows), len(one.highs)} in ({0}, {len(one.xs)})
            for one in part.lines
        )
    if isinstance(part, Matrix):
        widths = {len(row) for row in part.values}
        named = part.rows and len(part.rows) != len(part.values)
        return len(widths) == 1 and not named and len(part.columns) in (0, *widths)
    return bool(part.bars)


_KINDS = {one.kind: one for one in (Estimate, Steps, Table, Line, Lines, Bars, Matrix, Claim)}


def _encoded(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _encoded(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, dict):
        return {name: _encoded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_encoded(one) for one in value]
    return value


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(one) for one in value)
    if not isinstance(value, dict):
        return value
    inner = {name: _decoded(one) for name, one in value.items()}
    if "kind" in inner:
        return _KINDS[inner["kind"]](**inner)
    return Words(**inner) if inner.keys() == {"en", "zh"} else inner

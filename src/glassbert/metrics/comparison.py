"""A student compared with its teacher: the score it keeps, how often both agree, what it saves."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two models."""

    score: float | None
    """On the dev data; None without any."""
    blocks: int
    parameters: int
    megabytes: float
    """Of the weights in float32."""
    texts_per_second: float
    """Measured in turns, on the same texts and threads."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A teacher and its student on the same data."""

    metric: str
    """What `score` is; higher is better."""
    teacher: Side
    student: Side
    agreement: float
    """Share of equal decisions; for vectors and numbers, the rank correlation of both."""
    keep: tuple[int, ...] = ()
    """The teacher's blocks that the student began as; empty if it began otherwise."""

    @property
    def kept(self) -> float | None:
        """The student's score as a share of the teacher's."""
        if self.teacher.score is None or self.student.score is None or self.teacher.score <= 0:
            return None
        return self.student.score / self.teacher.score

    @property
    def smaller(self) -> float:
        """How many times as many parameters the teacher has."""
        return self.teacher.parameters / self.student.parameters

    @property
    def faster(self) -> float:
        """How many times as many texts the student reads in a second."""
        return self.student.texts_per_second / self.teacher.texts_per_second

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the lines of a table: what, the teacher's, the student's, and how they relate."""
        teacher, student, kept = self.teacher, self.student, self.kept
        rows = [
            ("blocks", f"{teacher.blocks}", f"{student.blocks}", ",".join(map(str, self.keep))),
            ("parameters", f"{teacher.parameters:,}", f"{student.parameters:,}", f"1/{self.smaller:.2f}"),
            ("MB", f"{teacher.megabytes:.1f}", f"{student.megabytes:.1f}", f"1/{self.smaller:.2f}"),
            (
                "texts a second",
                f"{teacher.texts_per_second:,.0f}",
                f"{student.texts_per_second:,.0f}",
                f"{self.faster:.2f} times",
            ),
            ("agreement", "", f"{self.agreement:.4f}", ""),
        ]
        if teacher.score is not None and student.score is not None:
            share = "" if kept is None else f"{kept:.1%} kept"
            rows.insert(0, (self.metric, f"{teacher.score:.4f}", f"{student.score:.4f}", share))
        return rows

    def sentence(self) -> str:
        """Return one line on what the student keeps and saves."""
        kept = ""
        if self.kept is not None:
            kept = (
                f"{self.metric} {self.student.score:.4f} of the teacher's {self.teacher.score:.4f} "
                f"({self.kept:.1%} kept), "
            )
        return (
            f"student: {kept}agreement {self.agreement:.4f}, {self.student.megabytes:.1f} MB instead of "
            f"{self.teacher.megabytes:.1f}, {self.faster:.2f} times as fast"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what run.json keeps and `--json` prints."""
        ratios: Mapping[str, Any] = {"kept": self.kept, "smaller": self.smaller, "faster": self.faster}
        return {**asdict(self), "keep": list(self.keep), **ratios}

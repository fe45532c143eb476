"""A task and a file format that the package does not know, as another package would add them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert import ModelConfig, Tokenizer
from glassbert.extension import (
    Format,
    HeadSpec,
    Input,
    Kind,
    Lines,
    Mistake,
    Notes,
    Output,
    Passage,
    Record,
    Schema,
    Source,
    Task,
    TaskEntry,
    TaskSettings,
    Unusable,
    text_inputs,
)

SIDES = ("left", "right")


@dataclass(frozen=True)
class Sides:
    """Two texts, and which of them is the longer."""

    left: str
    right: str
    longer: str | None
    where: str

    @property
    def texts(self) -> tuple[str, ...]:
        return self.left, self.right

    @property
    def labels(self) -> tuple[str, ...]:
        return () if self.longer is None else (self.longer,)

    @property
    def is_labelled(self) -> bool:
        return self.longer is not None

    @property
    def gold(self) -> str | None:
        return self.longer


@dataclass(frozen=True, kw_only=True)
class SidesSchema(Schema[Sides]):
    """The rows of the task."""

    def example(self, row: Record, notes: Notes) -> Sides:
        longer = row.values.get("longer")
        if longer not in (None, *SIDES):
            raise Unusable(f"the longer side is {longer!r}; expected left or right")
        return Sides(row.values["left"], row.values["right"], longer, row.where)


SCHEMA = SidesSchema(
    task="longer",
    required=("left", "right"),
    optional=("longer",),
    usual_names={"left": ("port",), "right": ("starboard",)},
)


@dataclass(frozen=True)
class Verdict:
    """A prediction."""

    longer: str
    truncated: bool

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Accuracy:
    """A report."""

    accuracy: float

    def metrics(self) -> dict[str, float]:
        return {"accuracy": self.accuracy}

    def to_json(self) -> dict[str, Any]:
        return self.metrics()


@dataclass(frozen=True, kw_only=True)
class LongerSettings(TaskSettings):
    """The `[task]` table."""

    smoothing: float = 0.0
    """How much of a row's label is spread over both sides."""


@dataclass(frozen=True, kw_only=True)
class Longer(Task[Sides, Verdict]):
    """Say which of two texts is the longer."""

    settings: LongerSettings = LongerSettings()
    usual_metric = "accuracy"

    @classmethod
    def for_training(
        cls,
        name: str,
        settings: LongerSettings,
        tokenizer: Tokenizer,
        train: Sequence[Sides],
        dev: Sequence[Sides],
        *,
        max_length: int,
        kind: Kind | None = None,
    ) -> tuple[Self, list[str]]:
        limit = settings.length_limit(max_length)
        return cls(name=name, settings=settings, tokenizer=tokenizer, max_length=limit), ["two sides"]

    @classmethod
    def from_run(
        cls,
        name: str,
        run: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        max_length: int,
    ) -> Self:
        return cls(name=name, tokenizer=tokenizer, **cls.saved_fields(run, max_length))

    def head(self) -> HeadSpec:
        return HeadSpec("classify", SIDES)

    def inputs(self, examples: Sequence[Sides], *, with_targets: bool) -> list[list[Input]]:
        targets = (
            [np.array(SIDES.index(one.longer)) for one in examples if one.longer] if with_targets else None
        )
        return text_inputs(self, examples, targets)

    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        assert output.labels is not None
        gold = torch.tensor([int(one.target) for one in inputs if one.target is not None])
        smoothing = self.settings.smoothing
        return {"loss": F.cross_entropy(output.labels, gold, reduction="sum", label_smoothing=smoothing)}

    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        return {"loss": len(inputs)}

    def raw(self, output: Output, inputs: Sequence[Input]) -> list[NDArray[Any]]:
        assert output.labels is not None
        return list(output.labels.float().cpu().numpy())

    def predict(self, example: Sides, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]) -> Verdict:
        return Verdict(SIDES[int(np.sum(raw, axis=0).argmax())], truncated=inputs[0].num_cut > 0)

    def measure(self, examples: Sequence[Sides], predictions: Sequence[Verdict]) -> Accuracy:
        is_right = [row.longer == one.longer for row, one in zip(examples, predictions, strict=True)]
        return Accuracy(sum(is_right) / len(is_right))

    def mistakes(self, examples: Sequence[Sides], predictions: Sequence[Verdict]) -> list[Mistake]:
        return [
            Mistake(
                row.where,
                (Passage("left", row.left), Passage("right", row.right)),
                row.longer,
                one.longer,
                1.0,
            )
            for row, one in zip(examples, predictions, strict=True)
            if row.longer is not None and row.longer != one.longer
        ]


ENTRY = TaskEntry(
    name="longer",
    help="Train on pairs of texts, of which one is the longer.",
    task=Longer,
    settings=LongerSettings,
    schema="helpers.longer_task:SCHEMA",
)


def read_blocks(source: Source) -> Iterator[Record]:
    """Yield rows written as lines of `name: value`, with a blank line after each row."""
    values: dict[str, str] = {}
    for line in source.lines:
        if line.strip():
            name, _, value = line.partition(": ")
            values[name] = value
        elif values:
            yield Record(source.lines.where, values)
            values = {}
    if values:
        yield Record(source.lines.where, values)


def looks_like_blocks(lines: Lines) -> bool:
    """Return whether the first line names a side."""
    return any(line.startswith(("left: ", "port: ")) for line in lines.peek_texts(1))


BLOCKS = Format(name="blocks", read=read_blocks, suffixes=(".blocks",), looks_like=looks_like_blocks)

"""What tables of parameters are made of, with the formula of each count. No torch, no files.

Legend: V vocabulary, D hidden size, I inner width.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from glassbert.config import BertConfig
from glassbert.glassbox.formula import formula

Part = Literal["embeddings", "attention", "cross", "LayerNorm", "feed-forward", "recurrence", "head"]
Shape = tuple[int, ...]

BYTES_PER_PARAMETER = 4


@dataclass(frozen=True)
class Row:
    """One layer: its tensors, and the formula of its count."""

    name: str
    part: Part
    """The sub-total it belongs to."""
    tensors: tuple[tuple[str, Shape], ...]
    """Names as in our network, with shapes."""
    symbols: str
    """The formula with letters, `D x I + I`."""
    formula: str
    """The formula with numbers, `1024 x 4096 + 4096`."""
    count: int
    share: float = 0.0
    """Of the total; 0 where the total does not count it."""

    @property
    def shape(self) -> str:
        """The tensors' shapes, as text."""
        return ", ".join(" x ".join(map(str, shape)) for _, shape in self.tensors)

    @property
    def bytes(self) -> int:
        """Size in float32, the precision that networks are loaded in."""
        return BYTES_PER_PARAMETER * self.count


@dataclass(frozen=True)
class Group:
    """Layers that belong together: the embeddings, one block, one head."""

    name: str
    rows: tuple[Row, ...]
    stack: str = ""
    """Name of the stack that it is part of, such as `encoder blocks`; empty if it is part of none."""

    @property
    def count(self) -> int:
        """Parameters of all rows."""
        return sum(row.count for row in self.rows)

    @property
    def share(self) -> float:
        """Share of the total; 0 where the total does not count the group."""
        return sum(row.share for row in self.rows)

    @property
    def bytes(self) -> int:
        """Size in float32."""
        return BYTES_PER_PARAMETER * self.count

    @property
    def subtotals(self) -> dict[Part, int]:
        """Parameters by part: in a block, attention, LayerNorm and feed-forward."""
        parts = dict.fromkeys(row.part for row in self.rows)
        return {part: sum(row.count for row in self.rows if row.part == part) for part in parts}


class Table(ABC):
    """All layers of a network."""

    @property
    @abstractmethod
    def symbols(self) -> dict[str, int]:
        """Return the letters of the formulas."""

    @property
    @abstractmethod
    def includes(self) -> tuple[str, ...]:
        """Return what the total counts."""

    @property
    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """Return the layers from the bottom up."""

    @property
    def uncounted(self) -> tuple[Group, ...]:
        """Return what such a network usually has, and the total does not count."""
        return ()

    @property
    def totals(self) -> Mapping[str, int]:
        """Return each published way to count a network of this shape."""
        return {}

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every tensor."""
        return {name: shape for group in self.groups for row in group.rows for name, shape in row.tensors}

    def _block(self, config: BertConfig, module: str, *, has_cross_attention: bool = False) -> Iterator[Row]:
        has_bias = config.use_bias
        yield from self._attention("attention", f"{module}.attention", "attention.", has_bias=has_bias)
        yield self._norm("attention_norm", f"{module}.attention_norm")
        if has_cross_attention:
            cross = f"{module}.cross_attention"
            yield from self._attention("cross", cross, "cross.", has_bias=has_bias)
            yield self._norm("cross_norm", f"{module}.cross_norm")
        for name in ("mlp.inner", "mlp.gate") if config.gated_mlp else ("mlp.inner",):
            yield self._linear(name, "feed-forward", f"{module}.{name}", "D", "I", has_bias=has_bias)
        yield self._linear("mlp.outer", "feed-forward", f"{module}.mlp.outer", "I", "D", has_bias=has_bias)
        yield self._norm("mlp_norm", f"{module}.mlp_norm")

    def _attention(
        self, part: Part, module: str, prefix: str = "", *, has_bias: bool = True
    ) -> Iterator[Row]:
        for name in ("query", "key", "value", "output"):
            yield self._linear(f"{prefix}{name}", part, f"{module}.{name}", "D", "D", has_bias=has_bias)

    def _lookup(self, name: str, module: str, rows: str) -> Row:
        return self._row(name, "embeddings", {f"{module}.weight": (rows, "D")}, f"{rows} x D")

    def _norm(self, name: str, module: str) -> Row:
        return self._row(name, "LayerNorm", {f"{module}.weight": ("D",), f"{module}.bias": ("D",)}, "2 x D")

    def _linear(
        self, name: str, part: Part, module: str, inputs: str, outputs: str, *, has_bias: bool = True
    ) -> Row:
        # torch keeps a weight as (outputs, inputs): it multiplies by the transpose.
        tensors: dict[str, tuple[str, ...]] = {f"{module}.weight": (outputs, inputs)}
        if not has_bias:
            return self._row(name, part, tensors, f"{inputs} x {outputs}")
        tensors[f"{module}.bias"] = (outputs,)
        return self._row(name, part, tensors, f"{inputs} x {outputs} + {outputs}")

    def _tied(self, name: str, module: str) -> Row:
        """Return a layer whose matrix is the token embedding's, and counted there."""
        return self._row(f"{name} (tied)", "head", {f"{module}.bias": ("V",)}, "V")

    def _row(self, name: str, part: Part, tensors: dict[str, tuple[str, ...]], symbolic: str) -> Row:
        shapes = {
            tensor: tuple(formula(size, self.symbols).value for size in sizes)
            for tensor, sizes in tensors.items()
        }
        counted = formula(symbolic, self.symbols)
        assert counted.value == sum(map(math.prod, shapes.values())), f"{symbolic} does not count {name}"
        return Row(name, part, tuple(shapes.items()), counted.symbolic, counted.numeric, counted.value)

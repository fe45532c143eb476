"""The layers of an encoder and of what sits on it, with the formula of each count. No torch, no files.

Legend: V vocabulary, S segments, P positions, D hidden size, I inner width, C labels.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from glassbert.config import BertConfig
from glassbert.glassbox.formula import formula

Part = Literal["embeddings", "attention", "LayerNorm", "feed-forward", "head"]
Shape = tuple[int, ...]

# What may sit on the encoder, in the order of the table.
TOPS = ("pooler", "mlm", "nsp", "labels", "span")
BYTES_PER_PARAMETER = 4


@dataclass(frozen=True)
class Row:
    """One layer: its tensors, and how their numbers come to its count."""

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
        """Return the tensors' shapes for people."""
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


@dataclass(frozen=True)
class Table:
    """All layers of a network."""

    config: BertConfig
    tops: tuple[str, ...] = ()
    """What sits on the encoder."""
    num_labels: int = 0

    @property
    def symbols(self) -> dict[str, int]:
        """Return the letters of the formulas."""
        letters = {
            "V": self.config.vocab_size,
            "S": self.config.type_vocab_size,
            "P": self.config.max_position_embeddings,
            "D": self.config.hidden_size,
            "I": self.config.intermediate_size,
        }
        return letters | {"C": self.num_labels} if "labels" in self.tops else letters

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return embeddings, blocks and what sits on them, from the bottom up."""
        groups = [Group("embeddings", tuple(self._embeddings()))]
        for index in range(self.config.num_hidden_layers):
            groups.append(Group(f"block {index}", tuple(self._block(index))))
        if self.config.norm_position == "pre":
            groups.append(Group("final norm", (self._norm("norm", "encoder.final_norm"),)))
        return (*groups, *(self.top(top) for top in TOPS if top in self.tops))

    @property
    def shapes(self) -> dict[str, Shape]:
        """Return the shape of every tensor."""
        return {name: shape for group in self.groups for row in group.rows for name, shape in row.tensors}

    def top(self, name: str) -> Group:
        """Return one of the `TOPS`, whether or not this table counts it."""
        if name == "mlm":
            return Group(name, tuple(self._mlm()))
        outputs = {"pooler": "D", "nsp": "2", "labels": "C", "span": "2"}[name]
        module = name if name in ("nsp", "span") else f"{name}.dense"
        return Group(name, (self._linear("dense", "head", module, "D", outputs),))

    def _embeddings(self) -> Iterator[Row]:
        yield self._lookup("token", "V")
        yield self._lookup("segment", "S")
        if self.config.positions == "learned":
            yield self._lookup("position", "P")
        yield self._norm("norm", "encoder.embeddings.norm")

    def _block(self, index: int) -> Iterator[Row]:
        module, has_bias = f"encoder.blocks.{index}", self.config.use_bias
        for name in ("attention.query", "attention.key", "attention.value", "attention.output"):
            yield self._linear(name, "attention", f"{module}.{name}", "D", "D", has_bias=has_bias)
        yield self._norm("attention_norm", f"{module}.attention_norm")
        for name in ("mlp.inner", "mlp.gate") if self.config.gated_mlp else ("mlp.inner",):
            yield self._linear(name, "feed-forward", f"{module}.{name}", "D", "I", has_bias=has_bias)
        yield self._linear("mlp.outer", "feed-forward", f"{module}.mlp.outer", "I", "D", has_bias=has_bias)
        yield self._norm("mlp_norm", f"{module}.mlp_norm")

    def _mlm(self) -> Iterator[Row]:
        yield self._linear("dense", "head", "mlm.dense", "D", "D")
        yield self._norm("norm", "mlm.norm")
        if self.config.tie_word_embeddings:
            # The matrix is the token embedding's, and counted there.
            yield self._row("decoder (tied)", "head", {"mlm.decoder.bias": ("V",)}, "V")
        else:
            yield self._linear("decoder", "head", "mlm.decoder", "D", "V")

    def _lookup(self, name: str, rows: str) -> Row:
        return self._row(
            name, "embeddings", {f"encoder.embeddings.{name}.weight": (rows, "D")}, f"{rows} x D"
        )

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

    def _row(self, name: str, part: Part, tensors: dict[str, tuple[str, ...]], symbolic: str) -> Row:
        shapes = {
            tensor: tuple(formula(size, self.symbols).value for size in sizes)
            for tensor, sizes in tensors.items()
        }
        counted = formula(symbolic, self.symbols)
        assert counted.value == sum(map(math.prod, shapes.values())), f"{symbolic} does not count {name}"
        return Row(name, part, tuple(shapes.items()), counted.symbolic, counted.numeric, counted.value)

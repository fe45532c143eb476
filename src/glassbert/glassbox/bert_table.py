"""The layers of BERT: an encoder and what sits on it.

Legend: V vocabulary, S segments, P positions, D hidden size, I inner width, C labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from glassbert.config import BertConfig
from glassbert.glassbox.parameter_table import Group, Row, Table
from glassbert.heads import HEADS, PARTS, Layer, Part

# Each published way to count, with what it has on the encoder.
_PUBLISHED: dict[str, tuple[Part, ...]] = {
    "encoder": (),
    "with pooler": ("pooler",),
    "with pooler, MLM and NSP heads": ("pooler", *HEADS["pretraining"].parts),
}
_PUBLISHED_PARTS = frozenset(part for added in _PUBLISHED.values() for part in added)


@dataclass(frozen=True)
class BertTable(Table):
    """All layers of a BERT."""

    config: BertConfig
    parts: tuple[Part, ...] = ()
    """What sits on the encoder."""
    num_labels: int = 0

    @property
    def symbols(self) -> dict[str, int]:
        letters = {
            "V": self.config.vocab_size,
            "S": self.config.type_vocab_size,
            "P": self.config.max_position_embeddings,
            "D": self.config.hidden_size,
            "I": self.config.intermediate_size,
        }
        return letters | {"C": self.num_labels} if "labels" in self.parts else letters

    @property
    def includes(self) -> tuple[str, ...]:
        return ("embeddings", "encoder", *(part for part in PARTS if part in self.parts))

    @property
    def groups(self) -> tuple[Group, ...]:
        return (*self._encoder(), *(self._part(part) for part in PARTS if part in self.parts))

    @property
    def uncounted(self) -> tuple[Group, ...]:
        missing = [part for part in PARTS if part in _PUBLISHED_PARTS and part not in self.parts]
        return tuple(self._part(part) for part in missing)

    @property
    def totals(self) -> dict[str, int]:
        encoder = sum(group.count for group in self._encoder())
        return {
            name: encoder + sum(self._part(part).count for part in added)
            for name, added in _PUBLISHED.items()
        }

    def _encoder(self) -> Iterator[Group]:
        yield Group("embeddings", tuple(self._embeddings()))
        for index in range(self.config.num_hidden_layers):
            rows = self._block(self.config, f"encoder.blocks.{index}")
            yield Group(f"block {index}", tuple(rows), "blocks")
        if self.config.norm_position == "pre":
            yield Group("final norm", (self._norm("norm", "encoder.final_norm"),))

    def _embeddings(self) -> Iterator[Row]:
        yield self._lookup("token", "encoder.embeddings.token", "V")
        yield self._lookup("segment", "encoder.embeddings.segment", "S")
        if self.config.positions == "learned":
            yield self._lookup("position", "encoder.embeddings.position", "P")
        yield self._norm("norm", "encoder.embeddings.norm")

    def _part(self, name: Part) -> Group:
        """Return one of the `PARTS`, whether or not this table counts it."""
        return Group(name, tuple(map(self._layer, PARTS[name])))

    def _layer(self, layer: Layer) -> Row:
        name = layer.name.partition(".")[2] or "dense"
        if layer.outputs is None:
            return self._norm(name, layer.name)
        if layer.is_tied and self.config.tie_word_embeddings:
            return self._tied(name, layer.name)
        return self._linear(name, "head", layer.name, "D", layer.outputs)

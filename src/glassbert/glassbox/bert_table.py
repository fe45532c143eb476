"""The layers of BERT: an encoder and what sits on it.

Legend: V vocabulary, S segments, P positions, D hidden size, I inner width, C labels.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from glassbert.config import BertConfig
from glassbert.glassbox.parameter_table import Group, Row, Table

# What may sit on the encoder, in the order of the table.
TOPS = ("pooler", "mlm", "nsp", "labels", "span")
# Each published way to count, with what it has on the encoder.
_PUBLISHED: dict[str, tuple[str, ...]] = {
    "encoder": (),
    "with pooler": ("pooler",),
    "with pooler, MLM and NSP heads": ("pooler", "mlm", "nsp"),
}
_PUBLISHED_TOPS = frozenset(top for added in _PUBLISHED.values() for top in added)


@dataclass(frozen=True)
class BertTable(Table):
    """All layers of a BERT."""

    config: BertConfig
    tops: tuple[str, ...] = ()
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
        return letters | {"C": self.num_labels} if "labels" in self.tops else letters

    @property
    def includes(self) -> tuple[str, ...]:
        return ("embeddings", "encoder", *(top for top in TOPS if top in self.tops))

    @property
    def groups(self) -> tuple[Group, ...]:
        return (*self._encoder(), *(self._top(top) for top in TOPS if top in self.tops))

    @property
    def uncounted(self) -> tuple[Group, ...]:
        return tuple(self._top(top) for top in TOPS if top in _PUBLISHED_TOPS and top not in self.tops)

    @property
    def totals(self) -> dict[str, int]:
        encoder = sum(group.count for group in self._encoder())
        return {
            name: encoder + sum(self._top(top).count for top in added) for name, added in _PUBLISHED.items()
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

    def _top(self, name: str) -> Group:
        """Return one of the `TOPS`, whether or not this table counts it."""
        if name == "mlm":
            return Group(name, tuple(self._mlm()))
        outputs = {"pooler": "D", "nsp": "2", "labels": "C", "span": "2"}[name]
        module = name if name in ("nsp", "span") else f"{name}.dense"
        return Group(name, (self._linear("dense", "head", module, "D", outputs),))

    def _mlm(self) -> Iterator[Row]:
        yield self._linear("dense", "head", "mlm.dense", "D", "D")
        yield self._norm("norm", "mlm.norm")
        if self.config.tie_word_embeddings:
            yield self._tied("decoder", "mlm.decoder")
        else:
            yield self._linear("decoder", "head", "mlm.decoder", "D", "V")

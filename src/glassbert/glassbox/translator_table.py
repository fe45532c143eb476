"""The layers of translators: the Transformer, and the recurrent baseline.

Legend: V vocabulary, P positions, D hidden size, I inner width, E state of one direction.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from glassbert.config import LstmConfig, TransformerConfig
from glassbert.glassbox.parameter_table import Group, Row, Table


@dataclass(frozen=True)
class TransformerTable(Table):
    """All layers of an encoder-decoder; both sides share the embedding."""

    config: TransformerConfig

    @property
    def symbols(self) -> dict[str, int]:
        shape = self.config.encoder
        positions = {"P": shape.max_position_embeddings} if shape.positions == "learned" else {}
        return {"V": shape.vocab_size, **positions, "D": shape.hidden_size, "I": shape.intermediate_size}

    @property
    def includes(self) -> tuple[str, ...]:
        return ("embeddings", "encoder", "decoder", "output")

    @property
    def groups(self) -> tuple[Group, ...]:
        shape = self.config.encoder
        return (
            Group("embeddings", tuple(self._embeddings())),
            *self._stack("encoder", shape.num_hidden_layers),
            *self._stack("decoder", self.config.num_decoder_layers),
            Group("output", (self._output(),)),
        )

    def _embeddings(self) -> Iterator[Row]:
        yield self._lookup("token", "embeddings.token", "V")
        if self.config.encoder.positions == "learned":
            yield self._lookup("position", "embeddings.position", "P")

    def _stack(self, side: str, num_blocks: int) -> Iterator[Group]:
        shape = self.config.encoder
        for index in range(num_blocks):
            rows = self._block(shape, f"{side}.blocks.{index}", has_cross_attention=side == "decoder")
            yield Group(f"{side} block {index}", tuple(rows), f"{side} blocks")
        if shape.norm_position == "pre":
            yield Group(f"{side} norm", (self._norm("norm", f"{side}.final_norm"),))

    def _output(self) -> Row:
        if self.config.encoder.tie_word_embeddings:
            return self._tied("dense", "output")
        return self._linear("dense", "head", "output", "D", "V")


@dataclass(frozen=True)
class LstmTable(Table):
    """All layers of a recurrent translator; each has four gates with weights for its input and its state."""

    config: LstmConfig

    @property
    def symbols(self) -> dict[str, int]:
        width = self.config.hidden_size
        return {"V": self.config.vocab_size, "D": width, "E": width // 2}

    @property
    def includes(self) -> tuple[str, ...]:
        attention = ("attention",) if self.config.has_attention else ()
        return ("embeddings", "encoder", "decoder", *attention, "norm", "output")

    @property
    def groups(self) -> tuple[Group, ...]:
        depth, groups = range(self.config.num_hidden_layers), []
        groups.append(Group("embeddings", (self._lookup("token", "token", "V"),)))
        for index in depth:
            ways = (("forward.", ""), ("backward.", "_reverse"))
            rows = [row for way, end in ways for row in self._cell(way, "encoder", f"l{index}{end}", "E")]
            groups.append(Group(f"encoder layer {index}", tuple(rows), "encoder layers"))
        for index in depth:
            rows = list(self._cell("", "decoder", f"l{index}", "D"))
            groups.append(Group(f"decoder layer {index}", tuple(rows), "decoder layers"))
        if self.config.has_attention:
            groups.append(Group("attention", tuple(self._attention("attention", "attention"))))
        groups.append(Group("norm", (self._norm("norm", "norm"),)))
        return (*groups, Group("output", (self._tied("dense", "output"),)))

    def _cell(self, way: str, side: str, layer: str, states: str) -> Iterator[Row]:
        """Yield the gates' weights for the layer's input, and for the state of the token before."""
        gates = f"4 x {states}"
        for name, kind, inputs in (("input", "ih", "D"), ("state", "hh", states)):
            tensors: dict[str, tuple[str, ...]] = {
                f"{side}.weight_{kind}_{layer}": (gates, inputs),
                f"{side}.bias_{kind}_{layer}": (gates,),
            }
            yield self._row(f"{way}{name}", "recurrence", tensors, f"{gates} x {inputs} + {gates}")

"""The numbers inside a model for one text, by the names of the taps."""

from dataclasses import dataclass
from typing import cast

from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.lab.result import Steps
from glassbert.glassbox.lab.words import Words
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.messages import one_line
from glassbert.model.bert import Bert
from glassbert.model.block import Block
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from glassbert.reports.axes import shortened
from glassbert.text.wordpiece.tokenizer import Encoding

_SHOWN_COLUMNS = 40


@dataclass(frozen=True)
class Inside:
    """A pass of a text through a model."""

    network: Bert
    pieces: tuple[str, ...]
    batch: Batch
    values: dict[str, Tensor]
    """Each intermediate by its name, such as `enc.0.attn.q`."""
    unread: tuple[Steps, ...] = ()
    """What was cut from a text that is longer than the model reads."""

    @property
    def blocks(self) -> list[Block]:
        """The blocks of the network."""
        return [cast(Block, block) for block in self.network.encoder.blocks]

    def block(self, layer: int) -> Block:
        """Return a block by its number from 0."""
        if not 0 <= layer < len(self.blocks):
            raise UserError(f"layer={layer}; the model has blocks 0 to {len(self.blocks) - 1}")
        return self.blocks[layer]

    def head_of(self, name: str, head: int) -> Tensor:
        """Return one head's part of q, k or v, (T, H)."""
        num_heads = self.network.config.encoder.num_attention_heads
        if not 0 <= head < num_heads:
            raise UserError(f"head={head}; the model has heads 0 to {num_heads - 1}")
        return self.values[name].unflatten(1, (num_heads, -1))[:, head]

    def check_token(self, name: str, place: int) -> None:
        """Refuse the place of a token that the text does not have."""
        if not 0 <= place < len(self.pieces):
            raise UserError(
                f"{name}={place}; the text has tokens 0 to {len(self.pieces) - 1}: {' '.join(self.pieces)}"
            )

    def untrained(self, seed: int) -> dict[str, Tensor]:
        """Return what a network of the same shape with fresh weights computes for the same text."""
        return _values(new_bert(self.network.config, seed=seed), self.batch)


def look_inside(model: str, text: str) -> Inside:
    """Run a text through an encoder in float64 and keep every intermediate."""
    if not text.strip():
        raise UserError("the text is blank; give at least one word")
    loaded = load(model, Model, device="cpu")
    encoding = loaded.tokenize([text])[0]
    batch = Batch.from_lists([encoding.ids], [encoding.segments])
    network = loaded.network
    unread = (_unread(text, encoding),) if encoding.truncated else ()
    return Inside(network, tuple(encoding.pieces), batch, _values(network, batch), unread)


def _unread(text: str, encoding: Encoding) -> Steps:
    """Return a note on how much of a text was cut, and where."""
    words = Words(
        "the model reads {} tokens; {} more were cut, from character {} on: {}",
        "模型读 {} 个 token；其余 {} 个被截去，从第 {} 个字符起：{}",
    )
    start = encoding.cut[0].start
    beginning = shortened(one_line(text[start:]), _SHOWN_COLUMNS)
    return Steps(
        Words("The text is longer than what the model reads", "文本超出了模型能读的长度"),
        (words.format(len(encoding.ids), encoding.num_cut, start, beginning),),
    )


def _values(network: Bert, batch: Batch) -> dict[str, Tensor]:
    network.double().eval().requires_grad_(False)
    values: dict[str, Tensor] = {}
    network(batch, tap=Tap(lambda name, value: values.setdefault(name, value)))
    return values

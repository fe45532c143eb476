"""Three networks that turn one sequence into another, of about equal size, and what they learn by length.

Legend: B pairs, T target tokens, D hidden size.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from glassbert.config import LstmConfig, TransformerConfig
from glassbert.glassbox.lab.training import TEST_SEED, TrainingSettings, num_parameters, train
from glassbert.glassbox.lab.words import Words
from glassbert.model.init import new_lstm, new_transformer, without_values
from glassbert.model.layout import Batch, Layout
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from glassbert.ranges import Range

START, END, FIRST_WORD, NUM_WORDS = 0, 1, 2, 8
NAMES = {
    "transformer": Words("Transformer", "Transformer"),
    "lstm_attention": Words("LSTM with attention", "LSTM，有注意力"),
    "lstm": Words("LSTM without attention", "LSTM，无注意力"),
}
NUM_TEST_PAIRS = 128


def networks(
    hidden_size: int, longest: int, seed: int, *, num_layers: int = 1
) -> dict[str, Transformer | Lstm]:
    """Return one of each kind, with about as many parameters."""
    blocks = replace(
        TransformerConfig().encoder,
        vocab_size=FIRST_WORD + NUM_WORDS,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=4,
        hidden_dropout_prob=0.0,
        max_position_embeddings=longest + 1,
        norm_position="pre",
    )
    config = TransformerConfig(
        encoder=blocks, num_decoder_layers=num_layers, decoder_start_token_id=START, eos_token_id=END
    )
    transformer = new_transformer(config, seed=seed)
    wanted = num_parameters(transformer)
    made: dict[str, Transformer | Lstm] = {"transformer": transformer}
    for name, has_attention in (("lstm_attention", True), ("lstm", False)):
        shape = _lstm_shape(wanted, 2 * hidden_size, longest, num_layers, has_attention=has_attention)
        made[name] = new_lstm(shape, seed=seed)
    return made


@cache
def _lstm_shape(
    wanted: int, widest: int, longest: int, num_layers: int, *, has_attention: bool
) -> LstmConfig:
    """Return the LSTM whose number of parameters is nearest to ``wanted``."""
    shapes = [
        _lstm_config(longest, num_layers, width, has_attention=has_attention)
        for width in range(4, widest + 1, 2)
    ]
    return min(shapes, key=lambda shape: abs(num_parameters(without_values(Lstm, shape)) - wanted))


def _lstm_config(longest: int, num_layers: int, width: int, *, has_attention: bool) -> LstmConfig:
    return LstmConfig(
        vocab_size=FIRST_WORD + NUM_WORDS,
        hidden_size=width,
        num_hidden_layers=num_layers,
        has_attention=has_attention,
        hidden_dropout_prob=0.0,
        max_position_embeddings=longest + 1,
        decoder_start_token_id=START,
        eos_token_id=END,
    )


def copy_pairs(generator: torch.Generator, count: int, length: int) -> tuple[Tensor, ...]:
    """Return sources of random words, targets that begin with START, and what must follow each token."""
    words = torch.randint(FIRST_WORD, FIRST_WORD + NUM_WORDS, (count, length), generator=generator)
    start, end = torch.full((count, 1), START), torch.full((count, 1), END)
    return words, torch.cat([start, words], dim=1), torch.cat([words, end], dim=1)


def batch(ids: Tensor) -> Batch:
    """Pack sequences of one length, (B, length)."""
    return Batch(ids.flatten(), torch.zeros_like(ids.flatten()), Layout((ids.size(1),) * len(ids)))


class Writer(nn.Module):
    """A network with the loss of writing what is expected of it."""

    def __init__(self, network: Transformer | Lstm) -> None:
        super().__init__()
        self.network = network

    def forward(self, pairs: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Return the summed loss, and how many tokens are right."""
        source, target, expected = pairs
        logits = self.network.output(self.network(batch(source), batch(target)))
        answers = expected.flatten()
        return {
            "loss": F.cross_entropy(logits, answers, reduction="sum"),
            "accuracy": (logits.argmax(dim=1) == answers).sum(),
        }


@dataclass(frozen=True, kw_only=True)
class LengthsSettings(TrainingSettings):
    """Lengths and training. The LSTMs get a width with about as many parameters as the Transformer."""

    lengths: tuple[Annotated[int, Range(1, 512)], ...] = (2, 4, 8)
    """Tokens of the sources, in training and in the test."""


Draw = Callable[[torch.Generator, int, int], tuple[Tensor, ...]]
"""Returns sources, targets and what must follow each token of the targets, of some pairs of a length."""


def learn_by_length(settings: LengthsSettings, name: str, draw: Draw, seed: int) -> dict[int, float]:
    """Train one kind of network on all lengths; return its accuracy at each."""
    made = networks(settings.hidden_size, max(settings.lengths), seed, num_layers=settings.num_layers)
    writer = Writer(made[name])
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))

    def of_some_length(_: int) -> tuple[Tensor, ...]:
        place = int(torch.randint(len(settings.lengths), (), generator=generator))
        return draw(generator, settings.num_sequences, settings.lengths[place])

    def counts(pairs: tuple[Tensor, ...]) -> dict[str, int]:
        return dict.fromkeys(("loss", "accuracy"), pairs[2].numel())

    train(writer, settings, of_some_length, counts)
    found = {}
    for length in settings.lengths:
        test = draw(torch.Generator().manual_seed(TEST_SEED), NUM_TEST_PAIRS, length)
        with torch.no_grad():
            found[length] = writer(test)["accuracy"].item() / test[2].numel()
    return found

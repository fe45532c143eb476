"""Translation: predict the next piece of the target from the source and the target so far.

Legend: S source tokens, T target tokens, D hidden size, V vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.data.pair_batches import EncodedPairs, TranslateBatch, TranslateObjective
from glassbert.interop.folder import TranslatorFolder, write_model
from glassbert.interop.folder import TranslatorNetwork as Network
from glassbert.metrics.translation import TranslationReport, translation
from glassbert.model.depth import FLOPS_PER_WEIGHT, depth_of, num_weights
from glassbert.model.init import materialised
from glassbert.model.layout import Batch, Layout
from glassbert.model.sharded import full
from glassbert.model.tap import Tap, shown, within
from glassbert.tasks.vocabulary_loss import smoothed_vocabulary_loss
from glassbert.text.bpe.tokenizer import SubwordTokenizer

Write = Callable[[Network, Sequence[Sequence[int]]], Sequence[Sequence[int]]]
"""Return the targets of sources, in order. Passed in, because tasks may not import inference."""


@dataclass(frozen=True)
class HeldOut:
    """Pairs that are not trained on."""

    sources: Sequence[str]
    targets: Sequence[str]
    batches: Sequence[TranslateBatch]
    """The same pairs without those that are too long for the model."""
    write: Write
    bleu_tokenizer: str | None = None
    """How BLEU splits text into words; chosen by the text when not given."""


class TranslateModule(nn.Module):
    """An encoder-decoder and its loss: what the engine differentiates."""

    def __init__(self, network: Network, *, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.network, self.label_smoothing = network, label_smoothing

    def forward(self, part: TranslateBatch, tap: Tap | None = None) -> dict[str, Tensor]:
        """Return the summed losses of a part of a batch and how many predictions are right."""
        output = self.network.output
        device = output.weight.device
        source = _packed(part.source_ids(), part.source_lengths, device)
        target = _packed(part.target_ids(), part.target_lengths, device)
        hidden = self.network(source, target, tap=tap)  # (T, D)
        loss, plain, num_correct = smoothed_vocabulary_loss(
            hidden,
            output.weight,
            output.bias,
            torch.from_numpy(part.labels()).to(device),
            self.label_smoothing if self.training else 0.0,
            within(tap, "head"),
        )
        loss = shown(loss, tap, "loss")
        return {"loss": loss, "cross_entropy": plain, "accuracy": num_correct}


class Translate:
    """The translation task; see `Trainable` for what its members mean."""

    def __init__(
        self,
        network: Network,
        tokenizer: SubwordTokenizer,
        objective: TranslateObjective,
        *,
        label_smoothing: float = 0.1,
        held_out: HeldOut | None = None,
    ) -> None:
        self.module = TranslateModule(network, label_smoothing=label_smoothing)
        self.tokenizer, self.objective, self.held_out = tokenizer, objective, held_out
        self.loss_weights = {"loss": 1.0}
        self.best_by = ("bleu", True)
        self.report: TranslationReport | None = None
        """Of the latest evaluation."""
        self._config = network.config

    def batch(self, step: int) -> TranslateBatch:
        return self.objective.batch(step)

    def split(self, batch: TranslateBatch, num_parts: int) -> Sequence[TranslateBatch]:
        return batch.split(num_parts)

    def counts(self, batch: TranslateBatch) -> dict[str, int]:
        num_predictions = batch.num_target_tokens
        names = ("loss", "cross_entropy", "accuracy")
        return {**dict.fromkeys(names, num_predictions), "tokens": batch.num_tokens}

    def epoch_of(self, step: int) -> float:
        return self.objective.epochs.num_done(step)

    def steps_in_epochs(self, num_epochs: float) -> int:
        return self.objective.epochs.steps_in(num_epochs)

    def data_state(self) -> dict[str, Any]:
        return {"batch_counts": self.objective.epochs.batch_counts}

    def restore_data_state(self, state: Mapping[str, Any]) -> None:
        self.objective.epochs.batch_counts = list(state["batch_counts"])

    def evaluate(self) -> dict[str, float]:
        if self.held_out is None:
            return {}
        num_tokens = sum(batch.num_target_tokens for batch in self.held_out.batches)
        total = sum(self.module(batch)["cross_entropy"].item() for batch in self.held_out.batches)
        self.report = self._scored(self.held_out)
        return {"cross_entropy": total / num_tokens, **self.report.metrics()}

    def _scored(self, held_out: HeldOut) -> TranslationReport:
        """Translate the held-out sources as a user would, and compare."""
        limit = self._config.max_length - 1
        sources = [
            [*ids[:limit], self.tokenizer.end_id] for ids in self.tokenizer.ids_of_batch(held_out.sources)
        ]
        # A whole copy: decoding does not go through the hooks that gather the weights of a sharded module.
        state = {name: full(parameter).cpu() for name, parameter in self.module.named_parameters()}
        written = held_out.write(self._network_of(state), sources)
        guess = [self.tokenizer.decode(ids) for ids in written]
        return translation(held_out.targets, guess, held_out.sources, tokenizer=held_out.bleu_tokenizer)

    def verdict(self, metrics: Mapping[str, float]) -> str:
        values = "  ".join(f"{name} {value:.4g}" for name, value in metrics.items())
        signature = f"  ({self.report.bleu_signature})" if self.report else ""
        return f"held out: {values}{signature}"

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        write_model(self._network_of(weights), self.tokenizer, folder, run=run)

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        return dict(TranslateModule(TranslatorFolder.open(folder).build()[0]).named_parameters())

    def depth_of(self, name: str) -> int:
        return depth_of(self.module.network, self.module.get_parameter(name))

    def blocks(self) -> Sequence[nn.Module]:
        return self.module.network.layers()[1:]

    def flops_per_token(self) -> float:
        network, pairs = self.module.network, self.objective.pairs
        num_source, num_target = int(pairs.source_lengths.sum()), int(pairs.target_lengths.sum())
        share = num_target / (num_source + num_target)
        in_decoder = num_weights(network.decoder) + num_weights(network.output)
        return FLOPS_PER_WEIGHT * ((1 - share) * num_weights(network.encoder) + share * in_decoder)

    def _network_of(self, weights: Mapping[str, Tensor]) -> Network:
        """Return a network of our shape with ``weights``, named as the module's."""
        state = {name.removeprefix("network."): tensor for name, tensor in weights.items()}
        return materialised(type(self.module.network), self._config, state=state).eval()


def held_out_batches(pairs: EncodedPairs, batch_tokens: int) -> list[TranslateBatch]:
    """Return all pairs, once each, in batches."""
    objective = TranslateObjective(pairs, batch_tokens=batch_tokens, seed=0)
    return [objective.batch(step) for step in range(objective.epochs.num_batches(0))]


def _packed(ids: NDArray[Any], lengths: tuple[int, ...], device: torch.device) -> Batch:
    packed = torch.from_numpy(ids).to(device)
    return Batch(packed, torch.zeros_like(packed), Layout(lengths))

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassbert.config import LstmConfig
from glassbert.data.pair_batches import TranslateBatch, TranslateObjective
from glassbert.model.init import new_lstm
from glassbert.model.layout import Batch
from glassbert.storage import read_json
from glassbert.tasks.translation import HeldOut, Translate, TranslateModule, held_out_batches
from helpers.sentence_pairs import encoded, sentence_pairs, small_network, small_tokenizer

TOKENIZER = small_tokenizer()
PAIRS = sentence_pairs(60)
ENCODED = encoded(TOKENIZER, PAIRS)


def task(network: Any = None, **changes: Any) -> Translate:
    objective = TranslateObjective(ENCODED, batch_tokens=300, seed=0)
    return Translate(network or small_network(), TOKENIZER, objective, **changes)


def held_out(write: Any) -> HeldOut:
    return HeldOut(
        sources=[source for source, _ in PAIRS],
        targets=[target for _, target in PAIRS],
        batches=held_out_batches(ENCODED, 500),
        write=write,
    )


def losses_one_by_one(network: Any, smoothing: float) -> tuple[float, float]:
    """Return the smoothed and the plain loss of all pairs, each computed alone by the book."""
    smoothed = plain = 0.0
    for index in range(len(ENCODED)):
        source, target = ENCODED.sources[index], ENCODED.targets[index]
        hidden = network(Batch.from_lists([[*source, 1]]), Batch.from_lists([[0, *target]]))
        logits, labels = network.output(hidden), torch.tensor([*target, 1])
        smoothed += F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing).item()
        plain += F.cross_entropy(logits, labels, reduction="sum").item()
    return smoothed, plain


@pytest.mark.parametrize("has_lstm", [False, True])
def test_a_packed_batch_has_the_losses_of_its_pairs_alone(has_lstm: bool) -> None:
    network: Any = small_network(hidden_dropout_prob=0.0)
    if has_lstm:
        network = new_lstm(LstmConfig(vocab_size=320, hidden_size=32, hidden_dropout_prob=0.0), seed=0)
    module = TranslateModule(network, label_smoothing=0.1)
    batch = TranslateBatch.of(ENCODED, np.arange(len(ENCODED)))
    sums = module(batch)
    smoothed, plain = losses_one_by_one(network, 0.1)
    assert sums["loss"].item() == pytest.approx(smoothed, rel=1e-5)
    assert sums["cross_entropy"].item() == pytest.approx(plain, rel=1e-5)
    parts = [module(part) for part in batch.split(4)]
    assert sum(part["loss"].item() for part in parts) == pytest.approx(smoothed, rel=1e-5)
    module.eval()
    assert module(batch)["loss"].item() == pytest.approx(plain, rel=1e-5), "dev losses are not smoothed"


def test_counts_are_what_the_sums_are_divided_by() -> None:
    one = task()
    batch = one.batch(0)
    counts = one.counts(batch)
    assert counts["loss"] == counts["accuracy"] == sum(batch.target_lengths)
    assert counts["tokens"] == sum(batch.source_lengths) + sum(batch.target_lengths)
    assert set(one.module(batch)) == set(counts) - {"tokens"}


def test_evaluation_translates_the_sources_and_scores_the_text() -> None:
    given: list[list[int]] = []

    def write(network: Any, sources: list[list[int]]) -> list[list[int]]:
        given.extend(sources)
        assert not network.training
        return TOKENIZER.ids_of_batch([target for _, target in PAIRS])

    one = task(held_out=held_out(write))
    one.module.eval()
    with torch.no_grad():
        metrics = one.evaluate()
        _, plain = losses_one_by_one(one.module.network, 0.0)
    assert given == [[*TOKENIZER.ids_of(source), TOKENIZER.end_id] for source, _ in PAIRS]
    assert metrics["bleu"] == pytest.approx(100)
    assert metrics["cross_entropy"] == pytest.approx(plain / ENCODED.target_lengths.sum(), rel=1e-5)
    assert "bleu 100" in one.verdict(metrics)
    assert "tok:13a" in one.verdict(metrics)


def test_a_source_beyond_the_position_table_is_cut_for_evaluation() -> None:
    lengths: list[int] = []

    def write(network: Any, sources: Sequence[Sequence[int]]) -> list[list[int]]:
        lengths.extend(map(len, sources))
        return [[] for _ in sources]

    long = HeldOut(["one " * 200], ["uno"], held_out_batches(ENCODED, 500), write)
    task(held_out=long).evaluate()
    assert lengths == [64]


def test_without_held_out_pairs_nothing_is_measured() -> None:
    assert task().evaluate() == {}


@pytest.mark.parametrize("has_lstm", [False, True])
def test_saved_weights_come_back_to_the_bit(tmp_path: Path, has_lstm: bool) -> None:
    network = (
        new_lstm(LstmConfig(vocab_size=320, hidden_size=32), seed=1) if has_lstm else small_network(seed=1)
    )
    one = task(network)
    weights = {name: p.detach().clone() for name, p in one.module.named_parameters()}
    one.save(tmp_path, weights, {"recipe": {"a": 1}})
    read = one.read_weights(tmp_path)
    assert set(read) == set(weights)
    for name, weight in weights.items():
        assert torch.equal(read[name], weight), name
    assert read_json(tmp_path / "run.json")["recipe"] == {"a": 1}
    assert "1 + 1 blocks" in (tmp_path / "README.md").read_text() or has_lstm


def test_depth_grows_from_the_embeddings_to_the_output() -> None:
    one = task()
    depths = {name: one.depth_of(name) for name, _ in one.module.named_parameters()}
    assert depths["network.embeddings.token.weight"] == 0
    assert depths["network.encoder.blocks.0.attention.query.weight"] == 1
    assert depths["network.decoder.blocks.0.mlp.inner.bias"] == 2
    assert depths["network.output.bias"] == 3
    assert len(one.blocks()) == 2


def test_the_counts_of_batches_are_remembered() -> None:
    one, other = task(), task()
    one.epoch_of(20)
    other.restore_data_state(one.data_state())
    assert other.data_state() == one.data_state()
    assert other.epoch_of(20) == one.epoch_of(20)
    assert one.steps_in_epochs(1.0) == one.data_state()["batch_counts"][0]


def test_operations_are_of_the_size_of_the_weights() -> None:
    one = task()
    num_weights = sum(p.numel() for p in one.module.parameters() if p.dim() > 1)
    assert 0.3 * 6 * num_weights < one.flops_per_token() < 6 * num_weights

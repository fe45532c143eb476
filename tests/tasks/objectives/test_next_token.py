import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import UserError
from glassbert.interop.bert_names import to_theirs
from glassbert.model.layout import Batch, Layout
from glassbert.tasks.objectives.next_token import NextTokenNetwork
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.pretraining import Pretrain
from helpers.corpora import VOCABULARY, batches_of, network_of, objective_of, wiki_corpus
from helpers.small_run import run, small_task, with_event

EVERY = 4


def network_and_batch(step: int) -> tuple[NextTokenNetwork, PretrainBatch]:
    network = network_of(objective_of("mlm+causal", max_length=32))
    assert isinstance(network, NextTokenNetwork)
    return network, batches_of(wiki_corpus(20), "mlm+causal", causal_every=EVERY).batch(step)


def test_every_fourth_batch_hides_nothing_and_each_token_has_its_next_one() -> None:
    made = batches_of(wiki_corpus(40), "mlm+causal", causal_every=EVERY)
    plain = batches_of(wiki_corpus(40), "mlm")
    assert isinstance(made.rules, Objective)
    for step in range(2 * EVERY):
        batch, masked = made.batch(step), plain.batch(step)
        if step % EVERY != EVERY - 1:
            assert (batch.ids == masked.ids).all(), "masked as in mlm"
            assert set(batch.labels) == {"mlm"}
            continue
        assert set(batch.labels) == {"causal"}
        assert VOCABULARY.mask_id not in batch.ids
        texts = np.split(batch.ids, np.cumsum(batch.lengths)[:-1])
        following = np.concatenate([text[1:] for text in texts])
        assert batch.labels["causal"].values.tolist() == following.tolist()
        assert made.rules.num_teaching(batch) == batch.num_tokens - batch.num_examples


def test_a_prediction_depends_on_no_later_token() -> None:
    network, batch = network_and_batch(EVERY - 1)
    layout, segments = Layout(batch.lengths), torch.from_numpy(batch.segments)
    changed = batch.ids.copy()
    last = batch.lengths[0] - 1
    changed[last] += 1
    states = [
        network.bert.encoder(Batch(torch.from_numpy(ids), segments, layout), is_causal=True)
        for ids in (batch.ids, changed)
    ]
    assert torch.equal(states[0][:last], states[1][:last])
    assert not torch.equal(states[0][last], states[1][last])


def test_the_gradients_are_those_of_transformers_decoder_one_text_at_a_time() -> None:
    network, batch = network_and_batch(EVERY - 1)
    sums = network(batch)
    (sums["causal_loss"] + sums["mlm_loss"]).backward()
    found = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    assert set(found) == {name for name, _ in network.named_parameters()}, "processes wait for each"
    network.zero_grad()
    peer = transformers.BertModel(_peer_config(network), add_pooling_layer=False)
    _copy_encoder(network, peer)
    total, correct, first = torch.zeros(()), 0, 0
    for length in batch.lengths:
        ids = torch.from_numpy(batch.ids[first : first + length])[None]
        states = peer(input_ids=ids).last_hidden_state[0]
        logits = network.next_head(states[:-1])
        total = total + F.cross_entropy(logits, ids[0, 1:], reduction="sum")
        correct += int((logits.argmax(dim=-1) == ids[0, 1:]).sum())
        first += length
    torch.testing.assert_close(total, sums["causal_loss"], atol=1e-3, rtol=1e-5)
    assert correct == sums["causal_accuracy"].item()
    total.backward()
    for own, theirs in (("attention.query", "attention.self.query"), ("mlp.inner", "intermediate.dense")):
        gradient = peer.encoder.layer[0].get_parameter(f"{theirs}.weight").grad
        torch.testing.assert_close(
            gradient, found[f"bert.encoder.blocks.0.{own}.weight"], atol=1e-4, rtol=1e-3
        )
    for name, parameter in network.next_head.named_parameters():
        if name != "decoder.weight":  # the table, which the peer's own copy shares the gradient of
            torch.testing.assert_close(parameter.grad, found[f"next_head.{name}"], atol=1e-4, rtol=1e-3)


def test_two_halves_of_a_batch_teach_what_the_whole_does() -> None:
    for step in (0, EVERY - 1):
        network, batch = network_and_batch(step)
        halves = [network(half) for half in batch.split(2)]
        for name, value in network(batch).items():
            torch.testing.assert_close(halves[0][name] + halves[1][name], value)


def test_a_run_resumes_bit_for_bit_and_still_fills_masks(tmp_path: Path) -> None:
    def task() -> Pretrain:
        return small_task(name="mlm+causal", causal_every=EVERY)

    run(tmp_path / "straight", task())
    stop = with_event(task(), 5, lambda: signal.raise_signal(signal.SIGTERM))
    assert not run(tmp_path / "stopped", stop).is_finished
    run(tmp_path / "stopped", task())
    for name in ("last/model.safetensors", "last/objective.safetensors", "metrics.jsonl"):
        assert (tmp_path / "straight" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name
    loaded = transformers.BertForMaskedLM.from_pretrained(tmp_path / "straight" / "last")
    assert torch.equal(loaded.cls.predictions.decoder.weight, loaded.bert.embeddings.word_embeddings.weight)


def test_a_loss_without_targets_in_a_step_is_not_reported_as_zero(tmp_path: Path) -> None:
    run(tmp_path / "run", small_task(name="mlm+causal", causal_every=EVERY))
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    steps = {row["step"]: row for row in rows if "grad_norm" in row}
    assert all(("causal_loss" in row) == (step % EVERY == 0) for step, row in steps.items())
    assert all(("mlm_loss" in row) == (step % EVERY != 0) for step, row in steps.items())


def test_held_out_text_is_measured_as_for_mlm() -> None:
    corpus = wiki_corpus(20)
    own, plain = (
        list(objective_of(name).held_out_batches(corpus, 2000, batch_tokens=512))  # type: ignore[arg-type]
        for name in ("mlm+causal", "mlm")
    )
    assert [batch.ids.tolist() for batch in own] == [batch.ids.tolist() for batch in plain]


def test_a_turn_below_zero_is_refused() -> None:
    with pytest.raises(UserError, match="causal_every"):
        objective_of("mlm+causal", causal_every=-1)


def _peer_config(network: NextTokenNetwork) -> transformers.BertConfig:
    shape = network.bert.config.encoder
    return transformers.BertConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.max_position_embeddings,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        is_decoder=True,
    )


def _copy_encoder(network: NextTokenNetwork, peer: transformers.BertModel) -> None:
    """Give the peer our weights, by the names of the folders that we write."""
    own = {f"encoder.{name}": value for name, value in network.bert.encoder.state_dict().items()}
    peer.load_state_dict({to_theirs(name).removeprefix("bert."): value for name, value in own.items()})

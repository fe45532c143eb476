import signal
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import UserError
from glassbert.model.layout import Layout
from glassbert.tasks.objectives.left_out import LeftOutNetwork, visible_tokens
from glassbert.tasks.objectives.objective import Objective
from helpers.corpora import VOCABULARY, batches_of, network_of, objective_of, wiki_corpus
from helpers.small_run import run, small_task, with_event


def network_and_batch(**fields: object) -> tuple[LeftOutNetwork, PretrainBatch]:
    network = network_of(objective_of("mae", max_length=32), **fields)
    assert isinstance(network, LeftOutNetwork)
    return network, batches_of(wiki_corpus(20), "mae").batch(0)


def test_thirty_percent_are_left_out_and_none_of_them_is_read() -> None:
    network, batch = network_and_batch()
    places = batch.labels["mlm"].places
    assert places is not None
    assert len(places) / (batch.num_tokens - 2 * batch.num_examples) == pytest.approx(0.3, abs=0.06)
    assert (batch.ids[places] == VOCABULARY.mask_id).all()
    before = network(batch)["mlm_loss"]
    batch.ids[places] = 7  # whatever is there, the encoder does not read it
    assert torch.equal(network(batch)["mlm_loss"], before)


def test_the_gradients_are_those_of_one_text_at_a_time() -> None:
    network, batch = network_and_batch()
    network(batch)["mlm_loss"].backward()
    found = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
    assert set(found) == {name for name, _ in network.named_parameters()}
    network.zero_grad()
    total = torch.zeros(())
    encoder, embeddings = network.bert.encoder, network.bert.encoder.embeddings
    assert embeddings.position is not None
    ends = np.cumsum(batch.lengths)
    labels = batch.labels["mlm"]
    assert labels.places is not None
    for start, stop in zip(ends - batch.lengths, ends, strict=True):
        own = (labels.places >= start) & (labels.places < stop)
        places = torch.from_numpy(labels.places[own] - start)
        kept = torch.tensor([i for i in range(stop - start) if i not in places.tolist()])
        ids, segments = (torch.from_numpy(a[start:stop]) for a in (batch.ids, batch.segments))
        seen = encoder.run(embeddings.at(ids[kept], kept, segments[kept]), Layout((len(kept),)))
        states = network.hidden_vector.repeat(stop - start, 1)
        states[kept] = seen
        states = network.block(states + embeddings.position.weight[: stop - start], Layout((stop - start,)))
        logits = network.predictor(states[places])
        total = total + F.cross_entropy(logits, torch.from_numpy(labels.values[own]), reduction="sum")
    total.backward()
    for name, parameter in network.named_parameters():
        torch.testing.assert_close(parameter.grad, found[name], atol=1e-4, rtol=1e-3)


def test_visible_tokens_are_all_but_the_hidden_and_sorted_by_length() -> None:
    _, batch = network_and_batch()
    places = batch.labels["mlm"].places
    assert places is not None
    visible, layout = visible_tokens(batch, places)
    assert sorted([*visible.tolist(), *places.tolist()]) == list(range(batch.num_tokens))
    assert list(layout.lengths) == sorted(layout.lengths)


def test_two_halves_of_a_batch_teach_what_the_whole_does() -> None:
    network, batch = network_and_batch()
    halves = [network(half)["mlm_loss"] for half in batch.split(2)]
    torch.testing.assert_close(halves[0] + halves[1], network(batch)["mlm_loss"])


def test_a_run_resumes_bit_for_bit_and_its_encoder_loads_anywhere(tmp_path: Path) -> None:
    run(tmp_path / "straight", small_task(name="mae"))
    stop = with_event(small_task(name="mae"), 5, lambda: signal.raise_signal(signal.SIGTERM))
    assert not run(tmp_path / "stopped", stop).is_finished
    run(tmp_path / "stopped", small_task(name="mae"))
    for name in ("last/model.safetensors", "last/objective.safetensors", "metrics.jsonl"):
        assert (tmp_path / "straight" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes(), name
    transformers.BertModel.from_pretrained(tmp_path / "straight" / "last")


def test_positions_without_a_table_are_refused() -> None:
    with pytest.raises(UserError, match=r"mae with model\.positions=rotary"):
        network_and_batch(positions="rotary")


@pytest.mark.parametrize(("name", "share"), [("mlm", 0.15), ("mae", 0.3), ("rtd", 1.0)])
def test_the_tokens_that_teach_are_counted(name: str, share: float) -> None:
    made = batches_of(wiki_corpus(40), name, batch_tokens=4096)
    batch = made.batch(0, 1) if name != "rtd" else made.batch(1, 2)
    assert isinstance(made.rules, Objective)
    assert made.rules.num_teaching(batch) / batch.num_tokens == pytest.approx(share, abs=0.05)

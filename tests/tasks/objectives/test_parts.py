from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassbert.config import preset
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.errors import ModelError, UserError
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch, Layout
from glassbert.tasks.objectives.folders import saved_network
from glassbert.tasks.objectives.parts import ObjectiveSettings, states_at
from glassbert.tasks.objectives.registry import OBJECTIVES
from helpers.corpora import VOCABULARY, batches_of, objective_of, wiki_corpus

SHAPE = preset("tiny", vocab_size=len(VOCABULARY), hidden_size=32, num_attention_heads=2)


def model_for(name: str) -> Bert:
    return new_bert(OBJECTIVES[name].model_config(SHAPE), seed=0).eval()


@pytest.fixture(scope="module")
def batch() -> PretrainBatch:
    return batches_of(wiki_corpus(4)).batch(0)


def test_states_are_those_of_the_whole_encoder_wherever_they_are_asked_for(batch: PretrainBatch) -> None:
    encoder = model_for("mlm").encoder
    packed = Batch(torch.from_numpy(batch.ids), torch.from_numpy(batch.segments), Layout(batch.lengths))
    some, all_tokens = np.array([1, 5, 6, 40]), np.arange(batch.num_tokens)
    with torch.no_grad():
        whole = encoder(packed)
        found = states_at(encoder, batch, [some, None, all_tokens])
    starts = np.cumsum([0, *batch.lengths[:-1]])
    for states, places in zip(found, (some, starts, all_tokens), strict=True):
        torch.testing.assert_close(states, whole[places], rtol=0, atol=1e-5)


def test_a_part_without_labels_in_a_batch_adds_nothing(batch: PretrainBatch) -> None:
    objective = objective_of("mlm+nsp")
    network = objective.network(model_for("mlm+nsp"), seed=0)
    without_pairs = replace(batch, labels={"mlm": batch.labels["mlm"]})
    with torch.no_grad():
        both, one = network(batch), network(without_pairs)
    assert list(both) == list(one) == ["mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"]
    assert one["mlm_loss"] == both["mlm_loss"]
    assert (one["nsp_loss"], one["nsp_accuracy"]) == (0, 0)
    assert objective.counts(without_pairs)["nsp_loss"] == 0


def test_the_sums_of_parts_of_a_batch_add_up(batch: PretrainBatch) -> None:
    objective = objective_of("sop")
    network = objective.network(model_for("sop"), seed=0)
    with torch.no_grad():
        whole, parts = network(batch), [network(part) for part in batch.split(3)]
    for name, value in whole.items():
        torch.testing.assert_close(sum(part[name] for part in parts), value, rtol=1e-5, atol=1e-4)
    counts = [objective.counts(part) for part in batch.split(3)]
    assert {name: sum(one[name] for one in counts) for name in whole} == objective.counts(batch)


def test_only_a_model_with_the_heads_of_the_objective_is_measured() -> None:
    with pytest.raises(ModelError, match="a model with a 'mlm' head has no NSP head, which objective sop"):
        saved_network(objective_of("sop"), model_for("mlm"), None)


def test_a_share_beyond_1_is_refused() -> None:
    with pytest.raises(UserError, match=r"short_prob=2.0; expected a number of at least 0 and at most 1"):
        ObjectiveSettings(short_prob=2.0)


@pytest.mark.parametrize("name", list(OBJECTIVES))
def test_the_cost_of_a_token_is_what_is_computed(name: str) -> None:
    options = {"max_length": 32, "short_prob": 0.0, **({"generator_first": 0.0} if name == "rtd" else {})}
    objective = objective_of(name, **options)
    network = objective.network(model_for(name), seed=0).train()
    batches = batches_of(wiki_corpus(40), name, **options)
    found = [batches.batch(step) for step in range(16)]  # a causal one among them
    with FlopCounterMode(display=False) as counter:
        for batch in found:
            sums = network(batch)
            sum(sums[name] for part in objective.parts for name in part.loss_weights).backward()
    counted = counter.get_total_flops() / sum(batch.num_tokens for batch in found)
    assert objective.flops_per_token(network) == pytest.approx(counted, rel=0.03)

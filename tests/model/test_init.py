import itertools
import signal
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from glassbert.config import ModelConfig, preset
from glassbert.errors import UserError
from glassbert.model.bert import Bert
from glassbert.model.init import look_at_neighbours, materialised, new_bert, tied_names
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from helpers.small_translators import small_lstm, small_transformer

TINY = ModelConfig(encoder=preset("tiny", vocab_size=500), head="pretraining")


def test_weights_are_a_normal_cut_at_two_deviations() -> None:
    weight = new_bert(TINY, seed=0).encoder.blocks[0].mlp.inner.weight
    assert weight.abs().max() <= 0.04
    # A normal cut at two deviations has 0.880 of the deviation.
    assert abs(weight.std().item() / 0.02 - 0.880) < 0.01
    assert abs(weight.mean().item()) < 5e-4


def test_biases_start_at_zero_and_norms_at_one() -> None:
    model = new_bert(TINY, seed=0)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name


def test_the_same_seed_gives_the_same_weights_and_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    first, second, other = new_bert(TINY, seed=3), new_bert(TINY, seed=3), new_bert(TINY, seed=4)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.encoder.embeddings.token.weight, other.encoder.embeddings.token.weight)


def test_the_decoder_shares_the_token_embedding() -> None:
    model = new_bert(TINY, seed=0)
    assert model.mlm.decoder.weight is model.encoder.embeddings.token.weight
    untied = ModelConfig(
        encoder=preset("tiny", vocab_size=500, tie_word_embeddings=False), head="mlm", has_pooler=False
    )
    model = Bert(untied)
    assert model.mlm.decoder.weight is not model.encoder.embeddings.token.weight


def test_a_head_does_not_change_the_encoder_of_a_seed() -> None:
    with_head, without = new_bert(TINY, seed=0), new_bert(ModelConfig(encoder=TINY.encoder), seed=0)
    for name, parameter in without.encoder.named_parameters():
        assert torch.equal(with_head.encoder.get_parameter(name), parameter), name


def test_neighbour_heads_look_one_back_one_ahead_two_back_two_ahead() -> None:
    model = new_bert(ModelConfig(encoder=preset("mini", vocab_size=500)), seed=0).eval()
    look_at_neighbours(model)
    nn.init.zeros_(model.encoder.embeddings.token.weight)  # where a head looks by position alone
    seen: dict[str, Tensor] = {}
    model(Batch.from_lists([list(range(5, 65))]), tap=Tap(lambda name, value: seen.setdefault(name, value)))
    probs = seen["enc.0.attn.probs"][0]  # (N, Q, K)
    distances = probs.argmax(-1) - torch.arange(60)
    assert [set(head[10:-2].tolist()) for head in distances] == [{-1}, {1}, {-2}, {2}]


def test_neighbour_heads_need_a_table_of_positions() -> None:
    model = new_bert(ModelConfig(encoder=preset("tiny", vocab_size=500, positions="rotary")), seed=0)
    with pytest.raises(UserError, match="these are rotary"):
        look_at_neighbours(model)


def test_given_weights_are_taken_over_and_missing_ones_are_drawn_from_the_seed() -> None:
    drawn = new_bert(TINY, seed=3)
    given = {"nsp.weight": torch.ones(2, 128)}
    network = materialised(Bert, TINY, state=given, seed=3)
    assert network.nsp.weight.eq(1).all()
    assert network.mlm.decoder.weight is network.encoder.embeddings.token.weight
    for name, value in drawn.state_dict().items():
        assert name in given or torch.equal(network.state_dict()[name], value), name


def test_a_state_may_leave_out_what_is_tied_and_nothing_else() -> None:
    state = dict(new_bert(TINY, seed=3).named_parameters())
    assert "mlm.decoder.weight" not in state
    network = materialised(Bert, TINY, state=state)
    assert network.mlm.decoder.weight is network.encoder.embeddings.token.weight
    del state["nsp.bias"]
    with pytest.raises(AssertionError, match=r"nsp\.bias has no value"):
        materialised(Bert, TINY, state=state)
    with pytest.raises(AssertionError, match="Bert has no span"):
        materialised(Bert, TINY, state={"span.bias": torch.zeros(2)}, seed=0)


def test_tied_tensors_are_found_in_every_kind_of_network() -> None:
    for network, expected in (
        (new_bert(TINY, seed=0), {"mlm.decoder.weight": "encoder.embeddings.token.weight"}),
        (new_bert(ModelConfig(encoder=TINY.encoder), seed=0), {}),
        (small_transformer(), {"output.weight": "embeddings.token.weight"}),
        (small_transformer(tie_word_embeddings=False), {}),
        (small_lstm(), {"output.weight": "token.weight"}),
    ):
        assert tied_names(network) == expected


def test_a_signal_while_a_network_is_built_arrives_when_torch_is_itself_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    push, calls = torch.overrides._push_mode, itertools.count()

    def attacked(mode: Any) -> None:
        if next(calls) == 1:  # in the middle of the first tensor
            signal.raise_signal(signal.SIGINT)
        push(mode)

    monkeypatch.setattr(torch.overrides, "_push_mode", attacked)
    with pytest.raises(KeyboardInterrupt):
        new_bert(TINY, seed=0)
    assert torch.empty(1).device == torch.device("cpu")
    assert next(calls) > 1

import torch

from glassbert.config import ModelConfig, preset
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert

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

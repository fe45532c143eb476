from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import UserError
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap

SHAPE = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=12,
)


def variants() -> list[BertConfig]:
    return [
        SHAPE,
        replace(SHAPE, norm_position="pre"),
        replace(SHAPE, positions="sinusoidal", hidden_act="relu"),
        replace(SHAPE, positions="rotary", gated_mlp=True, use_bias=False, norm_position="pre"),
    ]


@pytest.mark.parametrize("shape", variants())
def test_fast_and_glass_path_agree_for_every_option(shape: BertConfig) -> None:
    model = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0).eval()
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3], [2, 8, 9, 3]])
    at = torch.tensor([1, 5])
    fast = model(batch, predict_at=at)
    glass = model(batch, predict_at=at, tap=Tap(lambda _, value: value))
    for name in ("hidden", "pooled", "mlm", "nsp"):
        torch.testing.assert_close(getattr(glass, name), getattr(fast, name), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", variants())
@pytest.mark.parametrize("is_glass", [False, True])
def test_heads_say_the_same_when_the_last_block_skips_unread_tokens(
    shape: BertConfig, is_glass: bool
) -> None:
    model = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0).eval()
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3], [2, 8, 9, 3]])
    at = torch.tensor([9, 1, 4, 3, 1])  # in any order, twice, a first token, none of a sequence
    whole = model(batch, predict_at=at)
    seen: dict[str, Tensor] = {}
    tap = Tap(lambda name, value: seen.setdefault(name, value)) if is_glass else None
    part = model(batch, predict_at=at, heads_only=True, tap=tap)
    for name in ("pooled", "mlm", "nsp"):
        torch.testing.assert_close(getattr(part, name), getattr(whole, name), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(part.hidden, whole.hidden[[0, 1, 3, 4, 7, 9]], atol=1e-6, rtol=1e-5)
    if is_glass:
        assert len(seen["enc.1.out"]) == batch.layout.num_tokens  # a tap sees everything


def test_gradients_are_the_same_when_the_last_block_skips_unread_tokens() -> None:
    shape = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = new_bert(ModelConfig(encoder=shape, head="classify", labels=("a", "b")), seed=0)
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    gradients = []
    for heads_only in (False, True):
        model.zero_grad()
        labels = model(batch, heads_only=heads_only).labels
        assert labels is not None
        labels.square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for whole, part in zip(*gradients, strict=True):
        torch.testing.assert_close(part, whole, atol=1e-6, rtol=1e-5)


def test_heads_that_read_every_token_get_every_token() -> None:
    model = new_bert(ModelConfig(encoder=SHAPE, head="tag", labels=("O", "B-x")), seed=0).eval()
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    torch.testing.assert_close(model(batch, heads_only=True).labels, model(batch).labels)


@pytest.mark.parametrize("shape", variants())
def test_a_text_gets_the_same_answer_alone_and_in_any_batch(shape: BertConfig) -> None:
    model = new_bert(ModelConfig(encoder=shape), seed=0).eval()
    alone = model(Batch.from_lists([[2, 7, 9, 3]])).hidden
    crowd = model(Batch.from_lists([[2, 8, 3], [2, 7, 9, 3], [2, 7, 9, 8, 8, 3]])).hidden
    torch.testing.assert_close(crowd[3:7], alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", variants())
def test_order_of_tokens_matters(shape: BertConfig) -> None:
    model = new_bert(ModelConfig(encoder=replace(shape, initializer_range=0.5)), seed=0).eval()
    swapped = model(Batch.from_lists([[2, 9, 7, 3]])).hidden
    straight = model(Batch.from_lists([[2, 7, 9, 3]])).hidden
    assert not torch.allclose(swapped[1], straight[2], atol=1e-4)


def test_a_trace_names_every_step_and_stores_nothing_on_modules() -> None:
    model = new_bert(ModelConfig(encoder=SHAPE), seed=0).eval()
    attributes = {name: set(vars(module)) for name, module in model.named_modules()}
    seen: dict[str, Tensor] = {}
    model(Batch.from_lists([[2, 7, 9, 3]]), tap=Tap(lambda name, value: seen.setdefault(name, value)))
    assert {"emb.token", "emb.segment", "emb.position", "emb.out", "enc.1.attn.q", "enc.1.attn.probs"} <= set(
        seen
    )
    assert {"enc.1.mlp.act", "enc.1.out", "enc.out", "head.pooled"} <= set(seen)
    assert attributes == {name: set(vars(module)) for name, module in model.named_modules()}
    total = seen["emb.token"] + seen["emb.segment"] + seen["emb.position"]
    torch.testing.assert_close(model.encoder.embeddings.norm(total), seen["emb.out"])


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[2, 50, 3]], "id 50 lies outside the table of 50 rows"),
        ([[2, -1, 3]], "id -1 lies outside"),
        ([[2] * 13], "13 tokens exceeds the position table of 12"),
    ],
)
def test_input_that_the_tables_cannot_hold_is_refused(ids: list[list[int]], message: str) -> None:
    model = new_bert(ModelConfig(encoder=SHAPE), seed=0)
    with pytest.raises(UserError, match=message):
        model(Batch.from_lists(ids))


def test_a_third_segment_is_refused() -> None:
    model = new_bert(ModelConfig(encoder=SHAPE), seed=0)
    with pytest.raises(UserError, match="segment 2 lies outside the table of 2 rows"):
        model(Batch.from_lists([[2, 7, 3]], [[0, 1, 2]]))


def test_gradients_reach_every_weight() -> None:
    for shape in variants():
        model = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0)
        out = model(
            Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]], [[0, 0, 1, 1], [0, 1, 1]]),
            predict_at=torch.tensor([1]),
        )
        (out.mlm.logsumexp(-1).sum() + out.nsp.square().sum()).backward()
        for name, parameter in model.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.any(), name


def test_a_batch_that_was_encoded_in_inference_mode_can_be_trained_on() -> None:
    network = new_bert(ModelConfig(encoder=SHAPE), seed=0)
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    with torch.inference_mode():
        network(batch, heads_only=True)
    network(batch, heads_only=True).hidden.sum().backward()
    assert network.encoder.embeddings.token.weight.grad is not None


@pytest.mark.parametrize("has_gradients", [False, True])
def test_what_a_hook_saw_of_the_token_embedding_stays_as_it_was(has_gradients: bool) -> None:
    network = new_bert(ModelConfig(encoder=SHAPE), seed=0)
    token, seen = network.encoder.embeddings.token, []
    token.register_forward_hook(lambda module, inputs, output: seen.append(output))
    batch = Batch.from_lists([[2, 7, 9, 3], [2, 8, 3]])
    with torch.set_grad_enabled(has_gradients):
        network(batch)
    assert torch.equal(seen[0], token.weight[batch.ids])

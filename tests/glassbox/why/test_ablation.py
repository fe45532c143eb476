"""Tokens, words, heads and layers left out; layers read early: each against a second way to compute it."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from glassbert.errors import UserError
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from helpers.explained import Explained, explained


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def logits_of_oracle(one: Explained, ids: list[int]) -> Tensor:
    with torch.no_grad():
        return one.oracle(input_ids=torch.tensor([ids])).logits.double()


def good(logits: Tensor) -> float:
    """Return the log-odds of the label `good`, the third."""
    return logit(float(logits.softmax(dim=-1)[0, 2]))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Explained:
    return explained("classify", tmp_path_factory.mktemp("model"))


def test_a_token_is_worth_what_the_score_loses_behind_a_mask(one: Explained) -> None:
    found = one.model.why(one.item, method="occlusion", target="good")
    ids = one.model.tokenizer.encode(one.item).ids
    whole = good(logits_of_oracle(one, ids))
    mask_id = one.model.tokenizer.vocabulary.mask_id
    for position, part in enumerate(found.parts, start=1):
        without = [mask_id if place == position else id_ for place, id_ in enumerate(ids)]
        assert part.value == pytest.approx(whole - good(logits_of_oracle(one, without)), abs=1e-4)
    assert [part.place[1:] for part in found.parts if part.place][4] == (6, 7)


def test_a_word_is_hidden_with_all_its_tokens_at_once(one: Explained) -> None:
    found = one.model.why(one.item, method="occlusion", target="good", unit="word", baseline="pad")
    ids = one.model.tokenizer.encode(one.item).ids
    assert [part.name for part in found.parts] == ["abc", "d", "今天", "e"]
    without = [0 if place in (5, 6) else id_ for place, id_ in enumerate(ids)]
    fall = good(logits_of_oracle(one, ids)) - good(logits_of_oracle(one, without))
    assert found.parts[2].value == pytest.approx(fall, abs=1e-4)


def test_hiding_needs_a_token_to_hide_behind(one: Explained) -> None:
    with pytest.raises(UserError, match="baseline='zero' is for gradients"):
        one.model.why(one.item, method="occlusion", baseline="zero")


def test_a_head_that_is_off_adds_nothing_to_its_block(one: Explained) -> None:
    found = one.model.why(one.item, method="heads", target="good")
    assert [part.name for part in found.parts][:5] == [
        *(f"block 0 head {h}" for h in range(4)),
        "block 1 head 0",
    ]
    ids = one.model.tokenizer.encode(one.item).ids
    whole = good(logits_of_oracle(one, ids))
    for layer, head in ((0, 0), (1, 3), (2, 2)):
        # The columns of the output projection that read the head.
        weight = one.oracle.bert.encoder.layer[layer].attention.output.dense.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight[:, head * 8 : (head + 1) * 8] = 0.0
        without = good(logits_of_oracle(one, ids))
        with torch.no_grad():
            weight.copy_(kept)
        assert found.parts[layer * 4 + head].value == pytest.approx(whole - without, abs=1e-4)


def test_a_block_that_is_skipped_passes_its_input_on(one: Explained) -> None:
    found = one.model.why(one.item, method="layers", target="good")
    ids = one.model.tokenizer.encode(one.item).ids
    whole = good(logits_of_oracle(one, ids))
    layers = one.oracle.bert.encoder.layer
    for number in range(3):
        one.oracle.bert.encoder.layer = torch.nn.ModuleList(
            layer for index, layer in enumerate(layers) if index != number
        )
        one.oracle.config.num_hidden_layers = 2
        without = good(logits_of_oracle(one, ids))
        assert found.parts[number].value == pytest.approx(whole - without, abs=1e-4)
    one.oracle.bert.encoder.layer, one.oracle.config.num_hidden_layers = layers, 3


def test_heads_and_layers_do_not_depend_on_how_variants_are_batched(
    one: Explained, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {method: one.model.why(one.item, method=method) for method in ("heads", "layers", "lens")}
    monkeypatch.setattr("glassbert.glassbox.why.variants.BATCH_TOKENS", 20)
    for method, found in whole.items():
        again = one.model.why(one.item, method=method)
        assert [p.value for p in again.parts] == pytest.approx([p.value for p in found.parts], abs=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
def test_the_lens_reads_each_layer_through_the_mlm_head(norm_position: str, tmp_path: Path) -> None:
    from glassbert.config import ModelConfig, preset
    from glassbert.inference.model import Model
    from glassbert.model.init import new_bert
    from helpers.oracles import small_tokenizer

    shape = preset("tiny", vocab_size=60, hidden_size=32, num_attention_heads=2, norm_position=norm_position)
    model = Model(new_bert(ModelConfig(encoder=shape, head="mlm"), seed=3).eval(), small_tokenizer())
    text = "abc [MASK] d"
    found = model.why(text, method="lens", target="e")
    states: dict[str, Tensor] = {}

    def sink(name: str, value: Tensor) -> Tensor:
        states[name] = value
        return value

    ids = model.tokenizer.encode(text).ids
    with torch.no_grad():
        model.network(Batch.from_lists([ids]), tap=Tap(sink))
        for part, name in zip(found.parts, ("emb.out", "enc.0.out", "enc.1.out"), strict=True):
            state = states[name]
            norm = model.network.encoder.final_norm
            assert model.network.mlm is not None
            probs = (
                model.network.mlm((state if norm is None else norm(state))[4:5]).double().softmax(dim=-1)[0]
            )
            assert part.value == pytest.approx(
                logit(float(probs[model.tokenizer.vocabulary.id("e")])), abs=1e-4
            )
            best = probs.topk(5)
            assert [one.score for one in part.candidates] == pytest.approx(best.values.tolist(), abs=1e-5)
    assert [part.name for part in found.parts] == ["embeddings", "after block 0", "after block 1"]
    assert found.score == pytest.approx(found.parts[-1].value)


def test_the_lens_reads_a_fine_tuned_head_too(one: Explained) -> None:
    found = one.model.why(one.item, method="lens", target="good")
    assert found.parts[-1].value == pytest.approx(found.score)
    label = one.model.predict([one.item])[0]
    assert found.parts[-1].candidates[0].token == label.label
    assert found.parts[-1].candidates[0].score == pytest.approx(label.score, abs=1e-5)

"""Every intermediate has a name; docs/glossary.md lists them with their shapes."""

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from glassbert.config import BertConfig, ModelConfig
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch, Layout
from glassbert.model.tap import Tap
from helpers.small_translators import KINDS, START, small_network
from helpers.tap_names import OF_LOSSES, listed, plain, trace

SHAPE = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=24,
    max_position_embeddings=12,
)
VARIANTS = {
    "post": SHAPE,
    "pre": replace(SHAPE, norm_position="pre"),
    "sinusoidal": replace(SHAPE, positions="sinusoidal", hidden_act="relu"),
    "rotary": replace(SHAPE, positions="rotary", gated_mlp=True, use_bias=False, norm_position="pre"),
}
HEADS = {
    "pretraining": ModelConfig(encoder=SHAPE, head="pretraining"),
    "classify": ModelConfig(encoder=SHAPE, head="classify", labels=("a", "b", "c")),
    "tag": ModelConfig(encoder=SHAPE, head="tag", labels=("a", "b", "c")),
    "answer": ModelConfig(encoder=SHAPE, head="answer"),
}
BATCH = Batch.from_lists([[2, 7, 9, 3], [2, 8, 9, 3], [2, 8, 3]])
AT = torch.tensor([1, 9])
SIZES = {"T": 11, "D": 16, "I": 24, "N": 4, "M": 2, "V": 50, "C": 3, "2": 2}


def bert_trace(config: ModelConfig) -> dict[str, Tensor]:
    network = new_bert(config, seed=0).eval()
    return trace(lambda tap: network(BATCH, predict_at=AT, tap=tap))


def translator_trace(kind: str) -> dict[str, Tensor]:
    network = small_network(kind)
    source, target = Batch.from_lists([[3, 4, 5], [6, 7]]), Batch.from_lists([[START, 8], [START, 9, 10]])
    return trace(lambda tap: network(source, target, tap=tap))


def all_traces() -> dict[str, dict[str, Tensor]]:
    traces = {name: bert_trace(ModelConfig(encoder=shape)) for name, shape in VARIANTS.items()}
    traces |= {head: bert_trace(config) for head, config in HEADS.items()}
    return traces | {f"translate {kind}": translator_trace(kind) for kind in KINDS}


def test_the_glossary_lists_every_name_and_no_other() -> None:
    seen = {plain(name) for names in all_traces().values() for name in names}
    assert seen == set(listed()) - OF_LOSSES


@pytest.mark.parametrize("name", [*VARIANTS, *HEADS])
def test_shapes_are_those_of_the_glossary(name: str) -> None:
    shapes = listed()
    config = HEADS.get(name) or ModelConfig(encoder=VARIANTS[name])
    for found, value in bert_trace(config).items():
        expected = shapes[plain(found)].strip("()")
        run = re.search(r"run(\d)", found)
        sizes = SIZES | {"S": SIZES["T"], "B": 3}
        if run:
            sizes |= [{"B": 2, "Q": 4, "K": 4}, {"B": 1, "Q": 3, "K": 3}][int(run[1])]
        rows, *others = expected.split(", ")
        wanted = {(sizes[row], *(sizes[one] for one in others)) for row in rows.split(" or ")}
        assert tuple(value.shape) in wanted, found


def test_cross_attention_shows_the_source_where_it_is_looked_at() -> None:
    seen = translator_trace("post")
    assert [len(seen[f"dec.1.cross.{name}"]) for name in ("q", "k", "v", "context")] == [5, 5, 5, 5]
    assert seen["dec.1.cross.run1.probs"].shape[2:] == (3, 2)  # 3 targets, 2 sources
    assert len(seen["enc.out"]) == 5


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_number_follows_from_those_before_it(variant: str) -> None:
    shape = VARIANTS[variant]
    network = new_bert(ModelConfig(encoder=shape), seed=0).eval()
    seen = bert_trace(ModelConfig(encoder=shape))
    assert_follows(network, shape, seen)


def assert_follows(network: Bert, shape: BertConfig, seen: dict[str, Tensor]) -> None:
    is_pre = shape.norm_position == "pre"
    embedded = seen["emb.token"] + seen["emb.segment"]
    embedded = embedded + seen["emb.position"] if "emb.position" in seen else embedded
    close(seen["emb.sum"], embedded)
    close(seen["emb.norm"], network.encoder.embeddings.norm(seen["emb.sum"]))
    x = seen["emb.out"]
    for index, block in enumerate(network.encoder.blocks):
        own = {name.removeprefix(f"enc.{index}."): value for name, value in seen.items()}
        close(own["attn.proj"], block.attention.output(own["attn.context"]))
        close(own["attn.run0.scores"], own["attn.run0.raw"] / 2)  # 4 features a head
        close(own["attn.sum"], x + own["attn.proj"])
        close(own["attn.norm"], block.attention_norm(x if is_pre else own["attn.sum"]))
        middle = own["attn.sum"] if is_pre else own["attn.norm"]
        close(own["mlp.norm"], block.mlp_norm(middle if is_pre else own["mlp.sum"]))
        close(own["mlp.pre"], block.mlp.inner(own["mlp.norm"] if is_pre else middle))
        close(own["mlp.sum"], middle + own["mlp.out"])
        if shape.gated_mlp:
            close(own["mlp.gated"], own["mlp.act"] * own["mlp.gate"])
        close(own["mlp.out"], block.mlp.outer(own["mlp.gated" if shape.gated_mlp else "mlp.act"]))
        x = own["out"]
        close(x, own["mlp.sum"] if is_pre else own["mlp.norm"])
    close(seen["enc.out"], network.encoder.final_norm(x) if is_pre else x)


def close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["emb.sum", "enc.0.attn.proj", "enc.1.mlp.pre", "enc.1.mlp.sum", "head.pooled"]
)
def test_a_sink_replaces_what_the_model_continues_with(name: str) -> None:
    shape = replace(SHAPE, initializer_range=0.3)
    network = new_bert(replace(HEADS["classify"], encoder=shape), seed=0).eval()
    changed = network(BATCH, tap=Tap(lambda found, value: value.roll(1, 1) if found == name else value))
    assert not torch.allclose(changed.labels, network(BATCH).labels, atol=1e-4)


def test_a_sink_can_keep_the_gradient_of_every_number() -> None:
    network = new_bert(HEADS["classify"], seed=0).eval()
    seen: dict[str, Tensor] = {}

    def sink(name: str, value: Tensor) -> Tensor:
        value.retain_grad()
        seen[name] = value
        return value

    output = network(BATCH, tap=Tap(sink))
    output.labels.square().sum().backward()
    assert all(value.grad is not None for value in seen.values())
    expected = network.encoder.embeddings.token.weight.grad[7]
    close(seen["emb.token"].grad[1], expected)  # id 7 is in the batch once


@pytest.mark.parametrize("is_training", [False, True])
def test_in_training_both_paths_give_the_same_gradients(is_training: bool) -> None:
    shape = replace(SHAPE, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    network = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0).train(is_training)
    gradients = []
    for tap in (None, Tap(lambda _, value: value)):
        network.zero_grad()
        output = network(BATCH, predict_at=AT, tap=tap)
        (output.mlm.square().sum() + output.nsp.square().sum()).backward()
        gradients.append([parameter.grad for parameter in network.parameters()])
    for fast, glass in zip(*gradients, strict=True):
        torch.testing.assert_close(glass, fast, atol=1e-5, rtol=1e-4)


def test_a_tap_learns_which_rows_are_which_sequence() -> None:
    layouts: dict[str, Layout] = {}
    network = small_network("pre")
    source, target = Batch.from_lists([[3, 4, 5], [6, 7]]), Batch.from_lists([[START, 8], [START, 9, 10]])
    network(source, target, tap=Tap(lambda _, value: value, on_layout=layouts.__setitem__))
    assert layouts == {"": source.layout, "dec.": target.layout}

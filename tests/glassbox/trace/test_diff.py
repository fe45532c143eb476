"""Where two traces part: of two texts, two models, two moments of a training."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

import glassbert as gb
from glassbert.glassbox.trace.diff import matched
from helpers.small_finetune import run, write_inputs
from helpers.traced_models import bert, translator

TEXT = "a b c d"


def changed(model: gb.Model, weight: str) -> gb.Model:
    """Return the model with one weight changed."""
    network = copy.deepcopy(model.network)
    with torch.no_grad():
        network.get_parameter(weight).mul_(1.5)
    return gb.Model(network, model.tokenizer)


@pytest.mark.parametrize(
    ("weight", "name"),
    [
        ("encoder.embeddings.segment.weight", "emb.segment"),
        ("encoder.blocks.0.attention.value.weight", "enc.0.attn.v"),
        ("encoder.blocks.1.mlp.outer.bias", "enc.1.mlp.out"),
        ("pooler.dense.weight", "head.pooler.dense"),
    ],
)
def test_two_models_part_where_their_weights_differ(weight: str, name: str) -> None:
    model = bert("classify", labels=("x", "y"))
    found = model.trace(TEXT).diff(changed(model, weight).trace(TEXT))
    assert found.first is not None
    assert found.first.name == name
    before = [one.relative for one in found.distances][: [one.name for one in found.distances].index(name)]
    assert before == [0.0] * len(before)


def test_two_steps_of_a_training_part_at_the_first_weight_that_moved(tmp_path: Path) -> None:
    inputs = write_inputs(tmp_path)
    run(inputs, tmp_path / "run", train={"epochs": 3.0, "save_every": 1, "keep": 5})
    early, late = sorted((tmp_path / "run").glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[:2]
    first, second = (gb.load(folder, gb.Model).trace("a b c") for folder in (early, late))
    found = first.diff(second)
    assert first.model_sha256 != second.model_sha256
    assert found.first is not None
    assert found.first.name == "emb.token"
    assert 0 < found["enc.out"].relative < 1


def test_a_trace_does_not_differ_from_itself() -> None:
    trace = bert("mlm").trace("a [MASK]", grad=True)
    found = trace.diff(trace)
    assert found.first is None
    assert not any(one.relative for one in found.distances)
    assert (found.only_first, found.only_second) == ((), ())
    assert repr(found) == f"the traces agree in all {len(found.distances)} tensors that they share"


def test_the_relative_distance_is_that_of_the_norms() -> None:
    first, second = bert().trace(TEXT), bert().trace("a b c e")
    found = first.diff(second)["enc.0.out"]
    a, b = first["enc.0.out"].astype(float), second["enc.0.out"].astype(float)
    assert found.relative == pytest.approx(np.linalg.norm(a - b) / max(map(np.linalg.norm, (a, b))))
    assert found.largest == pytest.approx(np.abs(a - b).max())


def test_texts_of_different_lengths_are_compared_at_the_tokens_they_share() -> None:
    model = bert()
    found = model.trace(TEXT).diff(model.trace("a b x c d"))
    token = found["emb.token"]
    assert token.relative == 0.0
    assert token.share == pytest.approx(6 / 7)
    assert found["enc.0.attn.probs"].relative > 0
    assert found.first is not None
    assert found.first.name == "emb.position"


def test_tokens_are_matched_in_order() -> None:
    assert matched("abcd", "abxcd") == ([0, 1, 2, 3], [0, 1, 3, 4])
    assert matched("", "ab") == ([], [])


def test_names_that_only_one_trace_has_are_listed() -> None:
    model = bert("classify", labels=("x", "y"))
    found = model.trace(TEXT).diff(model.trace(TEXT, grad=True))
    assert found.only_first == ()
    assert "grad.enc.0.attn.q" in found.only_second
    assert "loss" in found.only_second


def test_the_furthest_names_come_first() -> None:
    first, second = translator().trace("one."), translator().trace("two three.")
    found = first.diff(second)
    distances = [one.relative for one in found.ranked]
    assert distances == sorted(distances, reverse=True)
    assert found.to_json()["ranked"][0]["name"] == found.ranked[0].name
    lines = repr(found).splitlines()
    assert lines[0].startswith("they diverge at emb.position")
    assert lines[2].split()[0] == found.ranked[0].name

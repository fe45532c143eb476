"""Attention rollout against the formula in numpy, from the attentions that transformers gives."""

from pathlib import Path

import numpy as np
import pytest
import torch

from helpers.explained import explained


@pytest.mark.parametrize(("kind", "places"), [("classify", [0]), ("tag", [1, 2, 3]), ("fill", [5])])
def test_shares_are_those_of_the_formula(kind: str, places: list[int], tmp_path: Path) -> None:
    one = explained(kind, tmp_path, attn_implementation="eager")
    found = one.model.why(one.item, method="rollout", target=one.target)
    ids = one.model.tokenizer.encode(one.item).ids
    with torch.no_grad():
        layers = one.oracle(input_ids=torch.tensor([ids]), output_attentions=True).attentions
    joined = np.eye(len(ids))
    for layer in layers:
        joined = (layer[0].double().numpy().mean(axis=0) / 2 + np.eye(len(ids)) / 2) @ joined
    expected = joined[places].mean(axis=0)
    assert [part.value for part in found.parts] == pytest.approx(expected, abs=1e-5)
    assert sum(part.value for part in found.parts) == pytest.approx(1.0)


def test_a_caution_stands_beside_it(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    assert "not what decided" in str(one.model.why(one.item, method="rollout"))


def test_a_model_without_an_answer_has_attention_too(tmp_path: Path) -> None:
    one = explained("fill", tmp_path)
    found = one.model.why("abc d", method="rollout")
    assert found.score is None
    assert sum(part.value for part in found.parts) == pytest.approx(1.0)

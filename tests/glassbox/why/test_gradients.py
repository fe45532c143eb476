"""Integrated gradients against captum on the models of transformers, which share no code with ours."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from glassbert.errors import GateError, UserError
from glassbert.glassbox.why.explanation import MAX_GAP
from helpers.explained import ITEMS, Explained, explained

STEPS = 24


def odds(logits: Tensor, choice: int) -> Tensor:
    """Return the log-odds of a choice, (...), from (..., C) logits, by the definition."""
    p = logits.double().softmax(dim=-1)[..., choice]
    return (p / (1 - p)).log()


def number_of(kind: str) -> Callable[[object], Tensor]:
    """Return the number that is explained from the output of transformers, written by hand for each item."""

    def classify(output: object) -> Tensor:
        return odds(output.logits, 2 if kind == "classify" else 1)  # type: ignore[attr-defined]

    def plain(output: object) -> Tensor:
        return output.logits[:, 0]  # type: ignore[attr-defined]

    def tag(output: object) -> Tensor:  # a ##b ##c are tokens 1 to 3: B-PER I-PER I-PER
        tags = [odds(output.logits[:, place], tag) for place, tag in ((1, 1), (2, 2), (3, 2))]  # type: ignore[attr-defined]
        return torch.stack(tags).mean(dim=0)

    def answer(output: object) -> Tensor:
        # [CLS] a ##b [SEP] c d ##e 今 天 f [SEP]; an answer can be at [CLS] or in the context.
        places = [0, 4, 5, 6, 7, 8, 9]
        starts, ends = output.start_logits[:, places], output.end_logits[:, places]  # type: ignore[attr-defined]
        return odds(starts, 2) + odds(ends, 4)

    def fill(output: object) -> Tensor:
        return odds(output.logits[:, 5], 57)  # type: ignore[attr-defined]

    named = {"tag": tag, "answer": answer, "fill": fill, "multi": plain, "regression": plain}
    return named.get(kind, classify)


def ids_and_segments(one: Explained) -> tuple[list[int], list[int]]:
    texts = list(one.item.values()) if isinstance(one.item, dict) else one.item
    pair = None if isinstance(texts, str) else texts[1]
    encoding = one.model.tokenizer.encode(texts if isinstance(texts, str) else texts[0], pair)
    return encoding.ids, encoding.segments


def by_captum(one: Explained, kind: str, baseline_id: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    from captum.attr import LayerIntegratedGradients

    ids, segments = ids_and_segments(one)
    fixed = {*one.model.tokenizer.vocabulary.special_ids} - {one.model.tokenizer.vocabulary.unk_id}
    blank = [id_ if id_ in fixed else baseline_id for id_ in ids]
    number = number_of(kind)

    def forward(input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        return number(one.oracle(input_ids=input_ids, token_type_ids=token_type_ids))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attribution = LayerIntegratedGradients(
            forward, one.oracle.base_model.embeddings.word_embeddings
        ).attribute(
            torch.tensor([ids]),
            baselines=torch.tensor([blank]),
            additional_forward_args=(torch.tensor([segments]),),
            n_steps=STEPS,
        )
    found = attribution[0].sum(dim=-1).double().numpy()
    return found[[id_ not in fixed for id_ in ids]]


@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("baseline", ["mask", "pad"])
def test_every_token_is_worth_what_captum_says(kind: str, baseline: str, tmp_path: Path) -> None:
    one = explained(kind, tmp_path)
    vocabulary = one.model.tokenizer.vocabulary
    blank = vocabulary.mask_id if baseline == "mask" else vocabulary.pad_id
    found = one.model.why(one.item, target=one.target, baseline=baseline, steps=STEPS)
    expected = by_captum(one, kind, blank)
    assert np.abs(expected).max() > 1e-2
    assert [part.value for part in found.parts] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("kind", ITEMS)
def test_the_parts_add_up_to_the_difference_of_the_scores(kind: str, tmp_path: Path) -> None:
    one = explained(kind, tmp_path)
    found = one.model.why(one.item, target=one.target, steps=64)
    known = found.completeness
    assert known is not None
    assert found.score is not None
    assert sum(part.value for part in found.parts) == pytest.approx(
        found.score - known.baseline_score, abs=2e-3
    )
    assert known.gap < 0.01


def test_the_score_is_what_the_model_predicts(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    found = one.model.why(one.item, target="good")
    assert found.probability == pytest.approx(one.model.predict([one.item])[0].scores["good"], abs=1e-6)
    assert one.model.why(one.item).target == f"label {one.model.predict([one.item])[0].label!r}"


def test_words_are_worth_the_sum_of_their_tokens(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    tokens, words = (one.model.why(one.item, steps=8, unit=unit) for unit in ("token", "word"))
    assert [part.name for part in tokens.parts] == ["a", "##b", "##c", "d", "今", "天", "e"]
    assert [part.name for part in words.parts] == ["abc", "d", "今天", "e"]
    assert words.parts[0].value == pytest.approx(sum(part.value for part in tokens.parts[:3]), abs=1e-9)


def test_no_conclusion_is_drawn_from_parts_that_do_not_add_up(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    for parameter in one.model.network.parameters():
        parameter.data *= 4  # a wild function, which one step cannot follow
    found = one.model.why(one.item, steps=1)
    assert found.completeness is not None
    assert found.completeness.gap > MAX_GAP
    assert not found.is_conclusive
    assert not found.to_json()["is_conclusive"]
    with pytest.raises(GateError, match="no conclusion; raise steps"):
        found.ranked()
    assert "no conclusion" in str(found)
    assert 'class="for"' not in found.to_html()


@pytest.mark.parametrize(("gap", "is_conclusive"), [(0.0, True), (0.05, True), (0.051, False), (0.5, False)])
def test_the_limit_of_a_conclusion_is_five_percent(gap: float, is_conclusive: bool, tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    found = one.model.why(one.item, steps=2)
    assert found.completeness is not None
    judged = replace(found, completeness=replace(found.completeness, gap=gap))
    assert judged.is_conclusive == is_conclusive
    assert bool(judged.refusal) != is_conclusive


def test_steps_double_until_the_parts_add_up(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    for parameter in one.model.network.parameters():
        parameter.data *= 2.5
    found = one.model.why(one.item)
    assert found.completeness is not None
    assert found.is_conclusive or found.completeness.steps == 512
    assert found.completeness.steps > 32


def test_the_number_of_steps_per_batch_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = explained("classify", tmp_path)
    whole = one.model.why(one.item, steps=9)
    monkeypatch.setattr("glassbert.glassbox.why.variants.BATCH_TOKENS", 20)
    parts = one.model.why(one.item, steps=9)
    assert [p.value for p in parts.parts] == pytest.approx([p.value for p in whole.parts], abs=1e-5)


def test_asking_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    before = one.model.predict([one.item])[0].scores
    one.model.why(one.item)
    assert all(parameter.grad is None for parameter in one.model.network.parameters())
    assert one.model.predict([one.item])[0].scores == before
    assert isinstance(one.model.network.encoder.embeddings.token, torch.nn.Embedding)


@pytest.mark.parametrize("steps", [0, -3, 10**5, 10**400])
def test_no_steps_and_absurdly_many_are_refused(steps: int, tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    with pytest.raises(
        UserError, match=r"^steps=.*; expected a whole number of at least 1 and at most 1,000"
    ):
        one.model.why(one.item, steps=steps)

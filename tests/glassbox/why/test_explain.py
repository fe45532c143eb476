"""What can be asked, of which model, and what is refused in one line."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from glassbert.errors import ModelError, UserError
from helpers.explained import ITEMS, Explained, explained
from helpers.traced_models import bert


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Explained]:
    return {kind: explained(kind, tmp_path_factory.mktemp(kind)) for kind in ITEMS}


@pytest.mark.parametrize("method", ["gradients", "occlusion", "heads", "layers", "rollout", "lens", "tokens"])
@pytest.mark.parametrize("kind", ITEMS)
def test_every_task_can_be_asked_in_every_way(kind: str, method: str, models: dict[str, Explained]) -> None:
    one = models[kind]
    found = one.model.why(one.item, method=method, target=one.target)
    assert found.parts
    content = found.to_json()
    assert json.loads(json.dumps(content)) == content
    assert str(found)
    assert found.to_html().startswith("<!doctype html>")
    for part in found.parts:
        if part.place and method != "rollout":
            words = found.texts[part.place.text][part.place.start : part.place.end]
            assert words.lower().endswith(part.name.lower().removeprefix("##"))


def test_answers_are_named_in_words(models: dict[str, Explained]) -> None:
    names = {kind: one.model.why(one.item, target=one.target, steps=1).target for kind, one in models.items()}
    assert names == {
        "classify": "label 'good'",
        "pair": "label 'fair'",
        "multi": "label 'bad'",
        "regression": "LABEL_0",
        "tag": "'abc' as PER",
        "answer": "answer 'de 今', its start and its end",
        "fill": "[MASK] = '今'",
    }


def test_without_a_target_the_models_own_answer_is_explained(models: dict[str, Explained]) -> None:
    for kind in ("classify", "pair", "multi"):
        one = models[kind]
        label = one.model.predict([one.item])[0].label
        assert one.model.why(one.item, steps=1).target == f"label {label!r}"
    one = models["answer"]
    assert repr(one.model.predict([one.item])[0].answer) in one.model.why(one.item, steps=1).target
    one = models["fill"]
    assert one.model.why(one.item, steps=1).target == f"[MASK] = {one.model.fill(one.item)[0][0].token!r}"


def test_a_tag_is_asked_about_by_text_or_by_label(models: dict[str, Explained]) -> None:
    model, text = models["tag"].model, "abc d 今天 e"
    tags = model.why(text, target="d", steps=1).target
    assert tags.startswith("'d' as ")
    spans = model.predict([text])[0].spans
    if spans:
        assert model.why(text, target="PER", steps=1).target == f"{spans[0].text!r} as PER"


@pytest.mark.parametrize("names", [("NOUN", "VERB"), ("B-PER", "I-PER"), ("O", "B-PER"), ("O", "S-PER")])
def test_foreign_tags_can_be_asked_about(names: tuple[str, ...]) -> None:
    model = bert("tag", labels=names)
    label = model.task.tag_set.labels[0]
    assert model.why("a b c", target=f"a b={label}", method="occlusion").target == f"'a b' as {label}"
    assert model.trace("a b c", target=[{"start": 0, "end": 5, "label": label}], grad=True)["loss"] > 0


def test_a_label_that_is_not_found_is_not_called_unknown() -> None:
    model = bert("tag", labels=("O", "B-PER", "B-LOC"))
    with torch.no_grad():
        model.network.labels.dense.bias[2] = -100
    with pytest.raises(UserError, match="finds no LOC here; name a part of the text, or TEXT=LOC"):
        model.why("a b c d", target="LOC")


def test_no_answer_can_be_asked_about(models: dict[str, Explained]) -> None:
    one = models["answer"]
    assert one.model.why(one.item, target="", steps=1).target == "no answer"


def test_a_later_mask_is_asked_about_by_its_number(models: dict[str, Explained]) -> None:
    model = models["fill"].model
    assert model.why("[MASK] a [MASK]", target="2=b", steps=1).target == "[MASK] 2 = 'b'"
    assert model.why(("a [MASK]", "b c"), target="d", steps=1).target == "[MASK] = 'd'"


@pytest.mark.parametrize("long_text", ["head", "tail", "head+tail", "window"])
def test_a_long_text_is_explained_as_the_model_read_it(long_text: str, models: dict[str, Explained]) -> None:
    from dataclasses import replace

    one = models["classify"]
    text = " ".join(chr(ord("a") + number % 26) for number in range(60))
    task = one.model.task
    one.model.__dict__["task"] = replace(
        task, settings=replace(task.settings, long_text=long_text, stride=20)
    )
    try:
        found = one.model.why(text, method="occlusion", target="good")
        expected = one.model.predict([text])[0].scores["good"]
        gradients = one.model.why(text, target="good", steps=16)
    finally:
        one.model.__dict__["task"] = task
    assert found.probability == pytest.approx(expected, abs=1e-5)
    names = {"head": 38, "tail": 38, "head+tail": 38, "window": 60}
    assert len(found.parts) == len(gradients.parts) == names[long_text]
    assert all(text[part.place.start] == part.name for part in found.parts if part.place)
    last = found.parts[-1].place
    assert last is not None
    assert (last.start == len(text) - 1) == (long_text != "head")
    assert any("windows" in note or "never saw" in note for note in found.notes)
    assert gradients.completeness is not None
    assert gradients.completeness.gap < 0.2


def test_windows_of_tags_and_answers_are_found(models: dict[str, Explained]) -> None:
    words = " ".join(chr(ord("a") + number % 26) for number in range(90))
    found = models["tag"].model.why(words + " 今天", target="今天=PER", method="occlusion")
    assert "'今天' as PER" in found.target
    assert {"今", "天"} <= {part.name for part in found.parts}
    item = {"question": "ab", "context": words + " 今天"}
    found = models["answer"].model.why(item, target="今天", method="occlusion")
    assert found.parts[-1].name == "天"
    assert len(found.parts) < 40
    assert "one of" in found.notes[0]


@pytest.mark.parametrize(
    ("kind", "item", "options", "message"),
    [
        ("classify", "", {}, "the text is empty"),
        ("classify", "  \n", {}, "the text is empty"),
        ("fill", "", {}, "the text is empty"),
        ("fill", "a b", {}, r"has no \[MASK\]"),
        ("classify", "a", {"target": "goood"}, r"label 'goood' is not one .* \(nearest: 'good'\)"),
        ("tag", "abc", {"target": "abc=PERS"}, r"label 'PERS' .* \(nearest: 'PER'\)"),
        ("tag", "abc", {"target": "xyz"}, "not part of the text"),
        ("answer", {"question": "a", "context": "b"}, {"target": "c"}, "not part of the context"),
        ("regression", "a", {"target": "good"}, "a regression has the one target"),
        ("fill", "a [MASK]", {"target": "##zzz"}, r"not one of the 60 pieces"),
        ("fill", "a [MASK]", {"target": "2=a"}, r"has 1 \[MASK\]; count them from 1"),
        ("fill", "a [MASK]", {"target": "\u00b2=a"}, r"not one of the 60 pieces"),
        ("fill", "a [MASK]", {"target": "9" * 5000 + "=a"}, r"not one of the 60 pieces"),
        ("classify", "a", {"method": "gradient"}, r"expected one of .* \(nearest: 'gradients'\)"),
        ("classify", "a", {"unit": "words"}, r"unit='words'; expected one of token, word"),
        ("classify", "a", {"baseline": "noise"}, "baseline='noise'; expected one of mask, pad, zero"),
        ("classify", "a", {"top": 0}, "top=0; expected at least 1"),
        ("classify", "a", {"unit": "word", "segmenter": "nobody"}, "unknown segmenter 'nobody'"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(
    kind: str, item: Any, options: dict[str, Any], message: str, models: dict[str, Explained]
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        models[kind].model.why(item, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["😀 a 👩‍👩‍👧 b", "a" * 10_000, "今天" * 5_000, "\ud800 a", "a\x00b"])
def test_odd_texts_are_explained(text: str, models: dict[str, Explained]) -> None:
    model = models["classify"].model
    if text.startswith("\ud800"):
        with pytest.raises(UserError, match="half of a character"):
            model.why(text)
        return
    for unit in ("token", "word"):
        found = model.why(text, method="occlusion", unit=unit)
        assert found.parts
        str(found), found.to_html()


def test_a_model_whose_answer_is_no_number_sends_for_the_doctor(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    one.model.network.encoder.embeddings.token.weight.data[7] = float("nan")
    with pytest.raises(ModelError, match="not a number; run `glassbert doctor`"):
        one.model.why("a b c", target="good")


def test_a_model_without_any_head_has_no_answer_to_explain(tmp_path: Path) -> None:
    from glassbert.inference.loading import load
    from helpers.oracles import make_oracle, save_oracle

    model = load(save_oracle(make_oracle("BertModel"), tmp_path))
    with pytest.raises(UserError, match="'none' head gives no answer to explain"):
        model.why("a b [MASK]")
    assert model.why("a b", method="tokens").parts


def test_hiding_what_is_ranked_first_changes_more_than_hiding_at_random(models: dict[str, Explained]) -> None:
    generator, model = random.Random(0), models["classify"].model
    first, expected = [], []
    for _ in range(30):
        text = " ".join(generator.choices("abcdefghijklmn今天好", k=8))
        gradients = model.why(text, target="good")
        changes = [abs(part.value) for part in model.why(text, target="good", method="occlusion").parts]
        first.append(changes[gradients.parts.index(gradients.ranked(1)[0])])
        expected.append(sum(changes) / len(changes))
    assert sum(first) > 1.5 * sum(expected)
    assert sum(a > b for a, b in zip(first, expected, strict=True)) >= 20

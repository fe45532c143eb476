from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

from glassbert.data.examples import AnswerExample, BadRow, Example, TextExample
from glassbert.errors import ModelError, UserError
from glassbert.inference import predict as predict_module
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.predict import predict_stream, threshold_for_accuracy
from glassbert.tasks.answer.rows import ANSWER
from helpers.oracles import make_oracle, save_oracle

TEXTS = ["a b c", "", "x y z a b c", "a " * 60, "m"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    folder = tmp_path_factory.mktemp("model")
    return load(save_oracle(make_oracle("BertForSequenceClassification"), folder))


def scores(predictions: list[object]) -> np.ndarray:
    return np.array([list(one.scores.values()) for one in predictions])  # type: ignore[attr-defined]


def test_a_folder_of_transformers_predicts_what_transformers_does(model: Model) -> None:
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(model.folder).eval()
    for text, found in zip(TEXTS, model.predict(TEXTS), strict=True):
        with torch.no_grad():
            logits = theirs(input_ids=torch.tensor([model.tokenize([text])[0].ids])).logits[0]
        assert found.label == f"LABEL_{int(logits.argmax())}"
        np.testing.assert_allclose(list(found.scores.values()), logits.softmax(-1).numpy(), atol=1e-5)


def test_a_text_is_judged_alike_alone_and_in_any_company(model: Model) -> None:
    together, shuffled = scores(model.predict(TEXTS)), scores(model.predict(TEXTS[::-1]))[::-1]
    alone = np.concatenate([scores(model.predict([text])) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(shuffled, alone, atol=1e-5)
    assert np.ptp(alone[:, 0]) > 5e-4


def test_long_texts_say_that_they_were_cut(model: Model) -> None:
    assert [one.truncated for one in model.predict(TEXTS)] == [False, False, False, True, False]


def test_items_of_every_usual_shape_are_read(model: Model) -> None:
    texts = model.predict(["a b", {"text": "a b"}])
    assert [one.tokens for one in texts] == [4, 4]
    pairs = model.predict([("a", "b"), ["a", "b"], {"text_a": "a", "text_b": "b"}])
    assert [one.tokens for one in pairs] == [5, 5, 5]
    for same in (texts, pairs):
        np.testing.assert_allclose(scores(same), scores(same[:1] * len(same)), atol=1e-6)
    assert model.predict([]) == []


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("a b", "items='a b'; expected a list of .*; wrap it in a list"),
        ({"text": "a"}, r"items=\{'text': 'a'\}; expected a list of"),
        ([{"txt": "a"}], r"item 0: expected the keys 'text' for classify, got \['txt'\]"),
        ([{"text": 3}], "item 0: expected a string as the text, got int"),
        (["a", ("a", "b")], "item 1: expected 1 text for classify, got 2"),
        ([("a", "b", "c")], "item 0: expected 1 text for classify, got 3"),
    ],
)
def test_wrong_items_are_named(model: Model, items: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        model.predict(items)


def test_questions_keep_their_id() -> None:
    assert ANSWER.from_item({"question": "q", "context": "c", "id": 7}, "item 0").id == "7"
    assert ANSWER.from_item(("q", "c"), "item 0").id == "item 0"


def test_labels_below_the_threshold_are_withheld(model: Model) -> None:
    found = model.predict(TEXTS)
    limit = sorted(one.score for one in found)[2]
    careful = model.predict(TEXTS, abstain_below=limit)
    assert [one.label is None for one in careful] == [one.score < limit for one in found]
    assert scores(careful).tolist() == scores(found).tolist()


def test_a_model_without_thresholds_knows_none_for_an_accuracy(model: Model) -> None:
    with pytest.raises(ModelError, match="no threshold for an accuracy of 0.9; run.json has none"):
        threshold_for_accuracy(model, 0.9)


def test_an_encoder_has_no_task(tmp_path: Path) -> None:
    encoder = load(save_oracle(make_oracle("BertModel"), tmp_path))
    with pytest.raises(ModelError, match="a model with a 'none' head has no task; fine-tune it"):
        encoder.predict(["a"])


def test_a_stream_keeps_its_order_and_reads_no_further_than_it_must(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict_module, "CHUNK_EXAMPLES", 4)
    taken = 0

    def examples() -> Iterator[Example | BadRow]:
        nonlocal taken
        for number in range(1000):
            taken += 1
            is_bad = number % 5 == 1
            yield (
                BadRow(str(number), "bad")
                if is_bad
                else TextExample(f"a {'b ' * (number % 7)}", None, (), None, "")
            )

    found = predict_stream(model, examples())
    kinds = [type(next(found)) for _ in range(10)]
    assert [kind is BadRow for kind in kinds] == [number % 5 == 1 for number in range(10)]
    assert taken == 12
    lengths = [next(found).tokens for _ in range(1)]  # type: ignore[union-attr]
    assert lengths == [3 + 10 % 7]


def test_a_few_huge_texts_are_not_held_at_once(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predict_module, "CHUNK_CHARACTERS", 10)
    taken: list[int] = []
    examples = (
        taken.append(number) or TextExample("a b c d e f", None, (), None, "")  # type: ignore[func-returns-value]
        for number in range(100)
    )
    next(predict_stream(model, examples))
    assert taken == [0]


def test_a_question_that_cannot_be_answered_does_not_take_the_others_along(tmp_path: Path) -> None:
    reader = load(save_oracle(make_oracle("BertForQuestionAnswering"), tmp_path))
    questions = ["a", "b " * 100, "c"]
    examples = [
        AnswerExample(str(number), question, "a b c", None, f"f:{number}")
        for number, question in enumerate(questions)
    ]
    first, second, third = predict_stream(reader, examples)
    assert isinstance(second, BadRow)
    assert second.where == "f:1"
    assert second.reason.startswith("the question has 100 pieces")
    alone = reader.predict_examples([examples[0], examples[2]])
    assert [one.to_json()["start"] for one in (first, third)] == [one.to_json()["start"] for one in alone]  # type: ignore[union-attr]

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glassbert.config import ModelConfig
from glassbert.data.examples import Kind, TextExample
from glassbert.errors import DataError, UserError
from glassbert.model.bert import Bert, Output
from glassbert.model.init import new_bert
from glassbert.tasks.classify.settings import ClassifySettings
from glassbert.tasks.classify.task import Classify
from glassbert.tasks.task import Input
from helpers.oracles import small_tokenizer
from helpers.predicting import predictions
from helpers.small_model import VOCAB_SIZE, sentiment, small_bert

LABELS = ("bad", "good", "so-so")


def task_of(kind: Kind = "single", name: str = "classify", **changes: Any) -> Classify:
    settings = ClassifySettings(**changes.pop("settings", {}))
    labels = ("score",) if kind == "regression" else LABELS
    tokenizer = small_tokenizer(VOCAB_SIZE)
    return Classify(
        name=name, kind=kind, labels=labels, tokenizer=tokenizer, max_length=12, settings=settings, **changes
    )


def example(
    text: str = "a b", *labels: str, score: float | None = None, pair: str | None = None
) -> TextExample:
    return TextExample(text, pair, labels, score, "data.tsv:1")


def inputs_of(task: Classify, *examples: TextExample) -> list[Input]:
    return [one for windows in task.inputs(examples, with_targets=True) for one in windows]


def loss_of(task: Classify, logits: torch.Tensor, *examples: TextExample) -> float:
    output = Output(hidden=torch.zeros(0), labels=logits)
    return task.losses(output, inputs_of(task, *examples))["loss"].item()


LOGITS = torch.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])
TWO = (example("a", "good"), example("b c", "bad"))


def test_the_loss_of_one_label_is_cross_entropy() -> None:
    expected = F.cross_entropy(LOGITS, torch.tensor([1, 0]), reduction="sum")
    assert loss_of(task_of(), LOGITS, *TWO) == pytest.approx(expected.item())


def test_class_weights_multiply_the_loss_of_their_label() -> None:
    weights = np.array([2.0, 0.5, 1.0], dtype=np.float32)
    each = F.cross_entropy(LOGITS, torch.tensor([1, 0]), reduction="none")
    expected = 0.5 * each[0] + 2.0 * each[1]
    assert loss_of(task_of(weights=weights), LOGITS, *TWO) == pytest.approx(expected.item())


def test_focal_loss_is_the_published_formula() -> None:
    probs = LOGITS.softmax(dim=1)
    p = torch.stack([probs[0, 1], probs[1, 0]])
    expected = -((1 - p) ** 2 * p.log()).sum()
    assert loss_of(task_of(settings={"focal_gamma": 2.0}), LOGITS, *TWO) == pytest.approx(expected.item())


def test_the_loss_of_many_labels_is_the_mean_of_their_cross_entropies() -> None:
    gold = torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    each = F.binary_cross_entropy_with_logits(LOGITS, gold, reduction="none")
    rows = (example("a", "good", "bad"), example("b"))
    assert loss_of(task_of("multi"), LOGITS, *rows) == pytest.approx(each.mean(dim=1).sum().item())
    weights = np.array([3.0, 1.0, 1.0], dtype=np.float32)
    each[0, 0] *= 3
    expected = each.mean(dim=1).sum().item()
    assert loss_of(task_of("multi", weights=weights), LOGITS, *rows) == pytest.approx(expected)


def test_the_loss_of_numbers_is_their_squared_error() -> None:
    rows = (example("a", score=2.0), example("b", score=-1.0))
    logits = torch.tensor([[1.5], [1.0]])
    assert loss_of(task_of("regression"), logits, *rows) == pytest.approx(0.25 + 4.0)


def test_the_windows_of_a_text_share_its_loss() -> None:
    task = task_of(settings={"long_text": "window"})
    long = example(" ".join("abcdefghijklmnopqrstuvwxy"), "good")
    windows = inputs_of(task, long)
    assert len(windows) == 4
    assert sum(one.share for one in windows) == 1.0
    assert task.counts(windows) == {"loss": 1, "accuracy": 4}
    logits = LOGITS[:1].repeat(4, 1)
    alone = loss_of(task, LOGITS[:1], example("a", "good"))
    assert loss_of(task, logits, long) == pytest.approx(alone)


def test_the_logits_of_windows_are_pooled_and_the_text_counts_as_whole() -> None:
    task = task_of(settings={"long_text": "window"})
    long = example(" ".join("abcdefghijklmnopqrstuvwxy"))
    (windows,) = task.inputs([long], with_targets=False)
    raw = [np.array([3.0, 0.0, 0.0]) if index == 0 else np.array([0.0, 2.0, 0.0]) for index in range(4)]
    found = task.predict(long, windows, raw)
    expected = torch.tensor([3 / 4, 6 / 4, 0.0]).softmax(dim=0)
    assert found.label == "good"
    np.testing.assert_allclose(list(found.scores.values()), expected, atol=1e-7)
    assert (found.tokens, found.truncated) == (25 + 2, False)


def test_a_cut_text_says_so() -> None:
    task = task_of()
    rows = [example("a b c"), example(" ".join("abcdefghijklmn"))]
    inputs = task.inputs(rows, with_targets=False)
    found = [task.predict(row, own, [np.zeros(3)]) for row, own in zip(rows, inputs, strict=True)]
    assert [(one.tokens, one.truncated) for one in found] == [(5, False), (12, True)]


def test_many_labels_are_given_from_the_threshold_on() -> None:
    task = task_of("multi", threshold=0.6)
    (own,) = task.inputs([example("a")], with_targets=False)
    found = task.predict(example("a"), own, [np.log([0.6 / 0.4, 0.9 / 0.1, 0.5 / 0.5]) + 1e-9])
    assert found.labels == ("bad", "good")
    assert found.label == "good"
    assert found.to_json()["labels"] == ("bad", "good")
    np.testing.assert_allclose(list(found.scores.values()), [0.6, 0.9, 0.5])


def test_a_number_has_no_label() -> None:
    task = task_of("regression")
    (own,) = task.inputs([example("a")], with_targets=False)
    content = task.predict(example("a"), own, [np.array([2.5])]).to_json()
    assert content == {"label": None, "score": 2.5, "scores": {}, "tokens": 3, "truncated": False}


def test_one_text_where_two_are_expected_is_refused() -> None:
    with pytest.raises(UserError, match="data.tsv:1: expected two texts for pair, got one"):
        task_of(name="pair").inputs([example("a")], with_targets=False)
    with pytest.raises(UserError, match="expected one text for classify, got two"):
        task_of().inputs([example("a", pair="b")], with_targets=False)


def test_a_label_that_the_model_does_not_have_is_named() -> None:
    with pytest.raises(DataError, match="data.tsv:1: label 'x' is not one of the model's: bad, good, so-so"):
        inputs_of(task_of(), example("a", "x"))


def classifier(task: Classify) -> Bert:
    spec = task.head()
    return new_bert(
        ModelConfig(
            encoder=small_bert().config.encoder,
            head=spec.head,
            labels=spec.labels,
            problem_type=spec.problem_type,
        ),
        seed=3,
    ).eval()


@pytest.mark.parametrize("long_text", ["head", "window"])
def test_a_text_is_judged_alike_alone_and_in_any_company(long_text: str) -> None:
    task = task_of(settings={"long_text": long_text})
    bert = classifier(task)
    with torch.no_grad():
        for parameter in bert.parameters():  # fresh weights say nearly the same of every text
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    rows = [*sentiment(40), example(" ".join("abcdefghijklmnopqrstuvwxyz" * 3)), example("")]
    together = predictions(task, bert, rows)
    backwards = predictions(task, bert, rows[::-1])[::-1]
    assert np.ptp([one.score for one in together]) > 0.05
    for row, one, other in zip(rows, together, backwards, strict=True):
        (alone,) = predictions(task, bert, [row])
        for found in (one, other):
            assert found.label == alone.label
            np.testing.assert_allclose(list(found.scores.values()), list(alone.scores.values()), atol=1e-5)


def measured(task: Classify, rows: list[TextExample], logits: list[list[float]]) -> list[Any]:
    inputs = task.inputs(rows, with_targets=False)
    return [
        task.predict(row, own, [np.array(one)]) for row, own, one in zip(rows, inputs, logits, strict=True)
    ]


def test_measuring_knows_each_kind() -> None:
    rows = [example("a", "good"), example("a", "bad"), example("a", "bad")]
    found = measured(task_of(), rows, [[0, 1, 0], [1, 0, 0], [0, 1, 0]])
    assert task_of().measure(rows, found).metrics()["accuracy"] == pytest.approx(2 / 3)
    many = task_of("multi")
    rows = [example("a", "good", "bad"), example("a")]
    found = measured(many, rows, [[1, 1, -1], [1, -1, -1]])
    assert many.measure(rows, found).metrics()["micro_f1"] == pytest.approx(2 * 2 / (2 + 3))
    numbers = task_of("regression")
    rows = [example("a", score=float(n)) for n in range(4)]
    found = measured(numbers, rows, [[0.1], [1.2], [1.9], [3.5]])
    assert numbers.measure(rows, found).metrics()["spearman"] == pytest.approx(1.0)


def test_a_temperature_is_fitted_and_then_shown_as_what_it_corrected() -> None:
    generator = np.random.default_rng(0)
    gold = generator.integers(0, 3, size=400)
    logits = generator.normal(size=(400, 3))
    logits[np.arange(400), gold] += 1.0
    logits *= 4.0  # far too sure of itself
    rows = [example("a", LABELS[one]) for one in gold]
    task = task_of()
    inputs = task.inputs(rows, with_targets=True)
    tuning = task.tune(rows, inputs, [[row] for row in logits])
    assert tuning.temperature == pytest.approx(4.0, rel=0.25)
    assert set(tuning.run["thresholds"]) <= {"0.9", "0.95", "0.99"}
    tuned = replace(task, temperature=tuning.temperature)
    found = measured(tuned, rows, (logits / tuning.temperature).tolist())
    calibration = tuned.calibration(rows, found)
    assert calibration is not None
    assert calibration.ece < 0.08 < 0.2 < calibration.ece_uncalibrated


def test_the_threshold_of_many_labels_is_tuned() -> None:
    rows = [example("a", "good"), example("a", "good", "bad"), example("a"), example("a", "bad")]
    logits = [[-2.0, -0.6, -3.0], [-0.5, -0.4, -3.0], [-2.0, -1.5, -2.0], [-0.7, -2.0, -2.5]]
    task = task_of("multi")
    tuning = task.tune(rows, task.inputs(rows, with_targets=True), [[np.array(row)] for row in logits])
    tuned = replace(task, threshold=tuning.run["threshold"])
    for kind in (np.float64, np.float32):
        for shift in (-1e-6, 0.0, 1e-6):  # what rounding in another batch may do
            scaled = (np.array(logits, dtype=kind) / tuning.temperature + shift).tolist()
            assert tuned.measure(rows, measured(tuned, rows, scaled)).metrics()["micro_f1"] == 1.0
    assert task.measure(rows, measured(task, rows, logits)).metrics()["micro_f1"] == 0.0


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        ([[1, 0, 0], [1, 0, 0], [1, 0, 0]], "every text gets the label 'bad'"),
        ([[1, 0, 0], [0, 0, 1], [0, 0, 1]], "worse than always guessing 'good', which is right for 66.7%"),
        ([[0, 1, 0], [0, 1, 0], [0, 0, 1]], None),
    ],
)
def test_a_degenerate_classifier_raises_an_alarm(logits: list[list[float]], message: str | None) -> None:
    rows = [example("a", "good"), example("a", "good"), example("a", "so-so")]
    assert task_of().alarm(rows, measured(task_of(), rows, logits)) == message


def test_degenerate_labels_and_numbers_raise_an_alarm_too() -> None:
    many, numbers = task_of("multi"), task_of("regression")
    rows = [example("a", "good")]
    assert many.alarm(rows, measured(many, rows, [[-1, -1, -1]])) == "no text gets a label"
    rows = [example("a", score=1.0), example("a", score=2.0)]
    assert numbers.alarm(rows, measured(numbers, rows, [[1.5], [1.5]])) == "every text gets the same number"
    assert numbers.alarm(rows, measured(numbers, rows, [[1.5], [1.6]])) is None


def test_what_run_json_keeps_makes_the_same_form() -> None:
    task = task_of("multi", settings={"long_text": "window", "stride": 3}, threshold=0.3, temperature=1.7)
    config = ModelConfig(
        encoder=small_bert().config.encoder,
        head="classify",
        labels=LABELS,
        problem_type="multi_label_classification",
    )
    again = Classify.from_run("classify", task.to_run(), task.tokenizer, config, max_length=40)
    assert again.to_run() == task.to_run()
    assert again.kind == "multi"


def test_a_folder_of_others_takes_one_text_or_two() -> None:
    config = ModelConfig(encoder=small_bert().config.encoder, head="classify", labels=("LABEL_0", "LABEL_1"))
    task = Classify.from_run("classify", {}, small_tokenizer(VOCAB_SIZE), config, max_length=40)
    assert task.kind == "single"
    inputs = task.inputs([example("a"), example("a", pair="b")], with_targets=False)
    assert [len(own[0]) for own in inputs] == [3, 5]
    assert inputs[1][0].segments.tolist() == [0, 0, 0, 1, 1]

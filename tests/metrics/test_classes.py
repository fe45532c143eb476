import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from sklearn import metrics as sklearn_metrics

from glassbert.metrics.classes import classification, multi_label

LABELS = ("a", "b", "c", "d")
indices = st.integers(0, len(LABELS) - 1)
pairs = st.lists(st.tuples(indices, indices), min_size=1, max_size=40)
decisions = st.integers(1, 15).flatmap(lambda n: arrays(np.bool_, (2, n, len(LABELS))))


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(pairs)
def test_every_score_of_single_labels_is_that_of_scikit_learn(both: list[tuple[int, int]]) -> None:
    gold, guess = np.array(both).T
    report = classification(gold, guess, LABELS)
    for name, average in (("", "macro"), ("micro_", "micro"), ("weighted_", "weighted")):
        expected = sklearn_metrics.f1_score(gold, guess, average=average, zero_division=0)
        assert getattr(report, f"{name}f1") == pytest.approx(expected, abs=1e-12)
    assert report.accuracy == pytest.approx(sklearn_metrics.accuracy_score(gold, guess), abs=1e-12)
    assert report.mcc == pytest.approx(sklearn_metrics.matthews_corrcoef(gold, guess), abs=1e-12)
    expected = sklearn_metrics.precision_score(gold, guess, average="macro", zero_division=0)
    assert report.precision == pytest.approx(expected, abs=1e-12)
    expected = sklearn_metrics.recall_score(gold, guess, average="macro", zero_division=0)
    assert report.recall == pytest.approx(expected, abs=1e-12)


@given(pairs)
def test_every_class_and_cell_is_that_of_scikit_learn(both: list[tuple[int, int]]) -> None:
    gold, guess = np.array(both).T
    report = classification(gold, guess, LABELS)
    everything = range(len(LABELS))
    np.testing.assert_array_equal(
        report.confusion, sklearn_metrics.confusion_matrix(gold, guess, labels=everything)
    )
    expected = sklearn_metrics.precision_recall_fscore_support(
        gold, guess, labels=everything, zero_division=0
    )
    ours = [[score.precision, score.recall, score.f1, score.support] for score in report.per_class]
    np.testing.assert_allclose(ours, np.transpose(expected), atol=1e-12)


@given(decisions)
def test_every_score_of_many_labels_is_that_of_scikit_learn(both: NDArray[np.bool_]) -> None:
    gold, guess = both
    report = multi_label(gold, guess, LABELS)
    for name, average in (("", "macro"), ("micro_", "micro"), ("weighted_", "weighted")):
        expected = sklearn_metrics.f1_score(gold, guess, average=average, zero_division=0)
        assert getattr(report, f"{name}f1") == pytest.approx(expected, abs=1e-12)
    assert report.accuracy == pytest.approx(sklearn_metrics.accuracy_score(gold, guess), abs=1e-12)
    assert report.hamming_loss == pytest.approx(sklearn_metrics.hamming_loss(gold, guess), abs=1e-12)
    expected = sklearn_metrics.precision_recall_fscore_support(gold, guess, zero_division=0)
    ours = [[score.precision, score.recall, score.f1, score.support] for score in report.per_class]
    np.testing.assert_allclose(ours, np.transpose(expected), atol=1e-12)


def test_macro_f1_leaves_out_classes_that_never_came() -> None:
    gold = guess = np.array([0, 0, 1])
    assert classification(gold, guess, LABELS).f1 == 1.0


def test_no_examples_score_zero_and_never_nan() -> None:
    nothing = np.zeros(0, int)
    report = classification(nothing, nothing, LABELS)
    assert set(report.metrics().values()) == {0.0}
    many = multi_label(np.zeros((0, 4), bool), np.zeros((0, 4), bool), LABELS)
    assert set(many.metrics().values()) == {0.0}


def test_correlation_is_exact_with_more_examples_than_64_bits_can_square() -> None:
    gold = np.arange(200_000) % 2
    assert classification(gold, gold, ("no", "yes")).mcc == 1.0


def test_rows_of_the_confusion_are_gold() -> None:
    report = classification(np.array([0, 0, 1]), np.array([1, 1, 1]), ("x", "y"))
    assert report.to_json()["confusion"] == {"labels": ["x", "y"], "counts": [[0, 2], [0, 1]]}
    assert [(score.support, score.guessed) for score in report.per_class] == [(2, 0), (1, 3)]


def test_reports_are_plain_json() -> None:
    single = classification(np.array([0, 1]), np.array([1, 1]), ("x", "y"))
    many = multi_label(np.array([[True, False]]), np.array([[True, True]]), ("x", "y"))
    for report in (single, many):
        again = json.loads(json.dumps(report.to_json()))
        assert {name: again[name] for name in report.metrics()} == report.metrics()

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, special

from glassbert.metrics.calibration import (
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    Gold,
    calibration,
    confidences,
    expected_calibration_error,
    fit_temperature,
    probabilities,
    reliability,
)


def loss(logits: NDArray[np.float64], gold: Gold, temperature: float) -> float:
    """The negative log-likelihood, by scipy."""
    if gold.ndim == 2:
        return -float(special.log_expit(np.where(gold, logits, -logits) / temperature).sum())
    return -float(special.log_softmax(logits / temperature, axis=1)[np.arange(len(gold)), gold].sum())


def sample(seed: int, scale: float, is_multi_label: bool) -> tuple[NDArray[np.float64], Gold]:
    """Logits ``scale`` times too large for the labels drawn from them."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(300, 3)) * 2
    scores = probabilities(logits, is_multi_label=is_multi_label)
    if is_multi_label:
        return logits * scale, random.random(scores.shape) < scores
    return logits * scale, np.array([random.choice(3, p=row) for row in scores])


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.sampled_from([0.2, 1.0, 3.0]), st.booleans())
def test_the_temperature_is_the_likeliest(seed: int, scale: float, is_multi_label: bool) -> None:
    logits, gold = sample(seed, scale, is_multi_label)
    found = fit_temperature(logits, gold)
    expected = optimize.minimize_scalar(
        lambda logarithm: loss(logits, gold, np.exp(logarithm)),
        bounds=np.log([MIN_TEMPERATURE, MAX_TEMPERATURE]),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert found == pytest.approx(np.exp(expected.x), rel=1e-5)


@pytest.mark.parametrize("is_multi_label", [False, True])
def test_the_temperature_makes_confidence_honest(is_multi_label: bool) -> None:
    logits, gold = sample(0, 4.0, is_multi_label)
    found = calibration(logits, gold, fit_temperature(logits, gold))
    assert found.temperature == pytest.approx(4, rel=0.2)
    assert found.ece < 0.06 < 0.1 < found.ece_uncalibrated
    assert found.metrics() == {"ece": found.ece, "ece_uncalibrated": found.ece_uncalibrated}


def test_without_a_wrong_guess_the_temperature_stays_one() -> None:
    assert fit_temperature(np.array([[2.0, 1.0], [0.0, 5.0]]), np.array([0, 1])) == 1.0


def test_guesses_that_are_always_wrong_have_the_highest_temperature() -> None:
    logits = np.array([[9.0, 0.0], [0.0, 9.0]])
    assert fit_temperature(logits, np.array([1, 0])) == pytest.approx(MAX_TEMPERATURE)


def test_logits_that_do_not_differ_leave_the_temperature_within_bounds() -> None:
    assert MIN_TEMPERATURE <= fit_temperature(np.zeros((4, 2)), np.array([0, 1, 1, 1])) <= MAX_TEMPERATURE


@pytest.mark.parametrize("is_multi_label", [False, True])
def test_probabilities_of_huge_logits_are_finite(is_multi_label: bool) -> None:
    logits = np.array([[1e4, -1e4], [-1e4, 0.0]], np.float32)
    expected = [[1.0, 0.0], [0.0, 0.5]] if is_multi_label else [[1.0, 0.0], [0.0, 1.0]]
    np.testing.assert_allclose(probabilities(logits, 0.05, is_multi_label=is_multi_label), expected)


def test_probabilities_are_those_of_scipy() -> None:
    logits = np.array([[0.3, -1.2, 2.0], [5.0, 4.0, -9.0]])
    np.testing.assert_allclose(probabilities(logits, 2.0), special.softmax(logits / 2, axis=1))
    np.testing.assert_allclose(probabilities(logits, 2.0, is_multi_label=True), special.expit(logits / 2))


def test_confidence_of_many_labels_is_that_of_yes_or_no() -> None:
    logits = np.array([[special.logit(0.9), special.logit(0.2)]])
    confidence, is_right = confidences(logits, np.array([[True, True]]))
    np.testing.assert_allclose(confidence, [0.9, 0.8])
    assert is_right.tolist() == [True, False]


def test_calibration_error_is_that_by_hand() -> None:
    confidence = np.array([0.55, 0.65, 0.95, 0.85, 0.85])
    is_right = np.array([True, False, True, True, False])
    # Halves: nothing below 0.5; above, the mean confidence is 0.77 and the accuracy 0.6.
    assert expected_calibration_error(confidence, is_right, bins=2) == pytest.approx(0.17)
    # Tenths: |0.55 - 1|, |0.65 - 0|, 2 * |0.85 - 0.5|, |0.95 - 1|, over 5.
    assert expected_calibration_error(confidence, is_right, bins=10) == pytest.approx(1.85 / 5)


def test_an_edge_belongs_to_the_bin_below() -> None:
    edges = np.array([0.0, 0.25, 0.5, 1.0])
    assert [part.count for part in reliability(edges, edges > 0, bins=4)] == [2, 1, 0, 1]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30), st.integers(1, 20))
def test_every_guess_is_in_the_bin_of_its_confidence(rows: list[tuple[float, bool]], bins: int) -> None:
    confidence, is_right = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], bool)
    parts = reliability(confidence, is_right, bins)
    assert len(parts) == bins
    for index, part in enumerate(parts):
        inside = [row for row in rows if part.low < row[0] <= part.high or (index == 0 and row[0] == 0)]
        assert part.count == len(inside)
        assert part.confidence == pytest.approx(np.mean([row[0] for row in inside]) if inside else 0)
        assert part.accuracy == pytest.approx(np.mean([row[1] for row in inside]) if inside else 0)
    error = sum(part.count * abs(part.confidence - part.accuracy) for part in parts)
    assert expected_calibration_error(confidence, is_right, bins) == pytest.approx(error / max(len(rows), 1))


def test_no_examples_score_zero_and_never_nan() -> None:
    for gold in (np.zeros(0, int), np.zeros((0, 3), bool)):
        logits = np.zeros((0, 3))
        assert fit_temperature(logits, gold) == 1.0
        found = calibration(logits, gold, 1.0)
        assert (found.ece, found.ece_uncalibrated) == (0.0, 0.0)
        assert all(part.count == 0 for part in found.bins)
        json.dumps(found.to_json(), allow_nan=False)

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_curve

from glassbert.metrics.thresholds import class_thresholds, threshold_curve, threshold_for

# Few distinct scores, so that ties are the rule.
rows = st.lists(st.tuples(st.sampled_from([0.1, 0.25, 0.5, 0.7, 0.9, 1.0]), st.booleans()), min_size=1)
Rows = list[tuple[float, bool]]


def columns(of: Rows) -> tuple[np.ndarray, np.ndarray]:
    return np.array([row[0] for row in of]), np.array([row[1] for row in of], bool)


def outcomes(of: Rows) -> list[tuple[float, float, float]]:
    """Precision, recall and threshold for every score, by counting."""
    found = []
    for threshold in sorted({score for score, _ in of}):
        accepted = [is_right for score, is_right in of if score >= threshold]
        found.append(
            (sum(accepted) / len(accepted), sum(accepted) / max(sum(r for _, r in of), 1), threshold)
        )
    return found


def assert_between(threshold: float, lowest_accepted: float, of: Rows) -> None:
    """Check that a threshold accepts what it should, with a margin."""
    below = max((score for score, _ in of if score < lowest_accepted), default=lowest_accepted - 1e-4)
    assert threshold == pytest.approx((lowest_accepted + below) / 2)


@given(rows)
def test_the_curve_is_that_of_scikit_learn(of: Rows) -> None:
    scores, is_right = columns(of)
    if not is_right.any():
        return
    curve = threshold_curve(scores, is_right)
    precision, recall, threshold = precision_recall_curve(is_right, scores, drop_intermediate=False)
    np.testing.assert_allclose(curve.threshold, threshold[::-1])
    np.testing.assert_allclose(curve.precision, precision[-2::-1])
    np.testing.assert_allclose(curve.recall, recall[-2::-1])
    np.testing.assert_allclose(curve.coverage, [(scores >= one).mean() for one in curve.threshold])


@given(rows, st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]))
def test_a_wanted_precision_is_kept_with_the_most_recall(of: Rows, wanted: float) -> None:
    found = threshold_for(*columns(of), precision=wanted)
    fitting = [one for one in outcomes(of) if one[0] >= wanted]
    if not any(is_right for _, is_right in of) or not fitting:
        assert found is None
        return
    assert found is not None
    best = max(fitting, key=lambda one: (one[1], one[2]))  # of equals the highest threshold
    assert (found.precision, found.recall) == pytest.approx(best[:2])
    assert_between(found.threshold, best[2], of)


@given(rows, st.sampled_from([0.0, 0.3, 0.5, 0.8, 1.0]))
def test_a_wanted_recall_is_kept_with_the_most_precision(of: Rows, wanted: float) -> None:
    found = threshold_for(*columns(of), recall=wanted)
    if not any(is_right for _, is_right in of):
        assert found is None
        return
    assert found is not None
    best = max((one for one in outcomes(of) if one[1] >= wanted), key=lambda one: (one[0], one[2]))
    assert (found.precision, found.recall) == pytest.approx(best[:2])
    assert_between(found.threshold, best[2], of)


@given(rows)
def test_without_a_wish_the_best_f1_is_found(of: Rows) -> None:
    found = threshold_for(*columns(of))
    if found is None:
        assert not any(is_right for _, is_right in of)
        return
    best = max(2 * p * r / (p + r) for p, r, _ in outcomes(of) if p + r)
    assert 2 * found.precision * found.recall / (found.precision + found.recall) == pytest.approx(best)


def test_every_class_has_its_own_threshold() -> None:
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    first, second = class_thresholds(scores, np.array([0, 0, 1, 1]), ("no", "yes"), precision=1.0)
    assert (first.label, first.support) == ("no", 2)
    assert first.threshold is not None
    assert first.threshold.threshold == pytest.approx(0.8)
    assert first.threshold.recall == 0.5
    assert second.threshold is not None
    assert second.threshold.coverage == 0.25
    both = class_thresholds(scores, np.eye(2, dtype=bool)[[0, 0, 1, 1]], ("no", "yes"), precision=1.0)
    assert both == (first, second)


def test_a_class_that_never_came_has_no_threshold() -> None:
    found = class_thresholds(np.array([[0.9, 0.1]]), np.array([0]), ("no", "yes"), recall=0.5)
    assert found[1].threshold is None
    assert json.loads(json.dumps(found[1].to_json())) == {"label": "yes", "support": 0, "threshold": None}


def test_a_thinned_curve_keeps_its_ends() -> None:
    curve = threshold_curve(np.linspace(0, 1, 1000), np.ones(1000, bool))
    thin = curve.thinned(11)
    assert len(thin) == 11
    assert (thin.threshold[0], thin.threshold[-1]) == (1.0, 0.0)
    assert len(curve.thinned(5000)) == 1000


def test_no_examples_give_an_empty_curve() -> None:
    curve = threshold_curve(np.zeros(0), np.zeros(0, bool))
    assert curve.thinned(9).to_json() == {"threshold": [], "precision": [], "recall": [], "coverage": []}
    assert threshold_for(np.zeros(0), np.zeros(0, bool), precision=0.9) is None

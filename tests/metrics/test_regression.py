import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glassbert.metrics.regression import ranks, regression

# Few distinct values, so that ties are the rule.
scores = st.sampled_from([-2.5, 0.0, 0.1, 0.2, 1.0, 3.75, 100.0])
pairs = st.lists(st.tuples(scores, scores), min_size=2, max_size=30)


@given(pairs)
def test_correlations_with_ties_are_those_of_scipy(both: list[tuple[float, float]]) -> None:
    gold, guess = np.array(both).T
    report = regression(gold, guess)
    if np.ptp(gold) == 0 or np.ptp(guess) == 0:
        assert (report.pearson, report.spearman) == (0.0, 0.0)
        return
    assert report.pearson == pytest.approx(stats.pearsonr(gold, guess).statistic, abs=1e-9)
    assert report.spearman == pytest.approx(stats.spearmanr(gold, guess).statistic, abs=1e-9)


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([5.0, 1.0, 5.0, 9.0, 5.0])).tolist() == [3.0, 1.0, 3.0, 5.0, 3.0]


def test_errors_are_those_by_hand() -> None:
    report = regression(np.array([1.0, 2.0, 3.0]), np.array([1.0, 4.0, 2.0]))
    assert report.mse == pytest.approx(5 / 3)
    assert report.mae == 1.0
    assert report.pearson == pytest.approx(0.3273268353539886)
    assert report.spearman == pytest.approx(0.5)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1.0, 1e150])
def test_correlation_does_not_depend_on_the_scale(scale: float) -> None:
    report = regression(np.array([1.0, 2.0, 3.0]) * scale, np.array([1.0, 4.0, 2.0]))
    assert report.pearson == pytest.approx(0.3273268353539886)


def test_no_examples_and_constants_score_zero_and_never_nan() -> None:
    nothing = np.zeros(0)
    assert set(regression(nothing, nothing).metrics().values()) == {0.0}
    # The mean of three times 0.1 is not 0.1 in floating point: a constant must be seen at once.
    assert regression(np.full(3, 0.1), np.array([1.0, 2.0, 3.0])).pearson == 0.0

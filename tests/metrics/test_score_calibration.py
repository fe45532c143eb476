import numpy as np
import pytest

from glassbert.metrics.calibration import score_calibration


def test_errors_of_both_kinds_of_scores_are_told() -> None:
    is_right = np.array([True, True, True, False])
    found = score_calibration(np.full(4, 0.75), np.full(4, 0.95), is_right, 2.0)
    assert found is not None
    assert found.temperature == 2.0
    assert found.ece == pytest.approx(0.0)
    assert found.ece_uncalibrated == pytest.approx(0.2)
    assert sum(part.count for part in found.bins) == sum(part.count for part in found.bins_uncalibrated) == 4


def test_of_nothing_nothing_is_known() -> None:
    empty = np.zeros(0)
    assert score_calibration(empty, empty, np.zeros(0, dtype=bool), 1.0) is None

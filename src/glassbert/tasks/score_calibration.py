"""How far scores and success are apart where a score is not simply the largest of some probabilities."""

import numpy as np
from numpy.typing import NDArray

from glassbert.metrics.calibration import Calibration, expected_calibration_error, reliability


def score_calibration(
    scores: NDArray[np.float64],
    uncalibrated: NDArray[np.float64],
    is_right: NDArray[np.bool_],
    temperature: float,
) -> Calibration | None:
    """Return the calibration of guesses by their scores with and without the temperature; None for none."""
    if not len(scores):
        return None
    return Calibration(
        temperature=temperature,
        ece=expected_calibration_error(scores, is_right),
        ece_uncalibrated=expected_calibration_error(uncalibrated, is_right),
        bins=reliability(scores, is_right),
        bins_uncalibrated=reliability(uncalibrated, is_right),
    )

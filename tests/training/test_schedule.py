import math

import pytest

from glassbert.training.schedule import rate_factor


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant", "inverse_sqrt"])
def test_the_rate_rises_in_a_straight_line_to_its_peak(schedule: str) -> None:
    assert rate_factor(schedule, 0.2, 0.05) == pytest.approx(0.25)  # type: ignore[arg-type]
    assert rate_factor(schedule, 0.2, 0.2) == pytest.approx(1.0)  # type: ignore[arg-type]


def test_each_schedule_falls_in_its_own_way() -> None:
    assert rate_factor("linear", 0.2, 0.6) == pytest.approx(0.5)
    assert rate_factor("cosine", 0.2, 0.4) == pytest.approx(0.5 * (1 + math.cos(math.pi / 4)))
    assert rate_factor("constant", 0.2, 0.9) == 1.0
    assert rate_factor("inverse_sqrt", 0.1, 0.4) == pytest.approx(0.5)
    assert rate_factor("linear", 0.2, 1.0) == rate_factor("cosine", 0.2, 1.0) == 0.0


def test_no_warm_up_starts_at_the_peak() -> None:
    assert rate_factor("linear", 0.0, 0.0) == 1.0

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.reports.axes import Scale, shortened, spanning, width_of, written

finite = st.floats(-1e6, 1e6, allow_subnormal=False)


@settings(deadline=None)
@given(finite, st.floats(1e-3, 1e6))
def test_ticks_are_few_round_and_within_the_range(low: float, size: float) -> None:
    high = low + size
    ticks = Scale(low, high, 0, 100).ticks()
    assert 1 <= len(ticks) <= 7
    assert all(low - size * 1e-6 <= tick <= high + size * 1e-6 for tick in ticks)


def test_ticks_of_shares_are_fifths() -> None:
    assert Scale(0, 1, 0, 100).ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1])


def test_a_scale_may_run_upwards() -> None:
    scale = Scale(0, 2, 100, 0)
    assert [scale(value) for value in (0, 1, 2)] == [100, 50, 0]


def test_a_scale_of_one_value_or_none_is_drawn_around_it() -> None:
    assert (spanning([3.0, 3.0], 0, 1).low, spanning([3.0, 3.0], 0, 1).high) == pytest.approx((2.7, 3.3))
    assert (spanning([], 0, 1).low, spanning([], 0, 1).high) == (0, 1)
    assert spanning([0.0], 0, 1)(0.0) == 0.5


def test_a_scale_starts_at_zero_where_that_is_near() -> None:
    assert spanning([0.3, 1.0], 0, 1).low == 0
    assert spanning([0.8, 1.0], 0, 1).low == 0.8
    assert spanning([-0.3, 1.0], 0, 1).low == -0.3


def test_numbers_are_written_briefly() -> None:
    values = (0.0, 0.30000000000000004, 1e-4, 20000.0, 1e6)
    assert [written(value) for value in values] == ["0", "0.3", "1e-4", "20,000", "1e6"]


def test_chinese_characters_take_two_columns() -> None:
    assert width_of("ab中") == 4
    assert shortened("中文标签", 5) == "中文\u2026"
    assert shortened("e\u0301tat", 4) == "e\u0301tat"
    assert shortened("abcdef", 4) == "abc\u2026"

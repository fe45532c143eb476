import math

import torch

from glassbert.model.positions import sinusoids, turning


def test_waves_follow_the_formula() -> None:
    table = sinusoids(50, 8)
    assert math.isclose(table[7, 2], math.sin(7 / 10000 ** (2 / 8)), abs_tol=1e-6)
    assert math.isclose(table[7, 3], math.cos(7 / 10000 ** (2 / 8)), abs_tol=1e-6)


def test_a_shift_of_positions_is_one_linear_map() -> None:
    table, offset = sinusoids(200, 16), 13
    shifted = table[:180] @ turning(offset, 16).T
    torch.testing.assert_close(shifted, table[offset : 180 + offset], atol=1e-5, rtol=0)

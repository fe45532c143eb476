from collections import Counter

import numpy as np
import pytest

from glassbert.data.random import Draw, below, bits, heads, permutation, uniform

KEYS = np.arange(200_000)


def splitmix64(state: int) -> int:
    """Return one output of the published generator, in plain integers."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_the_oracle_gives_the_published_first_output() -> None:
    assert splitmix64(0) == 0xE220A8397B1DCDAF


@pytest.mark.parametrize("seed", [0, 7, 2**63 + 1])
def test_bits_are_splitmix64_stepped_once_per_key(seed: int) -> None:
    golden = 0x9E3779B97F4A7C15
    state = seed
    for key in (int(Draw.CUT), 3, 100_000):
        state = splitmix64((state + key * golden) % 2**64)
    assert int(bits(seed, Draw.CUT, 3, np.array([5, 100_000]))[1]) == state


def test_a_number_depends_on_every_key_and_not_on_its_neighbours() -> None:
    whole = bits(1, Draw.CUT, 2, KEYS)
    assert np.array_equal(bits(1, Draw.CUT, 2, KEYS[500:600]), whole[500:600])
    others = (
        bits(2, Draw.CUT, 2, KEYS),
        bits(1, Draw.FLIP, 2, KEYS),
        bits(1, Draw.CUT, 3, KEYS),
        bits(1, Draw.CUT, 2, KEYS, 0),
    )
    assert all(len(np.intersect1d(whole, other)) == 0 for other in others)
    assert len(np.unique(whole)) == len(whole)


def test_keys_are_broadcast_against_each_other() -> None:
    grid = uniform(1, Draw.CUT, np.arange(3)[:, None], np.arange(4))
    assert grid.shape == (3, 4)
    assert grid[2, 3] == uniform(1, Draw.CUT, 2, 3)


def test_uniform_numbers_are_uniform_and_not_correlated_with_the_next() -> None:
    values = uniform(5, Draw.CHOICE, 0, KEYS)
    assert values.min() >= 0
    assert values.max() < 1
    share = np.histogram(values, bins=20, range=(0, 1))[0] / len(values)
    np.testing.assert_allclose(share, 1 / 20, atol=0.0025)
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.01


def test_below_hits_every_number_and_never_the_limit() -> None:
    values = below(7, 5, Draw.CUT, KEYS)
    assert set(values.tolist()) == set(range(7))
    np.testing.assert_allclose(np.bincount(values) / len(values), 1 / 7, atol=0.004)
    assert below(np.zeros(3, dtype=np.int64), 5, Draw.CUT, np.arange(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("num_tosses", [0, 1, 2, 63, 64, 65, 128, 200])
def test_heads_has_the_mean_and_variance_of_a_binomial(num_tosses: int) -> None:
    counts = heads(np.full(20_000, num_tosses), 5, Draw.FRONT_OF_A, 0, np.arange(20_000))
    assert counts.min() >= 0
    assert counts.max() <= num_tosses
    assert counts.mean() == pytest.approx(num_tosses / 2, abs=0.025 * max(1, num_tosses) ** 0.5)
    assert counts.var() == pytest.approx(num_tosses / 4, rel=0.05)


def test_heads_of_each_example_does_not_depend_on_the_others() -> None:
    tosses = np.array([3, 500, 64, 0, 17])
    together = heads(tosses, 5, Draw.FRONT_OF_A, np.arange(5))
    alone = [int(heads(tosses[i : i + 1], 5, Draw.FRONT_OF_A, np.array([i]))[0]) for i in range(5)]
    assert together.tolist() == alone


def test_permutations_hold_every_number_once_and_are_evenly_spread() -> None:
    assert sorted(permutation(1000, 1, Draw.ORDER, 0).tolist()) == list(range(1000))
    assert permutation(1000, 1, Draw.ORDER, 0).tolist() != permutation(1000, 1, Draw.ORDER, 1).tolist()
    orders = Counter(tuple(permutation(3, 1, Draw.ORDER, epoch).tolist()) for epoch in range(3000))
    assert len(orders) == 6
    assert min(orders.values()) > 400

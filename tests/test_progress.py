"""Progress of nested loops: one share for all of them, and an end when the listener asks for it."""

import pytest

from glassbert.progress import Stopped, each, listening


def test_without_a_listener_a_loop_is_a_loop() -> None:
    assert list(each((1, 2, 3))) == [1, 2, 3]
    assert list(each(())) == []


def test_a_loop_inside_divides_its_item() -> None:
    shares: list[float] = []
    with listening(shares.append):
        for _ in each("ab"):
            for _ in each("xyz12"):
                pass
    assert shares == pytest.approx([0, 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 0.9])


def test_loops_behind_each_other_share_their_stretch_of_the_work() -> None:
    shares: list[float] = []
    with listening(shares.append):
        for _ in each("ab"):
            list(each("xy"))
            list(each("xy"))
    assert max(shares) == 0.75
    assert shares[:5] == [0, 0, 0.25, 0, 0.25]


def test_a_listener_ends_the_work() -> None:
    done = []

    def listener(share: float) -> None:
        if share >= 0.5:
            raise Stopped

    with pytest.raises(Stopped), listening(listener):
        done.extend(each(range(10)))
    assert done == [] or max(done) < 5
    assert list(each("ab")) == ["a", "b"]  # nobody listens any more


def test_comprehensions_count_too() -> None:
    shares: list[float] = []
    with listening(shares.append):
        found = {name: [name + seed for seed in each("12")] for name in each("ab")}
    assert found == {"a": ["a1", "a2"], "b": ["b1", "b2"]}
    assert shares == [0, 0, 0.25, 0.5, 0.5, 0.75]

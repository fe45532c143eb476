import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.pretraining.batches import IGNORED, Labels, PretrainBatch, fill_batches

LENGTHS = st.lists(st.integers(3, 20), min_size=1, max_size=60)


def batch_of(lengths: list[int]) -> PretrainBatch:
    """Return a batch whose every value tells where it came from."""
    lengths = sorted(lengths)
    total = sum(lengths)
    places = np.flatnonzero(np.arange(total) % 4 == 1)
    return PretrainBatch(
        ids=1000 + np.arange(total),
        segments=np.arange(total) % 2,
        lengths=tuple(lengths),
        labels={"tokens": Labels(5000 + places, places), "examples": Labels(np.arange(len(lengths)))},
    )


@settings(max_examples=50, deadline=None)
@given(LENGTHS, st.integers(20, 100))
def test_batches_hold_all_examples_in_order_within_the_budget(lengths: list[int], budget: int) -> None:
    borders = fill_batches(np.array(lengths, dtype=np.int32), budget)
    assert (borders[0], borders[-1]) == (0, len(lengths))
    assert (np.diff(borders) > 0).all()
    totals = [sum(lengths[a:b]) for a, b in zip(borders, borders[1:], strict=False)]
    assert max(totals) <= budget
    for total, next_example in zip(totals[:-2], borders[1:-2], strict=True):
        assert total + lengths[next_example] > budget  # not one more would have fitted


def test_the_last_two_batches_share_what_is_left() -> None:
    assert fill_batches(np.full(21, 10, dtype=np.int32), 100).tolist() == [0, 10, 16, 21]
    assert fill_batches(np.full(20, 10, dtype=np.int32), 100).tolist() == [0, 10, 20]
    assert fill_batches(np.full(11, 10, dtype=np.int32), 100).tolist() == [0, 6, 11]
    assert fill_batches(np.full(3, 10, dtype=np.int32), 100).tolist() == [0, 3]


@settings(max_examples=50, deadline=None)
@given(LENGTHS, st.integers(1, 8))
def test_splitting_keeps_every_example_with_all_that_belongs_to_it(lengths: list[int], parts: int) -> None:
    batch = batch_of(lengths)
    found = {}
    for part in batch.split(parts):
        of_places, places = part.labels["tokens"].values, part.labels["tokens"].places
        assert places is not None
        ends = np.cumsum(part.lengths)
        assert ends[-1] == len(part.ids) == len(part.segments)
        of_ids = np.split(part.ids, ends[:-1])
        of_segments = np.split(part.segments, ends[:-1])
        owners = np.searchsorted(ends, places, side="right")
        for index, label in enumerate(part.labels["examples"].values):
            labels = of_places[owners == index]
            assert part.ids[places[owners == index]].tolist() == (labels - 4000).tolist()
            found[int(label)] = (of_ids[index].tolist(), of_segments[index].tolist(), labels.tolist())
    assert sorted(found) == list(range(len(lengths)))
    assert [id_ for index in sorted(found) for id_ in found[index][0]] == batch.ids.tolist()
    assert [segment for index in sorted(found) for segment in found[index][1]] == batch.segments.tolist()
    assert [label for index in sorted(found) for label in found[index][2]] == batch.labels[
        "tokens"
    ].values.tolist()


@settings(max_examples=50, deadline=None)
@given(LENGTHS, st.integers(1, 8))
def test_parts_differ_by_one_example_and_one_length_at_most(lengths: list[int], num_parts: int) -> None:
    parts = batch_of(lengths).split(num_parts)
    assert len(parts) == min(num_parts, len(lengths))
    sizes = [part.num_examples for part in parts]
    tokens = [part.num_tokens for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(tokens) - min(tokens) <= max(lengths)
    assert all(list(part.lengths) == sorted(part.lengths) for part in parts)


def test_a_batch_counts_what_losses_are_divided_by() -> None:
    batch = batch_of([5, 4, 3])
    assert (batch.num_tokens, batch.num_examples, batch.num_labels("tokens")) == (12, 3, 3)
    labels = {"pairs": Labels(np.array([0, IGNORED, 1]))}
    batch = PretrainBatch(batch.ids, batch.segments, batch.lengths, labels)
    assert batch.num_labels("pairs") == 2
    assert [part.num_labels("pairs") for part in batch.split(3)] == [1, 0, 1]
    assert batch.num_labels("tokens") == 0


def test_an_example_longer_than_the_budget_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="longer than the budget"):
        fill_batches(np.array([5, 11], dtype=np.int32), 10)

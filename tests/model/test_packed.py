from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from glassbert.errors import UserError
from glassbert.model.layout import Batch
from glassbert.model.packed import batches_by_length, in_batches, pack, run


@dataclass
class Sequence:
    ids: list[int]
    segments: list[int]


def sequences(*lengths: int) -> list[Sequence]:
    return [Sequence(list(range(length)), [length % 2] * length) for length in lengths]


@given(st.lists(st.integers(1, 600), max_size=80), st.integers(1, 1000))
def test_every_sequence_is_in_exactly_one_batch(lengths: list[int], budget: int) -> None:
    batches = list(batches_by_length(lengths, budget))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    ordered = [lengths[index] for batch in batches for index in batch]
    assert ordered == sorted(ordered)
    assert all(batches)


def test_batches_share_the_tokens_evenly() -> None:
    sizes = [10 * len(batch) for batch in batches_by_length([10] * 250, 1000)]
    assert sizes == [1250, 1250]


@pytest.mark.parametrize(("num_tokens", "expected"), [(140, 1), (160, 2), (240, 2), (260, 3)])
def test_batches_are_about_as_large_as_the_budget(num_tokens: int, expected: int) -> None:
    assert len(list(batches_by_length([10] * (num_tokens // 10), 100))) == expected


@pytest.mark.parametrize(("workers", "expected"), [(1, 11), (2, 12), (4, 12), (12, 11)])
def test_workers_get_equally_many_batches_where_there_are_enough(workers: int, expected: int) -> None:
    assert len(list(batches_by_length([10] * 110, 100, num_workers=workers))) == expected


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 100))
def test_answers_come_in_the_order_of_the_lengths(lengths: list[int], budget: int) -> None:
    answers = in_batches(lambda indices: [lengths[i] for i in indices], lengths, batch_tokens=budget)
    assert answers == lengths


def test_a_run_gives_each_reader_its_own_sequences_without_gradients() -> None:
    given_sequences = sequences(5, 1, 3, 9, 2)
    weight = torch.ones(1, requires_grad=True)

    def network(batch: Batch) -> Tensor:
        return batch.ids * weight

    def read(output: Tensor, batch: Batch, chosen: list[Sequence]) -> list[tuple[float, int]]:
        assert not output.requires_grad
        parts = batch.layout.split(output)
        return [(part.sum().item(), len(one.ids)) for part, one in zip(parts, chosen, strict=True)]

    found = run(network, given_sequences, read, batch_tokens=6)
    assert found == [(sum(one.ids), len(one.ids)) for one in given_sequences]


def test_the_rows_of_a_tensor_come_back_as_arrays() -> None:
    found = run(
        lambda batch: batch.ids,
        sequences(2, 1),
        lambda ids, batch, _: torch.stack([part.float().sum() for part in batch.layout.split(ids)])[:, None],
    )
    assert [row.tolist() for row in found] == [[1.0], [0.0]]
    assert found[0].dtype == np.float32


def test_lists_and_arrays_are_packed_alike() -> None:
    lists = sequences(3, 2)
    arrays = [Sequence(np.array(s.ids, np.int32), np.array(s.segments, np.int8)) for s in lists]  # type: ignore[arg-type]
    for batch in (pack(lists), pack(arrays)):
        assert batch.ids.tolist() == [0, 1, 2, 0, 1]
        assert batch.segments.tolist() == [1, 1, 1, 0, 0]
        assert batch.layout.lengths == (3, 2)
        assert batch.ids.dtype == batch.segments.dtype == torch.int64


def test_a_run_gives_every_thread_of_torch_the_same_number_of_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    seen: list[int] = []

    def network(batch: Batch) -> Tensor:
        seen.append(len(batch.ids))
        return batch.ids

    run(network, sequences(*[10] * 110), lambda ids, batch, chosen: chosen, batch_tokens=100)
    assert len(seen) == 12


def test_a_batch_is_packed_on_its_device() -> None:
    batch = pack(sequences(3, 2), torch.device("meta"))
    assert batch.ids.is_meta
    assert batch.segments.is_meta


def test_an_empty_sequence_is_refused() -> None:
    with pytest.raises(UserError, match="sequence 1 of the batch has no tokens"):
        pack(sequences(3, 0))

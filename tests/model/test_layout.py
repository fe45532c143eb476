import pytest
import torch

from glassbert.errors import UserError
from glassbert.model.layout import Batch, EqualLengths, Layout, unpack


def test_each_token_knows_its_position_and_its_sequence() -> None:
    layout = Layout((2, 3, 1))
    assert layout.positions.tolist() == [0, 1, 0, 1, 2, 0]
    assert layout.owners.tolist() == [0, 0, 1, 1, 1, 2]
    assert layout.starts.tolist() == [0, 2, 5]


def test_neighbours_of_one_shape_form_one_run() -> None:
    assert Layout((3, 3, 5, 3)).runs() == [
        EqualLengths(2, 3, 3),
        EqualLengths(1, 5, 5),
        EqualLengths(1, 3, 3),
    ]


def test_runs_over_a_memory_part_where_either_length_changes() -> None:
    assert Layout((2, 2, 2)).runs(Layout((4, 4, 7))) == [EqualLengths(2, 2, 4), EqualLengths(1, 2, 7)]


def test_packing_keeps_real_tokens_only() -> None:
    ids = torch.tensor([[5, 6, 0], [7, 8, 9]])
    batch = Batch.from_padded(ids, torch.tensor([[1, 1, 0], [1, 1, 1]]))
    assert batch.ids.tolist() == [5, 6, 7, 8, 9]
    assert batch.layout == Layout((2, 3))


def test_unpacking_reverses_packing() -> None:
    ids = torch.tensor([[5, 6, 0], [7, 8, 9]])
    batch = Batch.from_padded(ids, ids > 0)
    assert torch.equal(unpack(batch.ids, batch.layout), ids)


def test_lists_and_padded_rows_pack_alike() -> None:
    padded = Batch.from_padded(torch.tensor([[5, 6, 0], [7, 8, 9]]), torch.tensor([[1, 1, 0], [1, 1, 1]]))
    listed = Batch.from_lists([[5, 6], [7, 8, 9]])
    assert torch.equal(padded.ids, listed.ids)
    assert padded.layout == listed.layout


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([[0, 1, 1]], "row 0 of the mask hides a token before a visible one"),
        ([[1, 0, 1]], "pad on the right"),
        ([[0, 0, 0]], "sequence 0 of the batch has no tokens"),
    ],
)
def test_a_mask_that_cannot_be_packed_is_refused(mask: list[list[int]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Batch.from_padded(torch.tensor([[5, 6, 7]]), torch.tensor(mask))


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="at least one"):
        Batch.from_lists([])

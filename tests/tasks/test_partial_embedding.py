import numpy as np
import pytest
import torch
from torch import nn

from glassbert.tasks.partial_embedding import PartlyTrainedEmbedding, used_rows, whole_table

ROWS = torch.tensor([1, 3, 4])


@pytest.fixture
def table() -> torch.Tensor:
    return torch.randn(6, 5, generator=torch.Generator().manual_seed(0))


def test_reached_rows_are_those_that_some_text_uses() -> None:
    texts = [np.array([3, 1], dtype=np.int32), np.array([4, 3], dtype=np.int32)]
    assert torch.equal(used_rows(texts, 6), ROWS)


@pytest.mark.parametrize("is_training", [True, False])
def test_lookups_and_gradients_are_those_of_the_plain_table(table: torch.Tensor, is_training: bool) -> None:
    plain, reached = (
        nn.Embedding.from_pretrained(table.clone(), freeze=False),
        PartlyTrainedEmbedding(table, ROWS),
    )
    reached.train(is_training)
    ids = torch.tensor([4, 1, 1, 3])
    weights = torch.arange(20.0).reshape(4, 5)
    for module in (plain, reached):
        (module(ids) * weights).sum().backward()
    assert torch.equal(reached(ids), plain(ids))
    assert torch.equal(reached.weight.grad, plain.weight.grad[ROWS])


def test_rows_that_training_never_meets_are_there_for_evaluation(table: torch.Tensor) -> None:
    reached = PartlyTrainedEmbedding(table, ROWS).eval()
    with torch.no_grad():
        reached.weight.add_(1.0)
    ids = torch.tensor([0, 1, 2, 5])
    assert torch.equal(reached(ids), table[ids] + torch.tensor([[0.0], [1.0], [0.0], [0.0]]))


def test_trained_rows_come_back_to_their_places(table: torch.Tensor) -> None:
    trained = table[ROWS] * 2
    whole = whole_table(trained, table, ROWS)
    assert torch.equal(whole[ROWS], trained)
    assert torch.equal(whole[[0, 2, 5]], table[[0, 2, 5]])

import pytest
import torch
from torch import nn

from glassbert.errors import UserError
from glassbert.training.muon import MATRIX_RATE, Muon, orthogonalised
from glassbert.training.settings import TrainSettings


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 8, 32), (2, 32, 8)])
def test_singular_values_end_near_one_and_singular_vectors_stay(shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    matrices = torch.randn(shape)
    u, values, v = torch.linalg.svd(matrices, full_matrices=False)
    found = orthogonalised(matrices)
    # In the frame of the old singular vectors nothing stands beside the diagonal.
    inside = u.mT @ found @ v.mT
    diagonal = inside.diagonal(dim1=1, dim2=2)
    assert (inside - torch.diag_embed(diagonal)).abs().max() < 1e-4
    strong = values > 0.1 * values.amax(dim=1, keepdim=True)
    assert ((diagonal > 0.6) & (diagonal < 1.3))[strong].all()


def two_parameters() -> tuple[nn.Parameter, nn.Parameter, Muon]:
    torch.manual_seed(1)
    matrix, vector = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(5))
    groups = [
        {"params": [matrix], "is_orthogonal": True, "weight_decay": 0.0},
        {"params": [vector], "is_orthogonal": False, "weight_decay": 0.0},
    ]
    return matrix, vector, Muon(groups, lr=0.01)


def test_matrices_move_by_the_orthogonal_gradient_first() -> None:
    matrix, _, optimizer = two_parameters()
    before, matrix.grad = matrix.detach().clone(), torch.randn(6, 4)
    gradient = matrix.grad.clone()
    optimizer.step()
    # Momentum and gradient point the same way at first; a tall matrix moves further.
    wanted = before - 0.01 * MATRIX_RATE * (6 / 4) ** 0.5 * orthogonalised(gradient[None])[0]
    assert torch.allclose(matrix, wanted, atol=1e-6)
    assert torch.equal(matrix.grad, gradient)


def test_everything_else_moves_by_adamw() -> None:
    matrix, vector, optimizer = two_parameters()
    twin = nn.Parameter(vector.detach().clone())
    plain = torch.optim.AdamW([twin], lr=0.01, weight_decay=0.0)
    for seed in range(3):
        torch.manual_seed(seed)
        vector.grad = torch.randn(5)
        twin.grad, matrix.grad = vector.grad.clone(), torch.randn(6, 4)
        optimizer.step()
        plain.step()
    assert torch.equal(vector, twin)


def test_sharded_matrices_are_refused() -> None:
    with pytest.raises(UserError, match="needs whole matrices"):
        TrainSettings(optimizer="muon", strategy="fsdp")

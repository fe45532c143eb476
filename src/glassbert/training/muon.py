"""Muon: matrices of the blocks move along their orthogonalised momentum; everything else is AdamW's.

The gradient of a weight matrix has a few strong directions, and AdamW follows them. With all singular values
set to one, weak directions are learned as well (Jordan et al., 2024, "Muon: an optimizer for hidden layers").
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

MOMENTUM = 0.95
MATRIX_RATE = 10.0
"""The learning rate of matrices relative to that of AdamW: their updates are smaller, number by number."""
# A quintic polynomial that, applied again and again, drives singular values towards one.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_NUM_ITERATIONS = 5


class Muon(torch.optim.AdamW):
    """AdamW, except for the groups with `is_orthogonal`, whose parameters are matrices."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update every parameter that has a gradient."""
        assert closure is None, "the engine computes the gradients"
        gradients = {
            parameter: parameter.grad
            for group in self.param_groups
            if group["is_orthogonal"]
            for parameter in group["params"]
            if parameter.grad is not None
        }
        for parameter in gradients:
            parameter.grad = None  # AdamW skips parameters without one
        super().step()
        for group in self.param_groups:
            if group["is_orthogonal"]:
                self._move(
                    [parameter for parameter in group["params"] if parameter in gradients], group, gradients
                )
        for parameter, gradient in gradients.items():
            parameter.grad = gradient

    def _move(
        self, matrices: Sequence[Tensor], group: dict[str, Any], gradients: dict[Tensor, Tensor]
    ) -> None:
        """Move the matrices of a group; matrices of one shape are orthogonalised together."""
        rate = group["lr"] * MATRIX_RATE
        by_shape: dict[torch.Size, list[Tensor]] = {}
        for matrix in matrices:
            by_shape.setdefault(matrix.shape, []).append(matrix)
        for (rows, columns), alike in by_shape.items():
            directions = orthogonalised(torch.stack([self._direction(p, gradients[p]) for p in alike]))
            scale = max(1.0, rows / columns) ** 0.5
            for matrix, direction in zip(alike, directions, strict=True):
                matrix.mul_(1.0 - rate * group["weight_decay"]).add_(direction, alpha=-rate * scale)

    def _direction(self, matrix: Tensor, gradient: Tensor) -> Tensor:
        """Add the gradient to the momentum; return where both point (Nesterov)."""
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        momentum: Tensor = state["momentum"].lerp_(gradient, 1.0 - MOMENTUM)
        return gradient.lerp(momentum, MOMENTUM)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return matrices, (n, rows, columns), with the same singular vectors and singular values near one."""
    if matrices.size(1) > matrices.size(2):
        return orthogonalised(matrices.mT).mT
    a, b, c = _COEFFICIENTS
    x = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-7)
    for _ in range(_NUM_ITERATIONS):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x

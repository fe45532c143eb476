"""Positions without a learned table: sinusoids and rotations.

Legend: T tokens, D features, N heads, H head size.
"""

from functools import lru_cache

import torch
from torch import Tensor

WAVELENGTH_BASE = 10000.0


@lru_cache(maxsize=8)
def sinusoids(num_positions: int, size: int) -> Tensor:
    """Return the Transformer's fixed position vectors, (num_positions, size).

    Even features are sines, odd ones cosines. Each pair turns at its own fixed speed, so the vector at
    pos + k is a rotation, a linear function, of the vector at pos.
    """
    angles = torch.arange(num_positions, dtype=torch.float64)[:, None] * frequencies(size)
    table = torch.empty(num_positions, size, dtype=torch.float64)
    table[:, 0::2] = angles.sin()
    table[:, 1::2] = angles.cos()[:, : size // 2]
    return table.float()


def turning(distance: int, size: int) -> Tensor:
    """Return the (size, size) matrix that turns the sinusoid at any position into the one ``distance`` on."""
    angles = distance * frequencies(size)
    cos, sin = angles.cos().float(), angles.sin().float()
    return torch.block_diag(*torch.stack([cos, sin, -sin, cos], dim=1).view(-1, 2, 2))


def rotate(x: Tensor, positions: Tensor, num_heads: int) -> Tensor:
    """Turn each head's feature pairs of ``x``, (T, D), by an angle that grows with the token's position.

    The dot product of a turned query and a turned key then depends on their distance alone.
    """
    heads = x.view(x.size(0), num_heads, -1)  # (T, N, H)
    first, second = heads.chunk(2, dim=-1)
    angles = (positions.to(x.device)[:, None].double() * frequencies(heads.size(-1)).to(x.device))[:, None, :]
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(1)


def frequencies(size: int) -> Tensor:
    return WAVELENGTH_BASE ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)

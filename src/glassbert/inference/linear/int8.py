"""int8 on the CPU: oneDNN's products of 8-bit integers, on plain tensors.

Weights have 7 bits and a scale for each output: with 8, processors without VNNI overflow silently while they
add up. Inputs have 8 bits and a scale for each token. Sums of integers are exact, so a token's numbers do not
depend on what else is in its batch.

Legend: T tokens, K inputs, N outputs, V rows of a table.
"""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from glassbert.model.linear import IN_PLACE, Linear
from glassbert.model.quantised import SMALLEST, quantised_rows

LARGEST_WEIGHT = 63
LARGEST_INPUT = 127
LARGEST_ROW = 127
"""Of the numbers in a table, which enter no product."""
LOWEST = {"gelu": -0.17, "gelu_new": -0.171, "relu": 0.0, "silu": -0.279}
"""A little below the smallest value of each activation."""
_ZERO = 128
"""The byte for 0 where inputs have both signs."""
_STEPS = 255
# Sums near this number have no room for fractions, so the sum is rounded, and its lowest byte is the result.
_ROUNDING = 2.0**23
# How many deviations from the mean a normalised feature is expected to reach.
_REACH = 4.0
# torch computes this many numbers in one step of its vector loops, and divides nothing shorter than the
# second number among threads. What is left over is computed one by one, which rounds functions differently.
_VECTOR_STEP = 32
_SHORTEST_SHARED = 32768


class Rows(NamedTuple):
    """Inputs of a product: number = scale * (byte - zero)."""

    bytes: Tensor
    """uint8, (T, K)."""
    scale: Tensor
    """float32, (T, 1)."""


class InputForm(nn.Module):
    """How layers that read the same input turn it into bytes."""

    def __init__(self, smoothing: Tensor | None = None, lowest: float | None = None) -> None:
        """Choose the form.

        Args:
            smoothing: Divides the features, (K,), so that the large ones take no bits from the others; the
                weights are multiplied by it.
            lowest: No input is below this, since an activation computed it and nobody else reads it: bytes
                then begin here, and the input is overwritten.
        """
        super().__init__()
        self.inverse = None if smoothing is None else smoothing.reciprocal()
        self.lowest = lowest
        self.zero = _ZERO if lowest is None else 0

    def forward(self, x: Tensor) -> Rows:
        """Return (T, K) as bytes."""
        if self.lowest is not None:
            x = x.sub_(self.lowest)
            scale = x.amax(1, keepdim=True).clamp_min_(SMALLEST).div_(_STEPS)
            return Rows(_rounded(x.mul_(scale.reciprocal())), scale)
        if self.inverse is not None:
            x = x * self.inverse
        peak = torch.maximum(x.amax(1, keepdim=True), x.amin(1, keepdim=True).neg_())
        scale = peak.clamp_min_(SMALLEST).div_(LARGEST_INPUT)
        factor = scale.reciprocal()
        return Rows(_rounded(x * factor if self.inverse is None else x.mul_(factor), _ZERO), scale)


def _rounded(x: Tensor, zero: int = 0) -> Tensor:
    """Return ``x + zero``, which lies in 0 to 255, as the nearest bytes; overwrites ``x``."""
    return x.add_(_ROUNDING + zero).view(torch.int32).to(torch.uint8)


class Int8Linear(nn.Module):
    """A `Linear` for inference only, in 8-bit integers."""

    def __init__(self, linear: Linear, form: InputForm | None = None) -> None:
        super().__init__()
        self.form = form or InputForm()
        weight = linear.weight.detach().float()
        if self.form.inverse is not None:
            weight = weight / self.form.inverse
        numbers, scale = quantised_rows(weight, LARGEST_WEIGHT)
        self.packed = torch.ops.onednn.qlinear_prepack(numbers, None)
        self.scale = scale[:, 0].contiguous()
        self.zeros = torch.zeros_like(self.scale, dtype=torch.int64)
        self.bias = None if linear.bias is None else linear.bias.detach().float()
        if self.form.lowest:  # bytes begin there, for every token alike
            shift = self.form.lowest * (numbers.double().sum(1) * self.scale.double()).float()
            self.bias = shift if self.bias is None else self.bias + shift

    def prepare(self, x: Tensor | Rows) -> Rows:
        """Return the input as bytes, which other layers of the same form take too."""
        if isinstance(x, Rows):
            return x
        rows: Rows = self.form(x)
        return rows

    def forward(
        self,
        x: Tensor | Rows,
        *,
        activation: str | None = None,
        dropout: float = 0.0,
        residual: Tensor | None = None,
    ) -> Tensor:
        """Map (T, K) to (T, N); ``dropout`` is for training and ignored here."""
        rows = self.prepare(x)
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            rows.bytes, 1.0, self.form.zero, self.packed, self.scale, self.zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        y.mul_(rows.scale)
        if self.bias is not None:
            y.add_(self.bias)
        if activation is not None:
            _activate(y, activation)
        return y if residual is None else y.add_(residual)


class Int8Embedding(nn.Module):
    """A table of vectors with 8 bits a number and a scale for each row."""

    def __init__(self, table: nn.Embedding) -> None:
        super().__init__()
        self.num_embeddings = table.num_embeddings
        self.numbers, self.scale = quantised_rows(table.weight.detach().float(), LARGEST_ROW)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of ``ids``, (T,), as (T, D)."""
        return self.numbers[ids].float().mul_(self.scale[ids])


def smoothing_of(norm: nn.LayerNorm, layers: list[Linear]) -> Tensor:
    """Return what the features of a LayerNorm are divided by before ``layers`` read them, (K,).

    A feature's gain and bias show how large it gets; no text is needed. The square root divides the range
    between inputs and weights.
    """
    reach = _REACH * norm.weight.detach().float().abs() + norm.bias.detach().float().abs()
    weight = torch.stack([layer.weight.detach().float().abs().amax(0) for layer in layers]).amax(0)
    ratio = (reach / weight).sqrt()
    return torch.where((ratio > SMALLEST) & ratio.isfinite(), ratio, 1.0)


def _activate(y: Tensor, activation: str) -> None:
    """Compute an activation in place; a token's result depends neither on its place nor on the threads."""
    width = y.size(1)
    if width % _VECTOR_STEP:
        rows = 1
    else:
        rows = len(y) if torch.get_num_threads() == 1 else max(1, _SHORTEST_SHARED // width)
    for part in y.split(max(1, rows)):
        IN_PLACE[activation](part)


@cache
@torch.inference_mode()
def is_available() -> bool:
    """Return whether torch has the product here, and it is exact."""
    if not torch.backends.mkldnn.is_available():
        return False
    weight = torch.full((32, 64), float(LARGEST_WEIGHT))
    try:
        plain = Linear(64, 32, bias=False, device="meta")
        plain.weight = nn.Parameter(weight)
        found = Int8Linear(plain, InputForm(lowest=0.0))(torch.full((3, 64), 255.0))
    except (AttributeError, NotImplementedError, RuntimeError):  # a build of torch without oneDNN's integers
        return False
    return bool((found == 255 * LARGEST_WEIGHT * 64).all())

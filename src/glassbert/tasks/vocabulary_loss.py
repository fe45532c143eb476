"""Cross-entropy over a large vocabulary that never holds all logits at once.

The logits of a step can take many times the memory of the model. Here a few rows at a time are computed,
turned into their gradient in place and used, so that only a small block of them exists at any moment.

Smoothed labels give each piece a share of the probability. The logits of all pieces then only enter by their
mean, which is a product of means, so smoothing needs no second pass over the logits.

Legend: M predictions, D features, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.model.tap import Tap

# Rows times vocabulary of a block: large enough for efficient products, small enough for the cache.
BLOCK_NUMBERS = 2**22


class _VocabularyLoss(torch.autograd.Function):
    """Forward computes the gradients too: the loss is a sum, so backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        should_learn = any(ctx.needs_input_grad)
        # Of a step in half precision only the products are narrow; sums over the vocabulary stay in float32.
        narrow = _precision_of_products(features) if should_learn else features.dtype
        narrow_weight = weight.to(narrow)
        grad_features = torch.empty_like(features) if should_learn else None
        grad_weight = torch.zeros_like(weight) if should_learn else None
        grad_bias = torch.zeros_like(bias) if should_learn else None
        loss = features.new_zeros((), dtype=torch.float64)
        sum_right = features.new_zeros((), dtype=torch.float64)
        num_correct = features.new_zeros((), dtype=torch.int64)
        rows = min(len(labels), max(1, BLOCK_NUMBERS // weight.size(0)))
        # One for all blocks: the system would hand out fresh memory of this size page by page, each time.
        buffer = features.new_empty(rows, weight.size(0))
        for start in range(0, len(labels), max(1, rows)):
            block, wanted = features[start : start + rows].to(narrow), labels[start : start + rows, None]
            logits = _product(block, narrow_weight.T, plus=bias, out=buffer[: len(block)])  # (rows, V)
            top = logits.amax(dim=1, keepdim=True)  # eight times as fast as `max`, which also finds its index
            right = logits.gather(1, wanted)
            num_correct += (right == top).sum()
            probs = logits.sub_(top).exp_()
            total = probs.sum(dim=1, keepdim=True)
            loss += (total.log() + top - right).sum(dtype=torch.float64)
            sum_right += right.sum(dtype=torch.float64)
            if grad_features is None or grad_weight is None or grad_bias is None:
                continue
            # d loss / d logits = softmax - (1 - smoothing) at the right piece; smoothing's mean follows below
            probs.div_(total).scatter_add_(1, wanted, probs.new_full(wanted.shape, smoothing - 1.0))
            grad_bias += probs.sum(dim=0)
            probs = probs.to(narrow)
            _product(probs, narrow_weight, out=grad_features[start : start + rows])
            _product(probs.T, block, plus=grad_weight, out=grad_weight)
        smoothed = loss
        if smoothing:
            feature_sum, mean_weight = features.sum(dim=0), weight.mean(dim=0)  # (D,) each
            sum_mean = feature_sum.double() @ mean_weight.double() + len(labels) * bias.mean().double()
            smoothed = loss + smoothing * (sum_right - sum_mean)
            if grad_features is not None and grad_weight is not None and grad_bias is not None:
                grad_features -= smoothing * mean_weight
                grad_weight -= smoothing / len(weight) * feature_sum
                grad_bias -= smoothing / len(weight) * len(labels)
        if should_learn:
            ctx.save_for_backward(grad_features, grad_weight, grad_bias)
        plain = loss.to(features.dtype)
        ctx.mark_non_differentiable(plain, num_correct)
        return smoothed.to(features.dtype), plain, num_correct

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor, *_: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None]:
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        return grad_features * grad_loss, grad_weight * grad_loss, grad_bias * grad_loss, None, None


def _product(a: Tensor, b: Tensor, *, plus: Tensor | None = None, out: Tensor) -> Tensor:
    """Write ``a b + plus`` to ``out``, whose precision may be higher than that of ``a`` and ``b``."""
    if a.dtype == out.dtype:
        return torch.mm(a, b, out=out) if plus is None else torch.addmm(plus, a, b, out=out)
    product = a @ b  # torch cannot multiply into a higher precision on the CPU
    if plus is out:
        return out.add_(product.to(out.dtype))  # sums of two precisions are slow there, copies are not
    out.copy_(product)
    return out if plus is None else out.add_(plus)


def _precision_of_products(features: Tensor) -> torch.dtype:
    """Return the precision that autocast asks for, or that of ``features``."""
    device = features.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else features.dtype


def vocabulary_loss(
    features: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, tap: Tap | None = None
) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropies and how many predictions are right.

    Args:
        features: (M, D), what the MLM head gives to its decoder.
        weight: (V, D) and bias: (V,), the decoder.
        labels: (M,), the right pieces.
        tap: Sees all logits, (M, V), which then exist at once.
    """
    loss, _, num_correct = smoothed_vocabulary_loss(features, weight, bias, labels, 0.0, tap)
    return loss, num_correct


def smoothed_vocabulary_loss(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    labels: Tensor,
    smoothing: float,
    tap: Tap | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sums of the smoothed and of the plain cross-entropies, and how many predictions are right.

    Only the first can be differentiated; the second is for display. The arguments are those of
    `vocabulary_loss`.

    Args:
        smoothing: Probability that is taken from the right piece and spread over all pieces.
    """
    if tap:
        logits = tap("logits", F.linear(features.float(), weight, bias))
        loss = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        plain = F.cross_entropy(logits.detach(), labels, reduction="sum")
        return loss, plain, (logits.argmax(dim=1) == labels).sum()
    # Sums over a vocabulary are kept in full precision, whatever the rest of the model computes in.
    return _VocabularyLoss.apply(features.float(), weight, bias, labels, smoothing)

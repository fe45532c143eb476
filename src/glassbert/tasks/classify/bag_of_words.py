"""A bag of words: TF-IDF of words and character n-grams, and a linear model. A network should beat it.

The features and the loss are those of scikit-learn's TfidfVectorizer and LogisticRegression, with hashes in
place of a vocabulary.

Legend: R rows, K features that are kept, C outputs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert.data.examples import Kind
from glassbert.tasks.classify.ngrams import BITS, Counts, character_counts, word_counts

MAX_ROWS = 50_000
"""Rows to learn from; of more, an even choice."""
# Weights of the linear model: with many labels, rare features go first.
_MAX_WEIGHTS = 1 << 24
_MAX_UPDATES = 100


def bag_of_words(
    train: Sequence[str], gold: NDArray[np.float32], test: Sequence[str], kind: Kind, num_outputs: int
) -> NDArray[np.float64]:
    """Learn from some texts and return the logits of others, (R, C); of a regression, their scores.

    Args:
        gold: Class numbers or scores, (R, 1), or zeros and ones, (R, C).
        num_outputs: C.
    """
    chosen = np.unique(np.linspace(0, len(train) - 1, min(len(train), MAX_ROWS)).astype(np.int64))
    texts, targets = [train[row] for row in chosen], torch.from_numpy(gold[chosen])
    # Of two classes one output is enough: the other's is its opposite.
    has_one = kind == "single" and num_outputs == 2
    width = 1 if has_one else num_outputs
    counted = (word_counts(texts), character_counts(texts))
    blocks = [Block.fitted(one, len(texts), _MAX_WEIGHTS // (len(counted) * width)) for one in counted]
    learned = Features.of(blocks, counted, len(texts))
    weights, bias = fit(learned, _loss(targets, "multi" if has_one else kind), width)
    unseen = Features.of(blocks, (word_counts(test), character_counts(test)), len(test))
    outputs = (unseen.product(weights) + bias).double().numpy()
    if kind == "regression":
        return outputs * float(targets.std()) + float(targets.mean())
    return np.concatenate((np.zeros_like(outputs), outputs), axis=1) if has_one else outputs


@dataclass(frozen=True)
class Block:
    """The features of one kind and how informative each is."""

    columns: NDArray[np.int64]
    """The column of each hashed feature, -1 if it is not kept."""
    weights: NDArray[np.float32]
    """The inverse document frequency of each column, (K,)."""

    @classmethod
    def fitted(cls, counts: Counts, num_rows: int, max_features: int) -> "Block":
        """Keep the features of the training rows, the most frequent if there are too many."""
        in_rows = np.bincount(counts.features, minlength=1 << BITS)
        found = np.flatnonzero(in_rows)
        order = np.argsort(-in_rows[found], kind="stable")[:max_features]
        kept = np.sort(found[order])
        columns = np.full(1 << BITS, -1, dtype=np.int64)
        columns[kept] = np.arange(len(kept))
        weights = np.log((1 + num_rows) / (1 + in_rows[kept])) + 1
        return cls(columns, weights.astype(np.float32))

    def entries(
        self, counts: Counts, num_rows: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Return row, column and value of each feature; the values of a row have norm 1."""
        columns = self.columns[counts.features]
        is_kept = columns >= 0
        rows, columns = counts.rows[is_kept], columns[is_kept]
        values = counts.values[is_kept] * self.weights[columns]
        norms = np.sqrt(np.bincount(rows, weights=values**2, minlength=num_rows))
        return rows, columns, (values / norms[rows]).astype(np.float32)


@dataclass(frozen=True)
class Features:
    """The features of all rows, (R, K): a sparse matrix, row by row."""

    columns: Tensor
    values: Tensor
    starts: Tensor
    """Where each row begins, (R,)."""
    width: int
    """K."""

    @classmethod
    def of(cls, blocks: Sequence[Block], counts: Sequence[Counts], num_rows: int) -> "Features":
        """Put the features of all blocks side by side."""
        parts, width = [], 0
        for block, of_block in zip(blocks, counts, strict=True):
            rows, columns, values = block.entries(of_block, num_rows)
            parts.append((rows, columns + width, values))
            width += len(block.weights)
        rows, columns, values = (np.concatenate(part) for part in zip(*parts, strict=True))
        return cls._sorted(rows, columns, values, (num_rows, width))

    @classmethod
    def _sorted(
        cls,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64],
        values: NDArray[np.float32],
        shape: tuple[int, int],
    ) -> "Features":
        order = np.argsort(rows, kind="stable")
        ends = np.cumsum(np.bincount(rows, minlength=shape[0]))
        starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
        columns_of, values_of, starts_of = map(torch.from_numpy, (columns[order], values[order], starts))
        return cls(columns_of, values_of, starts_of, shape[1])

    def turned(self) -> "Features":
        """Return the transposed matrix, (K, R)."""
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.columns)]))
        rows = torch.repeat_interleave(torch.arange(len(self.starts)), sizes)
        shape = (self.width, len(self.starts))
        return self._sorted(self.columns.numpy(), rows.numpy(), self.values.numpy(), shape)

    def product(self, matrix: Tensor) -> Tensor:
        """Return this matrix times another, (K, C): as bags of its rows, which torch sums fast."""
        if not len(self.columns):
            return matrix.new_zeros(len(self.starts), matrix.shape[1])
        return F.embedding_bag(self.columns, matrix, self.starts, mode="sum", per_sample_weights=self.values)


Loss = Callable[[Tensor], Tensor]
"""Returns the summed loss of outputs, (R, C)."""


def _loss(gold: Tensor, kind: Kind) -> Loss:
    """Return the loss to minimise."""
    if kind == "regression":
        scores = (gold - gold.mean()) / gold.std().clamp_min(1e-12)
        return lambda outputs: 0.5 * (outputs - scores).square().sum()
    if kind == "multi":
        return lambda outputs: F.binary_cross_entropy_with_logits(outputs, gold, reduction="sum")
    classes = gold[:, 0].long()
    return lambda outputs: F.cross_entropy(outputs, classes, reduction="sum")


def fit(features: Features, loss: Loss, num_outputs: int) -> tuple[Tensor, Tensor]:
    """Return weights, (K, C), and bias, (C,), with the smallest loss plus half the squared weights."""
    num_rows, turned = len(features.starts), features.turned()
    weights = torch.zeros(features.width, num_outputs, dtype=torch.float32, requires_grad=True)
    bias = torch.zeros(num_outputs, dtype=torch.float32, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weights, bias],
        max_iter=_MAX_UPDATES,
        tolerance_grad=1e-5,
        tolerance_change=1e-7,
        history_size=8,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        outputs = (features.product(weights.detach()) + bias.detach()).requires_grad_()
        with torch.enable_grad():
            total = loss(outputs)
        [gradient] = torch.autograd.grad(total, outputs)
        weights.grad = (turned.product(gradient) + weights.detach()) / num_rows
        bias.grad = gradient.sum(dim=0) / num_rows
        return float(total.detach() + 0.5 * weights.detach().square().sum()) / num_rows

    optimizer.step(closure)
    return weights.detach(), bias.detach()

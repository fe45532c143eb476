"""Integrated gradients (Sundararajan et al. 2017): the way from a text without content to the text itself.

The token vectors go in a straight line from the baseline to the text; positions and segments stay. The value
of a token is its difference times the mean gradient on the way. The values of all tokens should add up to the
difference of the two scores: what is missing is the completeness gap.

Legend: V places on the way, T tokens of the item, D hidden size.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.glassbox.why.explanation import MAX_GAP, Completeness
from glassbert.glassbox.why.subject import Subject
from glassbert.glassbox.why.variants import in_parts, network_of
from glassbert.inference.model import Model
from glassbert.inference.questions import Baseline
from glassbert.model.bert import Bert
from glassbert.progress import each
from glassbert.ranges import Steps
from glassbert.typed import typed

FIRST_STEPS, MAX_STEPS = 32, 512
"""Where the number of steps is not given, it doubles until the parts add up."""


class _Given(nn.Module):
    """Replaces a table of token vectors: gives every token of a batch its own vector."""

    def __init__(self, vectors: Tensor, num_embeddings: int) -> None:
        super().__init__()
        self.vectors, self.num_embeddings = vectors, num_embeddings

    def forward(self, ids: Tensor) -> Tensor:
        """Return the vectors of all tokens, (V * T, D)."""
        return self.vectors


class _Way:
    """The straight line from the baseline to the text, and the network's answer along it."""

    def __init__(self, model: Model, subject: Subject, baseline: Baseline) -> None:
        self.subject, self.network = subject, network_of(model)
        self.device, self.num_rows = model.device, model.config.encoder.vocab_size
        table = self.network.encoder.embeddings.token.weight
        ids = torch.from_numpy(subject.all_ids).to(self.device, torch.int64)
        self.text = table[ids]  # (T, D)
        self.start = self.text.clone()
        changed = [place for token in subject.tokens if not token.is_fixed for place in subject.flat(token)]
        self.start[changed] = baseline_vector(model, table, baseline)

    def scores(self, shares: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
        """Return the score at places on the way, (V,), and the token vectors there, (V, T, D)."""
        at = torch.from_numpy(shares).to(self.start)[:, None, None]
        vectors = (self.start + at * (self.text - self.start)).requires_grad_()
        _put(self.network, _Given(vectors.flatten(0, 1), self.num_rows))
        batch = self.subject.pack([self.subject.all_ids] * len(shares), self.device)
        places = self.subject.places(len(shares), self.device)
        output = self.network(batch, predict_at=places, heads_only=True)
        return self.subject.numbers(output, len(shares)), vectors

    def ends(self) -> tuple[float, float]:
        """Return the scores of the baseline and of the text."""
        with torch.no_grad():
            start, text = self.scores(np.array([0.0, 1.0]))[0].tolist()
        return start, text

    def attributions(self, steps: int) -> NDArray[np.float64]:
        """Return the value of each token of all inputs, (T,)."""
        nodes, weights = np.polynomial.legendre.leggauss(steps)  # exact for polynomials up to 2 steps - 1
        shares, weights = (nodes + 1) / 2, weights / 2
        mean = torch.zeros_like(self.start)
        for part in each(in_parts(steps, self.subject.num_tokens)):
            found, vectors = self.scores(shares[part.start : part.stop])
            (gradient,) = torch.autograd.grad(found.sum(), vectors)
            mean += torch.einsum(
                "v,vtd->td", torch.from_numpy(weights[part.start : part.stop]).to(mean), gradient
            )
        return ((self.text - self.start) * mean).sum(dim=1).double().cpu().numpy()


def integrated_gradients(
    model: Model, subject: Subject, *, baseline: Baseline, steps: int | None
) -> tuple[NDArray[np.float64], float, Completeness]:
    """Return the value of each token of all inputs, (T,), the score, and whether the values add up to it.

    Args:
        steps: Gradients to take; as many as it needs to add up, within limits, when not given.
    """
    typed(steps, Steps | None, "steps")
    way = _Way(model, subject, baseline)
    start, score = way.ends()
    number = steps or FIRST_STEPS
    while True:
        values = way.attributions(number)
        gap = _gap(float(values.sum()), score - start)
        if steps is not None or gap <= MAX_GAP or 2 * number > MAX_STEPS:
            return values, score, Completeness(baseline, start, number, gap)
        number *= 2


def baseline_vector(model: Model, table: Tensor, baseline: Baseline) -> Tensor:
    """Return the token vector of the baseline, (D,)."""
    if baseline == "zero":
        return torch.zeros_like(table[0])
    vocabulary = model.tokenizer.vocabulary
    return table[vocabulary.mask_id if baseline == "mask" else vocabulary.pad_id]


def _gap(total: float, difference: float) -> float:
    missing = abs(total - difference)
    if missing < 1e-6:  # both are zero up to rounding
        return 0.0
    return missing / abs(difference) if difference else float("inf")


def _put(network: Bert, table: nn.Module) -> None:
    setattr(network.encoder.embeddings, "token", table)  # noqa: B010 - it only looks like an nn.Embedding

"""One item in many variants through a network, in batches.

Legend: V variants, T tokens of one variant.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.glassbox.twin import twin
from glassbert.glassbox.why.subject import Subject
from glassbert.inference.model import Model
from glassbert.model.bert import Bert, Output
from glassbert.model.packed import BATCH_TOKENS
from glassbert.model.tap import Sink, Tap


def scores(model: Model, subject: Subject, variants: Sequence[NDArray[np.int32]]) -> NDArray[np.float64]:
    """Return the number that is explained for each variant of the ids, (V,), by the fast path."""
    engine = model.engine

    def work(numbers: range) -> Tensor:
        batch = subject.pack([variants[number] for number in numbers], engine.device)
        output = engine(batch, predict_at=subject.places(len(numbers), engine.device), heads_only=True)
        return subject.numbers(output, len(numbers))

    found = list(engine.each(work, in_parts(len(variants), subject.num_tokens)))
    return torch.cat(found).double().cpu().numpy()


def in_parts(num_variants: int, num_tokens: int) -> list[range]:
    """Return the numbers of the variants that go through a network together."""
    size = max(1, BATCH_TOKENS // num_tokens)
    return [range(first, min(first + size, num_variants)) for first in range(0, num_variants, size)]


def network_of(model: Model) -> Bert:
    """Return the model's network in float32 on its device, which one call may change."""
    return twin(model.network, model.device, torch.float32)


@torch.no_grad()
def glass_pass(network: Bert, subject: Subject, num_variants: int, sink: Sink) -> Output:
    """Run copies of the item by the glass path; ``sink`` sees and may change every intermediate."""
    device = next(network.parameters()).device
    batch = subject.pack([subject.all_ids] * num_variants, device)
    return network(batch, predict_at=subject.places(num_variants, device), tap=Tap(sink))

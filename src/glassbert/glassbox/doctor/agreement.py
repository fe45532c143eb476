"""Checks that one input has one answer: by the fast path and by the formula, alone and in a batch, padded."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from glassbert.config import LstmConfig
from glassbert.glassbox.doctor.probes import Probe, still
from glassbert.glassbox.doctor.verdict import NO_ADVICE, Verdict
from glassbert.inference.devices import PrecisionName
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from glassbert.model.torch_state import own_generator
from glassbert.sentence import Sentence

TOLERANCES: dict[PrecisionName, float] = {"float32": 1e-3, "bfloat16": 0.1, "int8": 0.25}
"""How far two ways to compute may be apart, as a share of the largest number."""
HIGH_DROPOUT = 0.5


@torch.no_grad()
def check_agreement(model: Model | Translator, probe: Probe) -> Iterator[Verdict]:
    """Yield the verdicts on one model."""
    network, limit = still(model.network), TOLERANCES[model.precision]
    fast = model.engine if isinstance(model, Model) else network
    together = probe.run(fast, probe.batch())
    if not all(torch.isfinite(one).all() for one in together):
        yield Verdict(
            "answers",
            "fault",
            Sentence("not a number on the probe"),
            Sentence("see the verdict on its numbers above"),
        )
        return
    shown = probe.run(network, probe.batch(), Tap(lambda name, value: value))
    yield _judged(
        "fast=formula",
        together,
        shown,
        limit,
        Sentence("the fast path and the formula"),
        Sentence("use --precision float32; report it"),
    )
    alone = [probe.run(fast, probe.batch([one]))[0] for one in probe.ids]
    advice = Sentence("do not trust answers of a batch; report it")
    limit = 0.0 if model.precision == "int8" and isinstance(model, Model) else limit  # the same bits
    yield _judged("batch=single", together, alone, limit, Sentence("a batch and single texts"), advice)
    yield _padding(probe, fast, together, limit)
    yield _training(model, probe)


def _judged(
    check: str,
    some: Sequence[Tensor],
    others: Sequence[Tensor],
    limit: float,
    what: Sentence,
    advice: Sentence,
) -> Verdict:
    apart = _distance(some, others)
    finding = Sentence("{what} differ by {apart:.1e} of the largest number", what=what, apart=apart)
    is_good = apart <= limit
    return Verdict(check, "ok" if is_good else "fault", finding, NO_ADVICE if is_good else advice)


def _distance(some: Sequence[Tensor], others: Sequence[Tensor]) -> float:
    """Return the largest difference, as a share of the largest number."""
    pairs = list(zip(some, others, strict=True))
    largest = max(float(one.abs().max()) for one, _ in pairs)
    return max(float((one - other).abs().max()) for one, other in pairs) / max(largest, 1e-12)


def _padding(probe: Probe, fast: Any, together: Sequence[Tensor], limit: float) -> Verdict:
    """Compare rectangles whose padding holds different ids."""
    length = len(probe.longest)
    mask = torch.tensor([[place < len(one) for place in range(length)] for one in probe.ids])
    answers = []
    for filling in (0, probe.longest[-2]):
        ids = torch.tensor([[*one, *[filling] * (length - len(one))] for one in probe.ids])
        answers.append(probe.run(fast, Batch.from_padded(ids, mask)))
    apart = max(_distance(together, one) for one in answers)
    finding = Sentence(
        "what follows a text in its batch changes its answer by {apart:.1e} of the largest number",
        apart=apart,
    )
    if apart <= limit:
        return Verdict("padding", "ok", finding)
    return Verdict("padding", "fault", finding, Sentence("check which tokens the mask hides; report it"))


def _training(model: Model | Translator, probe: Probe) -> Verdict:
    """Compare passes with and without dropout; those without must agree."""
    config = model.network.config
    shape = config if isinstance(config, LstmConfig) else config.encoder
    probability = float(getattr(shape, "hidden_dropout_prob", 0.0))
    network = still(model.network)
    once, again = (probe.run(network, probe.batch()) for _ in range(2))
    if _distance(once, again) > 1e-6:
        advice = Sentence("something random is on outside of training; report it")
        return Verdict("train/eval", "fault", Sentence("two passes without dropout differ"), advice)
    with own_generator():
        torch.manual_seed(0)
        dropped = probe.run(network.train(), probe.batch())
    mean = sum(float((a - b).abs().mean()) for a, b in zip(once, dropped, strict=True))
    usual = sum(float(one.abs().mean()) for one in once)
    figure = Sentence(
        "dropout {probability:g} changes outputs by {share:.0%}; without it they repeat",
        probability=probability,
        share=mean / max(usual, 1e-12),
    )
    if model.network.training:
        finding = Sentence("the network is in training mode; {figure}", figure=figure)
        return Verdict("train/eval", "warn", finding, Sentence("call network.eval()"))
    if probability >= HIGH_DROPOUT:
        advice = Sentence("so much dropout leaves little to learn from")
        return Verdict("train/eval", "warn", figure, advice)
    return Verdict("train/eval", "ok", figure)

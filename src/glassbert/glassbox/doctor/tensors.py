"""Checks of the stored numbers, tensor by tensor: they need no network, so a damaged folder gets them too."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.glassbox.doctor.verdict import State, Verdict, named
from glassbert.interop.family import Config, Family
from glassbert.interop.names import nearest
from glassbert.model.init import tied_names, without_values
from glassbert.sentence import Sentence

LARGEST = 1e3
"""No weight of a trained encoder is anywhere near it."""
# The deviation of a normal distribution cut at two deviations, as BERT's weights start.
_CUT = 0.8796
_SIGMAS = 5.0


@dataclass(frozen=True, slots=True)
class Facts:
    """What one tensor is like."""

    name: str
    """In the file."""
    ours: str | None
    """In our network; None if it has no such tensor."""
    shape: tuple[int, ...]
    num_bad: int
    """Numbers that are NaN or infinite."""
    mean: float
    deviation: float
    peak: float
    """The largest absolute value."""
    low: float
    """The smallest value."""

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def is_all(self, value: float) -> bool:
        """Return whether every number is ``value``."""
        return self.count > 0 and not self.num_bad and self.low == value == self.mean and self.deviation == 0


def facts_of(tensors: Iterable[tuple[str, Tensor]], family: Family[Any] | None) -> Iterator[Facts]:
    """Yield the facts of each tensor of a file; one at a time is in memory."""
    for name, tensor in tensors:
        if family is not None and family.is_buffer(name):
            continue
        values = tensor.double()
        is_finite = torch.isfinite(values)
        good = values[is_finite]
        yield Facts(
            name=name,
            ours=None if family is None else family.to_ours(name),
            shape=tuple(tensor.shape),
            num_bad=int((~is_finite).sum()),
            mean=float(good.mean()) if len(good) else 0.0,
            deviation=float(good.std(correction=0)) if len(good) else 0.0,
            peak=float(good.abs().max()) if len(good) else 0.0,
            low=float(good.min()) if len(good) else 0.0,
        )


def check_names(facts: list[Facts], family: Family[Any], config: Config) -> Iterator[Verdict]:
    """Compare the tensors of a file with those of the network that its config.json describes."""
    plan = without_values(family.network_class(config), config)
    tied = tied_names(plan)
    expected = {name: tuple(value.shape) for name, value in plan.state_dict().items()}
    found = {one.ours: one for one in facts if one.ours is not None}
    missing = [family.to_theirs(name) for name in expected if name not in found and name not in tied]
    if "output.bias" in expected:
        missing = [name for name in missing if name != "final_logits_bias"]  # some files leave out zeros
    spare = [one.name for one in facts if one.ours is None or one.ours not in expected]
    if missing:
        guess = nearest(missing[0], spare)
        finding = Sentence("{count} missing: {names}", count=len(missing), names=named(missing))
        if guess:
            finding = Sentence("{figure} (the file has {guess})", figure=finding, guess=guess)
        advice = Sentence("the weights do not fit config.json; copy both again")
        yield Verdict("tensors", "fault", finding, advice)
    if spare:
        state: State = "warn" if family.may_hold_more else "fault"
        finding = Sentence("{count} unexpected: {names}", count=len(spare), names=named(spare))
        yield Verdict("tensors", state, finding, Sentence("they are not used"))
    wrong = [
        Sentence("{name} {found} instead of {wanted}", name=one.name, found=one.shape, wanted=expected[name])
        for name, one in found.items()
        if name in expected and math.prod(one.shape) != math.prod(expected[name])
    ]
    if wrong:
        yield Verdict(
            "shapes",
            "fault",
            Sentence("{count} wrong: {names}", count=len(wrong), names=named(wrong)),
            Sentence("config.json is another model's; copy both"),
        )
    if not missing and not wrong:
        count = len(expected) - len(tied)
        yield Verdict("tensors", "ok", Sentence("{count} of {count} as expected", count=count))


def check_numbers(facts: list[Facts]) -> Iterator[Verdict]:
    """Look for numbers that are NaN or infinite, far too large, or all the same."""
    bad = [one for one in facts if one.num_bad]
    if bad:
        finding = Sentence(
            "{count:,} NaN or infinite in {names}",
            count=sum(one.num_bad for one in bad),
            names=named([one.name for one in bad]),
        )
        advice = Sentence("take an earlier checkpoint; the run diverged or the file is damaged")
        yield Verdict("numbers", "fault", finding, advice)
    large = [f"{one.name} {one.peak:.3g}" for one in facts if one.peak > LARGEST]
    if large:
        finding = Sentence("very large: {names}", names=named(large))
        yield Verdict("numbers", "warn", finding, Sentence("half precision overflows above 65,504"))
    blank = [one.name for one in facts if len(one.shape) > 1 and min(one.shape) > 1 and one.deviation == 0]
    if blank:
        finding = Sentence("all the same in {names}", names=named(blank))
        yield Verdict("numbers", "fault", finding, Sentence("load the weights again"))
    if not (bad or large or blank):
        largest = max((one.peak for one in facts), default=0.0)
        yield Verdict("numbers", "ok", Sentence("all finite, the largest {largest:.3g}", largest=largest))


def check_trained(facts: list[Facts], config: Config) -> Verdict:
    """Look for layers that still hold what they were initialised with."""
    layers: dict[str, dict[str, Facts]] = defaultdict(dict)
    for one in facts:
        if one.ours is not None:
            layer, _, kind = one.ours.rpartition(".")
            layers[layer][kind] = one
    std = config.encoder.initializer_range if isinstance(config, ModelConfig) else None
    judged = {name: _is_initial(parts, std) for name, parts in layers.items() if len(parts) == 2}
    fresh = [name for name, is_initial in judged.items() if is_initial]
    if not fresh:
        finding = Sentence("none of {count} layers is still as initialised", count=len(judged))
        return Verdict("trained", "ok", finding)
    if len(fresh) == len(judged):
        finding = Sentence("no layer has been trained: a fresh model")
        return Verdict("trained", "warn", finding, Sentence("train it"))
    unused = _unused(fresh, config)
    heavy = [name for name in _heavy(fresh, judged) if name not in unused]
    return Verdict(
        "trained",
        "fault" if heavy else "warn",
        Sentence(
            "{count} of {total} layers are still as initialised: {names}",
            count=len(fresh),
            total=len(judged),
            names=named(heavy or fresh),
        ),
        Sentence("fine-tune it, or load the weights that belong there")
        if heavy
        else Sentence("fine if nothing uses them"),
    )


def _is_initial(parts: Mapping[str, Facts], std: float | None) -> bool:
    """Return whether a layer is as it is drawn: biases zero, LayerNorm one, matrices random of one size.

    A bias that is exactly zero is the surest sign: the first step of training changes it.
    """
    bias, weight = parts["bias"], parts["weight"]
    if not bias.is_all(0.0):
        return False
    if len(weight.shape) == 1:
        return weight.is_all(1.0)
    glorot = math.sqrt(2 / sum(weight.shape))
    sizes = (glorot,) if std is None else (std, _CUT * std)
    margin = _SIGMAS / math.sqrt(2 * weight.count) + 2e-3
    is_centred = abs(weight.mean) < _SIGMAS * max(sizes) / math.sqrt(weight.count)
    return is_centred and any(abs(weight.deviation / size - 1) < margin for size in sizes)


def _heavy(fresh: list[str], judged: Mapping[str, bool]) -> list[str]:
    """Return the fresh layers that break a model: those of a head, and blocks that are fresh as a whole."""
    heavy = [name for name in fresh if ".blocks." not in name and "embeddings" not in name]
    blocks = defaultdict(list)
    for name in judged:
        if ".blocks." in name:
            side, number = name.split(".blocks.")[0], name.split(".blocks.")[1].split(".")[0]
            blocks[f"{side}.blocks.{number}"].append(name)
    return heavy + [block for block, own in blocks.items() if all(judged[name] for name in own)]


def _unused(fresh: list[str], config: Config) -> set[str]:
    """Return the fresh layers that no head reads."""
    has_reader = isinstance(config, ModelConfig) and config.head not in ("none", "mlm", "tag", "answer")
    return set() if has_reader else {name for name in fresh if name.startswith("pooler.")}

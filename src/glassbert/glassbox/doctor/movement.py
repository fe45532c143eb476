"""What fine-tuning changed: a model compared with the one it started from."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from glassbert.glassbox.doctor.verdict import State, Verdict, named
from glassbert.inference.loaded import Loaded
from glassbert.sentence import Sentence

UNRELATED = 0.05
"""Cosine of two matrices below which nothing is left of the old one, however far training went."""


def check_movement(model: Loaded[Any], base: Loaded[Any]) -> Iterator[Verdict]:
    """Yield how far the tensors of a model are from those of its base."""
    ours, theirs = model.network.state_dict(), base.network.state_dict()
    shared = [name for name in ours if name in theirs and ours[name].shape == theirs[name].shape]
    other = [name for name in ours if name in theirs and name not in shared]
    if not shared:
        finding = Sentence("no tensor has the base's shape: {names}", names=named(other or list(ours)))
        yield Verdict("base", "fault", finding, Sentence("name the model that it was trained from"))
        return
    moved = {name: _moved(ours[name], theirs[name]) for name in shared}
    matrices = [name for name in shared if ours[name].dim() > 1] or shared
    typical = float(torch.tensor([moved[name] for name in matrices]).median())
    kinship = float(torch.tensor([_cosine(ours[name], theirs[name]) for name in matrices]).median())
    still = [name for name in shared if moved[name] == 0.0]
    groups = ", ".join(f"{group} {share:.1%}" for group, share in _by_group(moved, ours).items())
    if len(still) == len(shared):
        finding = Sentence("none of {count} tensors moved", count=len(shared))
        has_own = len(shared) < len(ours)  # such as a head that was trained on a frozen encoder
        state: State = "warn" if has_own else "fault"
        advice = Sentence("the encoder was frozen, or this is the base itself")
        yield Verdict("base", state, finding, advice)
        return
    if kinship < UNRELATED:
        finding = Sentence(
            "the matrices of both have a cosine of {cosine:.3f}: nothing is left of the base", cosine=kinship
        )
        yield Verdict("base", "fault", finding, Sentence("this is not the model that it was trained from"))
        return
    finding = Sentence("moved by {share:.2%} of their size: {groups}", share=typical, groups=groups)
    yield Verdict("base", "ok", finding)
    if still:
        finding = Sentence(
            "{count} of {total} tensors never moved: {names}",
            count=len(still),
            total=len(shared),
            names=named(still),
        )
        advice = Sentence("fine if they were frozen or nothing reads them")
        yield Verdict("never moved", "warn", finding, advice)
    if other:
        finding = Sentence("of another shape: {names}", names=named(other))
        yield Verdict("base", "warn", finding, Sentence("fine if the vocabulary was extended"))


def _moved(new: Tensor, old: Tensor) -> float:
    """Return the distance of two tensors as a share of the old one's size."""
    distance = float((new.double() - old.double()).norm())
    return distance / max(float(old.double().norm()), 1e-12) if distance else 0.0


def _cosine(new: Tensor, old: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(new.double().flatten(), old.double().flatten(), dim=0))


def _by_group(moved: dict[str, float], tensors: dict[str, Tensor]) -> dict[str, float]:
    """Return how far each layer moved: the mean over its matrices."""
    found = defaultdict(list)
    for name, share in moved.items():
        if tensors[name].dim() > 1:
            found[_group(name)].append(share)
    return {group: sum(shares) / len(shares) for group, shares in found.items()}


def _group(name: str) -> str:
    """Return the layer that a tensor belongs to: the embeddings, a block, or a head."""
    side, *rest = name.split(".")
    if "embeddings" in name:
        return "embeddings"
    return f"{side} {rest[1]}" if rest[0] == "blocks" else side

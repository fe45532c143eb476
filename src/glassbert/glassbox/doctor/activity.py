"""Checks of what flows through a network: dead units, heads that look everywhere or at one token.

Legend: T tokens, I intermediate size, B sequences, N heads, Q and K tokens of a query and a key sequence.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import Tensor

from glassbert.glassbox.doctor.probes import Probe, still
from glassbert.glassbox.doctor.verdict import State, Verdict, named
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.model.tap import Tap
from glassbert.sentence import Sentence

UNIFORM, SATURATED = 0.999, 0.02
"""Mean entropy as a share of the largest: above the first a head looks everywhere, below the second at one
token."""
EXACTLY_UNIFORM = 1 - 1e-6
SILENT = 1e-3
"""A unit that never exceeds this share of its layer's usual size is dead."""
MOST_DEAD, SOME_DEAD = 0.5, 0.1
_PROBS = re.compile(r"(?P<head>(?:dec\.|enc\.)\d+\.(?P<kind>attn|cross))\.(?:run\d+\.)?probs")
_UNITS = re.compile(r"(?P<layer>(?:dec\.|enc\.)\d+)\.mlp\.(?:act|gated)")


class Activity:
    """What a pass shows of units and heads; a sink for a tap."""

    def __init__(self) -> None:
        self.largest: dict[str, Tensor] = {}
        """For each layer, how far each unit goes, (I,)."""
        self.entropy: dict[str, list[Tensor]] = defaultdict(list)
        """For each attention, the entropy of each row as a share of the largest possible, (rows, N)."""

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if match := _UNITS.fullmatch(name):
            self.largest[match["layer"]] = value.abs().amax(dim=0)  # a gated value follows its activation
        if match := _PROBS.fullmatch(name):
            is_causal = name.startswith("dec.") and match["kind"] == "attn"
            self.entropy[match["head"]].append(_relative_entropy(value, is_causal=is_causal))
        return value


def _relative_entropy(probs: Tensor, *, is_causal: bool) -> Tensor:
    """Return the entropy of each row of (B, N, Q, K) over that of an even row, (rows, N).

    Rows that see a single token are left out.
    """
    entropy = torch.special.entr(probs.double()).sum(dim=-1)  # (B, N, Q)
    num_queries, num_keys = probs.shape[-2:]
    visible = torch.arange(1, num_queries + 1) if is_causal else torch.full((num_queries,), num_keys)
    several = visible > 1
    share = entropy[..., several] / visible[several].double().log()
    return share.transpose(1, 2).flatten(0, 1)


@torch.no_grad()
def check_activity(model: Model | Translator, probe: Probe) -> Iterator[Verdict]:
    """Yield the verdicts on units and heads."""
    seen = Activity()
    probe.run(still(model.network), probe.batch(), Tap(seen))
    if seen.largest:
        yield _units(seen)
    if seen.entropy:
        yield _heads(seen)


def _units(seen: Activity) -> Verdict:
    shares = {}
    for layer, largest in seen.largest.items():
        usual = float(largest.median())
        shares[layer] = float((largest <= max(SILENT * usual, 1e-6)).double().mean())
    dead = [f"{layer} {share:.0%}" for layer, share in shares.items() if share >= SOME_DEAD]
    mean = sum(shares.values()) / len(shares)
    if not dead:
        finding = Sentence("{share:.1%} of the feed-forward units are silent on the probe", share=mean)
        return Verdict("units", "ok", finding)
    state: State = "fault" if max(shares.values()) >= MOST_DEAD else "warn"
    return Verdict(
        "units",
        state,
        Sentence("dead feed-forward units: {layers}", layers=named(dead)),
        Sentence("train with a lower rate, or from earlier weights"),
    )


def _heads(seen: Activity) -> Verdict:
    means = {name: torch.cat(rows).mean(dim=0) for name, rows in seen.entropy.items() if len(torch.cat(rows))}
    if not means:
        return Verdict("heads", "skipped", Sentence("the probe is too short to see where heads look"))
    heads = torch.cat(list(means.values()))
    blind = [name for name, entropy in means.items() if (entropy > UNIFORM).all()]
    stuck = [name for name, entropy in means.items() if (entropy < SATURATED).all()]
    is_exact = all((means[name] > EXACTLY_UNIFORM).all() for name in blind)
    num_uniform, num_saturated = int((heads > UNIFORM).sum()), int((heads < SATURATED).sum())
    figure = Sentence(
        "{num_uniform} uniform and {num_saturated} saturated of {num_heads}",
        num_uniform=num_uniform,
        num_saturated=num_saturated,
        num_heads=len(heads),
    )
    if stuck:
        finding = Sentence(
            "every head looks at one token in {layers}; {figure}", layers=named(stuck), figure=figure
        )
        advice = Sentence("queries or keys are far too large: take earlier weights")
        return Verdict("heads", "fault", finding, advice)
    if blind and (is_exact or len(blind) < len(means)):
        finding = Sentence(
            "every head looks everywhere in {layers}; {figure}", layers=named(blind), figure=figure
        )
        advice = Sentence("queries and keys may not have been loaded: compare the names of the tensors")
        return Verdict("heads", "fault", finding, advice)
    if blind or num_saturated > len(heads) / 2:
        advice = Sentence("usual for a fresh model only") if blind else Sentence("look at them")
        return Verdict("heads", "warn", figure, advice)
    mean = float(heads.mean())
    finding = Sentence("{figure}; mean entropy {mean:.0%} of the largest", figure=figure, mean=mean)
    return Verdict("heads", "ok", finding)

from itertools import product

import pytest
import torch
from torch import Tensor

from glassbert.model.crf import FORBIDDEN, SCALE, Chains, Crf, log_partition, path_score
from glassbert.model.layout import Layout

LENGTHS = (4, 3, 3, 1)
NUM_TAGS = 3


def make_chains(generator: torch.Generator, *, are_whole: bool) -> Chains:
    whole = torch.ones(len(LENGTHS), dtype=torch.bool)
    cut = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    return Chains(
        torch.randint(NUM_TAGS, (sum(LENGTHS),), generator=generator),
        Layout(LENGTHS),
        *((whole, whole) if are_whole else cut),
    )


def score(emissions: Tensor, tags: tuple[int, ...], transitions: Tensor, *, start: bool, end: bool) -> float:
    """Return what one path scores, by the definition."""
    total = sum(float(emissions[piece, tag]) for piece, tag in enumerate(tags))
    total += sum(float(transitions[a, b]) for a, b in zip(tags, tags[1:], strict=False))
    total += float(transitions[NUM_TAGS, tags[0]]) if start else 0.0
    return total + (float(transitions[tags[-1], NUM_TAGS]) if end else 0.0)


@pytest.mark.parametrize("are_whole", [True, False])
def test_partition_and_path_are_those_of_trying_every_path(are_whole: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    emissions = torch.randn(sum(LENGTHS), NUM_TAGS, generator=generator)
    transitions = torch.randn(NUM_TAGS + 1, NUM_TAGS + 1, generator=generator)
    chains = make_chains(generator, are_whole=are_whole)
    partition, right = 0.0, 0.0
    parts = zip(
        chains.layout.split(emissions),
        chains.layout.split(chains.tags),
        chains.has_start.tolist(),
        chains.has_end.tolist(),
        strict=True,
    )
    for part, tags, start, end in parts:
        paths = [
            score(part, path, transitions, start=start, end=end)
            for path in product(range(NUM_TAGS), repeat=len(part))
        ]
        partition += torch.tensor(paths).logsumexp(dim=0).item()
        right += score(part, tuple(tags.tolist()), transitions, start=start, end=end)
    assert log_partition(emissions, chains, transitions).item() == pytest.approx(partition, abs=1e-5)
    assert path_score(emissions, chains, transitions).item() == pytest.approx(right, abs=1e-5)


def test_without_transitions_and_rules_it_is_plain_cross_entropy() -> None:
    generator = torch.Generator().manual_seed(1)
    logits = 5 * torch.randn(sum(LENGTHS), NUM_TAGS, generator=generator)
    chains = make_chains(generator, are_whole=True)
    legal = torch.ones(NUM_TAGS + 1, NUM_TAGS + 1, dtype=torch.bool)
    loss = Crf(NUM_TAGS)(logits, chains, legal)
    torch.testing.assert_close(loss, torch.nn.functional.cross_entropy(logits, chains.tags, reduction="sum"))


def test_gradients_reach_logits_and_transitions_and_are_numbers_where_steps_are_forbidden() -> None:
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(sum(LENGTHS), NUM_TAGS, generator=generator).requires_grad_()
    chains = Chains(
        torch.zeros(sum(LENGTHS), dtype=torch.int64), Layout(LENGTHS), *[torch.ones(4).bool()] * 2
    )
    legal = torch.ones(NUM_TAGS + 1, NUM_TAGS + 1, dtype=torch.bool)
    legal[:, 2] = False  # nothing can come before tag 2
    crf = Crf(NUM_TAGS)
    loss = crf(logits, chains, legal)
    loss.backward()
    assert 0 < loss.item() < 100
    assert crf.weight.grad is not None
    assert torch.isfinite(crf.weight.grad).all()
    assert crf.weight.grad[0, 0] < 0  # more of 0 after 0 makes the right path likelier
    assert crf.weight.grad[0, 2] == 0  # what is forbidden is not learned
    assert logits.grad is not None
    assert (logits.grad[:, 0] < 0).all()


def test_what_is_forbidden_outweighs_any_logits() -> None:
    logits = torch.zeros(2, 2)
    logits[1, 1] = 300.0
    legal = torch.ones(3, 3, dtype=torch.bool)
    legal[:, 1] = False
    chains = Chains(torch.zeros(2, dtype=torch.int64), Layout((2,)), *[torch.ones(1).bool()] * 2)
    assert Crf(2)(logits, chains, legal).item() == pytest.approx(0.0, abs=1e-3)
    assert FORBIDDEN < -10 * 300


def test_the_weight_is_worth_its_scale() -> None:
    crf = Crf(2)
    torch.nn.init.constant_(crf.weight, 0.1)
    torch.testing.assert_close(crf.transitions(), torch.full((3, 3), 0.1 * SCALE))

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.inference import next_tokens
from glassbert.inference.next_tokens import GROUP_SIZE, likeliest, sampled, top


@settings(deadline=None, max_examples=80)
@given(
    num_columns=st.integers(1, 40 * GROUP_SIZE),
    width=st.integers(1, 4),
    count=st.integers(1, 8),
    num_values=st.sampled_from([3, 10**6]),
    seed=st.integers(0, 2**30),
)
def test_the_largest_by_groups_are_the_largest(
    num_columns: int, width: int, count: int, num_values: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(num_values, (3, width, num_columns), generator=generator).float()
    scores = torch.randint(num_values, (3, width), generator=generator).float()
    totals = (rows + scores[:, :, None]).flatten(1)
    count = min(count, totals.size(1))
    values, places = top(rows, scores, count)
    assert torch.equal(values, totals.topk(count, dim=1).values)
    assert torch.equal(values, totals.gather(1, places))
    assert all(len(set(row)) == count for row in places.tolist())


def test_no_more_come_than_there_are() -> None:
    assert top(torch.zeros(2, 3, 4), torch.zeros(2, 3), 20)[1].sort().values.tolist() == [[*range(12)]] * 2


def test_the_best_do_not_depend_on_the_blocks_they_are_searched_in(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, scores = torch.randn(7, 3, 50, generator=generator), torch.randn(7, 3, generator=generator)
    whole = likeliest(logits, scores, 6)
    monkeypatch.setattr(next_tokens, "BLOCK_NUMBERS", 2 * 3 * 50)
    parts = likeliest(logits, scores, 6)
    for name in ("ids", "parents", "scores"):
        assert torch.equal(getattr(whole, name), getattr(parts, name)), name


def test_the_best_candidates_come_from_all_hypotheses() -> None:
    logits = torch.tensor([[[0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]]).log() + 2.0
    scores = torch.tensor([[0.6, 0.4]]).log()
    found = likeliest(logits, scores, 4)
    # 0.4 * 0.8, 0.6 * 0.5, 0.6 * 0.3, 0.6 * 0.2
    assert found.ids.tolist() == [[0, 0, 1, 2]]
    assert found.parents.tolist() == [[1, 0, 0, 0]]
    torch.testing.assert_close(found.scores.exp(), torch.tensor([[0.32, 0.30, 0.18, 0.12]]))


PROBS = torch.tensor([0.1, 0.4, 0.2, 0.3])


def shares(**options: object) -> list[float]:
    """Return how often each token is drawn when chance reaches everywhere once."""
    num_draws = 10_000
    chances = (torch.arange(num_draws, dtype=torch.float64) + 0.5) / num_draws
    settings_ = {"temperature": 1.0, "top_k": None, "top_p": 1.0} | options
    rows = PROBS.log().expand(num_draws, 1, -1)
    found = sampled(rows, torch.zeros(num_draws, 1), chances, **settings_)  # type: ignore[arg-type]
    torch.testing.assert_close(found.scores.exp(), PROBS[found.ids])
    return (torch.bincount(found.ids[:, 0], minlength=4) / num_draws).tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"temperature": 0.5}, [0.01 / 0.3, 0.16 / 0.3, 0.04 / 0.3, 0.09 / 0.3]),
        ({"top_k": 2}, [0.0, 4 / 7, 0.0, 3 / 7]),
        ({"top_k": 100}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.399}, [0.0, 1.0, 0.0, 0.0]),
        ({"top_p": 0.5}, [0.0, 4 / 7, 0.0, 3 / 7]),
        ({"top_p": 1e-9}, [0.0, 1.0, 0.0, 0.0]),
        ({"top_k": 3, "top_p": 0.7}, [0.0, 4 / 7, 0.0, 3 / 7]),
    ],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(
    options: dict[str, object], expected: list[float]
) -> None:
    assert shares(**options) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("chance", [0.0, 1.0 - 2.0**-53])
def test_the_outermost_chances_draw_tokens_that_may_be_drawn(chance: float) -> None:
    num_rows = 2000
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(num_rows, 1, 7, generator=generator)
    logits[:, :, 3] = -torch.inf
    chances = torch.full((num_rows,), chance, dtype=torch.float64)
    found = sampled(logits, torch.zeros(num_rows, 1), chances, temperature=1.0, top_k=None, top_p=0.8)
    rows = logits.log_softmax(dim=-1)
    ranks = (rows[:, 0] > found.scores).sum(dim=1)
    if chance == 0.0:
        assert (ranks == 0).all()
        return
    # The last token that stays is the first with which the likeliest reach top_p.
    heap = rows[:, 0].exp().sort(dim=1, descending=True).values.cumsum(dim=1)
    assert torch.equal(ranks, (heap < 0.8).sum(dim=1))

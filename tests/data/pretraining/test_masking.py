from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.pretraining.masking import Masker, Masking, maskable
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.errors import UserError
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from helpers.corpora import VOCABULARY

FIRST_WORD = VOCABULARY.id("w0")
SPECIAL_IDS = np.array(VOCABULARY.special_ids)
LENGTHS = st.lists(st.integers(3, 12), min_size=1, max_size=12)


class Masked(NamedTuple):
    """What a masker returned."""

    ids: np.ndarray
    predict_at: np.ndarray
    labels: np.ndarray


def packed(lengths: list[int]) -> tuple[np.ndarray, Packing]:
    """Return examples that begin with [CLS], end with [SEP] and hold an [UNK] here and there."""
    sizes = np.array(lengths)
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    ids = FIRST_WORD + np.arange(total) * 7 % 400
    ids[::50] = VOCABULARY.unk_id
    ids[ends - sizes] = VOCABULARY.cls_id
    ids[ends - 1] = VOCABULARY.sep_id
    starts = np.arange(total) % 3 != 1
    starts[ends - sizes] = starts[ends - 1] = True
    starts[ends - sizes + 1] = True
    owners = np.repeat(np.arange(len(sizes)), sizes)
    examples = 100 + np.arange(len(sizes))
    return ids, Packing(ends - sizes, owners, examples, np.zeros(len(sizes), dtype=int), lambda: starts)


def mask(ids: np.ndarray, packing: Packing, seed: int = 1, epoch: int = 0, **options: Any) -> Masked:
    found, labels = Masker(VOCABULARY)(ids, packing, Moment(seed, epoch, 0, None), Masking(**options))
    assert labels.places is not None
    return Masked(found, labels.places, labels.values)


@pytest.fixture(scope="module", params=[False, True], ids=["tokens", "whole words"])
def million(request: pytest.FixtureRequest) -> tuple[np.ndarray, Masked]:
    """Batches with over 1,000,000 chosen tokens, as the ids before and after."""
    ids, packing = packed([128] * 54_000)
    return ids, mask(ids, packing, whole_words=request.param)


def test_15_percent_are_chosen_and_80_10_10_become_mask_random_and_themselves(
    million: tuple[np.ndarray, Masked],
) -> None:
    ids, masked = million
    assert len(masked.predict_at) > 1_000_000
    num_maskable = np.count_nonzero(~np.isin(ids, SPECIAL_IDS))
    assert len(masked.predict_at) / num_maskable == pytest.approx(0.15, abs=0.001)
    seen = masked.ids[masked.predict_at]
    is_hidden = seen == VOCABULARY.mask_id
    is_kept = seen == masked.labels
    # One draw in as many as there are words is the token itself.
    num_words = len(VOCABULARY) - len(SPECIAL_IDS) - 20
    assert is_hidden.mean() == pytest.approx(0.8, abs=0.002)
    assert is_kept.mean() == pytest.approx(0.1 + 0.1 / num_words, abs=0.002)
    assert (~is_hidden & ~is_kept).mean() == pytest.approx(0.1 - 0.1 / num_words, abs=0.002)


def test_no_special_token_is_chosen_or_drawn_and_no_unused_one(million: tuple[np.ndarray, Masked]) -> None:
    ids, masked = million
    assert not np.isin(masked.labels, SPECIAL_IDS).any()
    drawn = masked.ids[masked.ids != ids]
    drawn = drawn[drawn != VOCABULARY.mask_id]
    assert set(drawn.tolist()) == set(range(FIRST_WORD, len(VOCABULARY)))  # each of the others is
    counts = np.bincount(drawn)[FIRST_WORD:]
    assert counts.min() > 0.6 * counts.mean()


def test_what_is_not_chosen_stays_and_the_input_is_left_untouched() -> None:
    ids, packing = packed([30] * 20)
    before = ids.copy()
    masked = mask(ids, packing)
    assert np.array_equal(ids, before)
    rest = np.setdiff1d(np.arange(len(ids)), masked.predict_at)
    assert np.array_equal(masked.ids[rest], ids[rest])
    assert np.array_equal(masked.labels, ids[masked.predict_at])


@pytest.mark.parametrize("whole_words", [False, True])
@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32), select_prob=st.sampled_from([1e-9, 0.15, 1.0]))
def test_each_example_with_a_word_has_a_prediction(
    whole_words: bool, lengths: list[int], seed: int, select_prob: float
) -> None:
    ids, packing = packed(lengths)
    masked = mask(ids, packing, seed, select_prob=select_prob, whole_words=whole_words)
    has_words = {int(owner) for owner in packing.owners[~np.isin(ids, SPECIAL_IDS)]}
    assert {int(owner) for owner in packing.owners[masked.predict_at]} == has_words
    if select_prob < 0.1 and not whole_words:
        assert len(masked.predict_at) == len(has_words)
    if select_prob == 1:
        assert np.array_equal(masked.predict_at, np.flatnonzero(~np.isin(ids, SPECIAL_IDS)))


@settings(max_examples=50, deadline=None)
@given(lengths=LENGTHS, seed=st.integers(0, 2**32))
def test_the_tokens_of_a_word_share_choice_and_fate(lengths: list[int], seed: int) -> None:
    ids, packing = packed(lengths)
    masked = mask(ids, packing, seed, whole_words=True, select_prob=0.5, mask_prob=0.5, random_prob=0.0)
    words = np.cumsum(packing.word_starts())
    is_chosen = np.zeros(len(ids), dtype=bool)
    is_chosen[masked.predict_at] = True
    for word in np.unique(words):
        of_word = (words == word) & ~np.isin(ids, SPECIAL_IDS)
        assert len(set(is_chosen[of_word])) <= 1
        assert len(set((masked.ids == VOCABULARY.mask_id)[of_word])) <= 1


def test_replaced_tokens_of_one_word_are_drawn_one_by_one() -> None:
    ids, packing = packed([40] * 20)
    masked = mask(ids, packing, whole_words=True, select_prob=1.0, mask_prob=0.0, random_prob=1.0)
    assert len(np.unique(masked.ids[masked.predict_at])) > 300


def test_the_fate_of_a_token_does_not_depend_on_what_it_is_batched_with() -> None:
    ids, packing = packed([20, 30, 25])
    whole = mask(ids, packing)
    owners = np.zeros(30, dtype=np.int64)
    one = Packing(np.array([0]), owners, packing.examples[1:2], packing.pair_labels[1:2], packing.word_starts)
    alone = mask(ids[20:50], one)
    assert np.array_equal(alone.ids, whole.ids[20:50])


@pytest.mark.parametrize(("seed", "epoch"), [(1, 1), (2, 0)])
def test_no_two_epochs_or_seeds_are_alike(seed: int, epoch: int) -> None:
    ids, packing = packed([128] * 1000)
    first, again, other = mask(ids, packing), mask(ids, packing), mask(ids, packing, seed, epoch)
    assert np.array_equal(first.ids, again.ids)
    both = np.intersect1d(first.predict_at, other.predict_at)
    # Choices of two epochs are independent: 15 in 100 of those chosen once are chosen again.
    assert len(both) / len(first.predict_at) == pytest.approx(0.15, abs=0.01)


def test_rates_can_be_set() -> None:
    ids, packing = packed([128] * 4000)
    masked = mask(ids, packing, select_prob=0.3, mask_prob=0.5, random_prob=0.5)
    num_maskable = np.count_nonzero(~np.isin(ids, SPECIAL_IDS))
    assert len(masked.predict_at) / num_maskable == pytest.approx(0.3, abs=0.003)
    seen = masked.ids[masked.predict_at]
    assert (seen == VOCABULARY.mask_id).mean() == pytest.approx(0.5, abs=0.005)
    assert (seen == masked.labels).mean() < 0.005


def test_a_rate_that_falls_is_met_at_each_moment() -> None:
    ids, packing = packed([128] * 2000)
    num_maskable = np.count_nonzero(~np.isin(ids, SPECIAL_IDS))
    masking = Masking(select_prob=0.3, final_select_prob=0.15)
    for step, rate in ((0, 0.3), (50, 0.225), (100, 0.15)):
        now = masking.at(Moment(seed=1, epoch=0, step=step, num_steps=100))
        _, labels = Masker(VOCABULARY)(ids, packing, Moment(1, 0, step, 100), now)
        assert len(labels.values) / num_maskable == pytest.approx(rate, abs=0.004)
    assert masking.mean_select_prob == pytest.approx(0.225)


def test_a_rate_that_stays_needs_no_end_of_the_run_and_one_that_falls_does() -> None:
    clocked = Moment(seed=1, epoch=0, step=3, num_steps=None)
    assert Masking().at(clocked) == Masking()
    with pytest.raises(UserError, match=r"set train\.steps or train\.epochs"):
        Masking(final_select_prob=0.1).at(clocked)


def test_what_may_be_masked_is_all_but_the_specials() -> None:
    assert np.flatnonzero(~maskable(VOCABULARY)).tolist() == sorted(VOCABULARY.special_ids)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"select_prob": 0.0}, "select_prob=0.0"),
        ({"select_prob": 1.5}, "select_prob=1.5"),
        (
            {"final_select_prob": 0.0},
            "mask.final_select_prob=0.0; expected a number of more than 0 and at most 1",
        ),
        (
            {"final_select_prob": 1.2},
            "mask.final_select_prob=1.2; expected a number of more than 0 and at most 1",
        ),
        ({"mask_prob": 0.95}, "mask_prob=0.95 and random_prob=0.1"),
        ({"random_prob": -0.1}, "random_prob=-0.1"),
    ],
)
def test_impossible_rates_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Masking(**options)


def test_a_vocabulary_without_words_is_refused() -> None:
    with pytest.raises(UserError, match="no token to draw"):
        Masker(Vocabulary((*SPECIALS, "[unused0]")))

import random

import numpy as np
import pytest

from glassbert.data import pair_batches
from glassbert.data.pair_batches import (
    EncodedPairs,
    Sentences,
    TranslateBatch,
    TranslateObjective,
    encode_pairs,
)
from glassbert.data.sentence_pairs import SentencePair
from glassbert.errors import DataError, UserError
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.tokenizer import SubwordTokenizer

START, END = 0, 1


@pytest.fixture(scope="module")
def tokenizer() -> SubwordTokenizer:
    return learn_subwords(
        ["the boat is here", "el barco es el"], SubwordSettings(size=280, min_count=1)
    ).tokenizer


def sentences(texts: list[list[int]]) -> Sentences:
    return Sentences(
        np.array([id_ for text in texts for id_ in text], dtype=np.int32),
        np.cumsum([len(text) for text in texts]),
    )


def random_pairs(count: int, seed: int = 0) -> EncodedPairs:
    """Return pairs whose ids tell which pair they belong to."""
    generator = random.Random(seed)
    sources = [[10 + pair] * generator.randrange(1, 12) for pair in range(count)]
    targets = [
        [10_000 + pair] * max(1, len(s) + generator.randrange(-2, 3)) for pair, s in enumerate(sources)
    ]
    return EncodedPairs(sentences(sources), sentences(targets), START, END)


def test_a_batch_is_packed_with_starts_and_ends() -> None:
    pairs = EncodedPairs(sentences([[5, 6, 7], [8], [9, 9]]), sentences([[3], [4, 4], []]), START, END)
    batch = TranslateBatch.of(pairs, np.array([0, 1, 2]))
    assert batch.members.tolist() == [1, 2, 0]
    assert (batch.source_lengths, batch.target_lengths) == ((2, 3, 4), (3, 1, 2))
    assert batch.source_ids().tolist() == [8, END, 9, 9, END, 5, 6, 7, END]
    assert batch.target_ids().tolist() == [START, 4, 4, START, START, 3]
    assert batch.labels().tolist() == [4, 4, END, END, 3, END]
    assert (batch.num_tokens, batch.num_target_tokens) == (15, 6)


def test_parts_of_a_batch_hold_each_pair_once_and_nearly_as_many_tokens() -> None:
    batch = TranslateBatch.of(random_pairs(50), np.arange(50))
    parts = batch.split(3)
    assert sorted(np.concatenate([part.members for part in parts]).tolist()) == list(range(50))
    sizes = [part.num_tokens for part in parts]
    assert max(sizes) - min(sizes) < 30
    for part in parts:
        same = TranslateBatch.of(part.pairs, part.members)
        assert np.array_equal(part.source_ids(), same.source_ids())
        assert np.array_equal(part.labels(), same.labels())
    assert len(batch.split(99)) == 50


def test_an_epoch_holds_each_pair_once_and_keeps_the_budget() -> None:
    objective = TranslateObjective(random_pairs(400), batch_tokens=200, seed=3)
    for epoch in range(2):
        first = sum(objective.epochs.num_batches(number) for number in range(epoch))
        batches = [objective.batch(first + index) for index in range(objective.epochs.num_batches(epoch))]
        assert sorted(member for batch in batches for member in batch.members.tolist()) == list(range(400))
        assert max(batch.num_tokens for batch in batches) <= 200
        assert min(batch.num_tokens for batch in batches) > 80


def test_batches_depend_on_seed_epoch_and_step_alone() -> None:
    pairs = random_pairs(200)
    one, other = (TranslateObjective(pairs, batch_tokens=200, seed=1) for _ in range(2))
    steps = [7, 0, 55, 3]
    wanted = {step: one.batch(step).members.tolist() for step in steps}
    assert {step: other.batch(step).members.tolist() for step in reversed(steps)} == wanted
    different = TranslateObjective(pairs, batch_tokens=200, seed=2)
    assert different.batch(0).members.tolist() != wanted[0]
    num_batches = [one.epochs.num_batches(epoch) for epoch in range(2)]
    first, second = (
        {frozenset(one.batch(start + index).members.tolist()) for index in range(count)}
        for start, count in ((0, num_batches[0]), (num_batches[0], num_batches[1]))
    )
    assert len(first & second) < len(first) / 2, "an epoch is to bring other pairs together"


def test_neighbours_in_a_batch_have_equal_shapes() -> None:
    objective = TranslateObjective(random_pairs(2000), batch_tokens=400, seed=0)
    num_batches = objective.epochs.num_batches(0)
    lengths = [objective.batch(step).source_lengths for step in range(num_batches)]
    assert np.mean([len(set(batch)) for batch in lengths]) < 4
    # Yet long and short batches take turns.
    steps = np.diff([batch[0] for batch in lengths])
    assert 0.3 < np.mean(steps < 0) < 0.7


def test_texts_are_encoded_and_what_is_too_long_is_counted(tokenizer: SubwordTokenizer) -> None:
    rows = [
        SentencePair("the boat", "el barco", 1),
        SentencePair("the " * 30, "el", 2),
        SentencePair("is", "es " * 30, 3),
        SentencePair("here", "es", 4),
    ]
    pairs = encode_pairs(rows, tokenizer, max_length=20)
    assert (len(pairs), pairs.num_too_long) == (2, 2)
    assert tokenizer.decode(pairs.sources[0]) == "the boat"
    assert tokenizer.decode(pairs.targets[1]) == "es"
    assert (pairs.start_id, pairs.end_id) == (tokenizer.pad_id, tokenizer.end_id)


def test_a_pair_of_exactly_the_longest_length_stays(tokenizer: SubwordTokenizer) -> None:
    length = len(tokenizer.ids_of("the boat")) + 1
    assert len(encode_pairs([SentencePair("the boat", "el", 1)], tokenizer, max_length=length)) == 1
    with pytest.raises(DataError, match="all 1 have more than"):
        encode_pairs([SentencePair("the boat", "el", 1)], tokenizer, max_length=length - 1)


def test_pairs_are_encoded_in_chunks(tokenizer: SubwordTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SentencePair("boat " * (index % 4 + 1), "barco", index) for index in range(10)]
    whole = encode_pairs(rows, tokenizer, max_length=50)
    monkeypatch.setattr(pair_batches, "_CHUNK_PAIRS", 3)
    parts = encode_pairs(iter(rows), tokenizer, max_length=50)
    assert np.array_equal(whole.sources.ids, parts.sources.ids)
    assert np.array_equal(whole.targets.ends, parts.targets.ends)


def test_no_pairs_are_refused(tokenizer: SubwordTokenizer) -> None:
    with pytest.raises(DataError, match="got none"):
        encode_pairs([], tokenizer, max_length=50)


def test_a_budget_below_the_longest_pair_is_refused() -> None:
    with pytest.raises(UserError, match=r"batch_tokens=10 is less than the \d+ tokens of the longest pair"):
        TranslateObjective(random_pairs(50), batch_tokens=10, seed=0)

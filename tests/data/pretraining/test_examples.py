import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.pretraining.examples import (
    FLIPPED,
    KEPT,
    NO_PAIR,
    Arrangement,
    Drafts,
    EpochPlan,
    Examples,
    RandomPairs,
    Singles,
    SwappedPairs,
    draft_epoch,
    kept_lengths,
    plan_epoch,
)
from glassbert.data.pretraining.outline import Outline
from glassbert.errors import DataError, UserError
from helpers.corpora import MemoryCorpus, memory_corpus, wiki_corpus

SINGLES, RANDOM, SWAPPED = Singles(), RandomPairs(), SwappedPairs()
DOCUMENTS = st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=9), min_size=2, max_size=7)
MAX_LENGTHS = st.integers(8, 40)


def planned(
    documents: list[list[int]] | MemoryCorpus,
    epoch: int = 0,
    *,
    arrangement: Arrangement = RANDOM,
    max_length: int = 128,
    short_prob: float = 0.1,
    seed: int = 1,
) -> tuple[Outline, Drafts, Examples]:
    corpus = memory_corpus(documents) if isinstance(documents, list) else documents
    room = max_length - 1 - arrangement.num_texts
    outline = Outline.from_ends(
        corpus.sentence_ends, corpus.document_ends, room=room, source_ends=corpus.source_ends
    )
    plan = EpochPlan(outline, room, short_prob, seed, epoch)
    return outline, draft_epoch(arrangement, plan), plan_epoch(arrangement, plan)


def document_of(outline: Outline, sentence: np.ndarray) -> np.ndarray:
    return np.searchsorted(outline.document_borders, sentence, side="right") - 1


def bert_truncates(num_a: int, num_b: int, room: int) -> tuple[int, int]:
    """The loop as published: one token at a time from the longer text, from B when they are equal."""
    while num_a + num_b > room:
        if num_a > num_b:
            num_a -= 1
        else:
            num_b -= 1
    return num_a, num_b


@given(st.integers(0, 200), st.integers(0, 200), st.integers(2, 130))
@settings(max_examples=300, deadline=None)
def test_kept_lengths_are_those_of_the_loop_of_bert(num_a: int, num_b: int, room: int) -> None:
    kept = kept_lengths(np.array([num_a]), np.array([num_b]), room)
    assert (int(kept[0][0]), int(kept[1][0])) == bert_truncates(num_a, num_b, room)


@pytest.mark.parametrize("arrangement", [SINGLES, RANDOM, SWAPPED])
@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, max_length=MAX_LENGTHS, epoch=st.integers(0, 3))
def test_every_sentence_is_used_up_once_by_an_example_that_holds_it(
    arrangement: Arrangement, documents: list[list[int]], max_length: int, epoch: int
) -> None:
    outline, drafts, _ = planned(documents, epoch, arrangement=arrangement, max_length=max_length)
    assert drafts.firsts[0] == 0
    assert drafts.nexts[:-1].tolist() == drafts.firsts[1:].tolist()
    assert drafts.nexts[-1] == outline.num_sentences
    for first, stop, a_start, a_stop, b_start, b_stop in zip(
        drafts.firsts,
        drafts.nexts,
        drafts.a_starts,
        drafts.a_stops,
        drafts.b_starts,
        drafts.b_stops,
        strict=True,
    ):
        held = {*range(a_start, a_stop), *range(b_start, b_stop)}
        assert held >= set(range(first, stop))


@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, max_length=MAX_LENGTHS, epoch=st.integers(0, 3))
def test_mlm_alone_covers_every_token_exactly_once(
    documents: list[list[int]], max_length: int, epoch: int
) -> None:
    _, _, examples = planned(documents, epoch, arrangement=SINGLES, max_length=max_length)
    ends = examples.a_starts + examples.a_lengths
    assert examples.a_starts.tolist() == [0, *ends[:-1].tolist()]
    assert ends[-1] == sum(map(sum, documents))
    assert not examples.b_lengths.any()


@pytest.mark.parametrize("arrangement", [SINGLES, RANDOM, SWAPPED])
@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, max_length=MAX_LENGTHS, epoch=st.integers(0, 3))
def test_texts_fit_and_stay_within_a_document(
    arrangement: Arrangement, documents: list[list[int]], max_length: int, epoch: int
) -> None:
    corpus = memory_corpus(documents)
    _, _, examples = planned(documents, epoch, arrangement=arrangement, max_length=max_length)
    assert (examples.a_lengths > 0).all()
    assert (examples.lengths <= max_length).all()
    a_documents = corpus.document_of(examples.a_starts)
    assert np.array_equal(a_documents, corpus.document_of(examples.a_starts + examples.a_lengths - 1))
    is_pair = examples.b_lengths > 0
    assert np.array_equal(is_pair, examples.pair_labels != NO_PAIR)
    b_documents = corpus.document_of(examples.b_starts[is_pair])
    b_ends = (examples.b_starts + examples.b_lengths - 1)[is_pair]
    assert np.array_equal(b_documents, corpus.document_of(b_ends))
    from_elsewhere = (examples.pair_labels[is_pair] == FLIPPED) & (arrangement is RANDOM)
    assert np.array_equal(a_documents[is_pair] != b_documents, from_elsewhere)


@pytest.mark.parametrize("arrangement", [RANDOM, SWAPPED])
@settings(max_examples=50, deadline=None)
@given(documents=DOCUMENTS, max_length=MAX_LENGTHS)
def test_in_a_kept_pair_b_begins_where_a_ends_and_in_a_swapped_pair_a_where_b_ends(
    arrangement: Arrangement, documents: list[list[int]], max_length: int
) -> None:
    _, drafts, _ = planned(documents, arrangement=arrangement, max_length=max_length)
    in_order = drafts.pair_labels == KEPT
    assert np.array_equal(drafts.b_starts[in_order], drafts.a_stops[in_order])
    if arrangement is SWAPPED:
        swapped = drafts.pair_labels == FLIPPED
        assert np.array_equal(drafts.a_starts[swapped], drafts.b_stops[swapped])


@pytest.mark.parametrize("arrangement", [RANDOM, SWAPPED])
def test_half_of_the_pairs_are_of_each_kind_and_only_lone_sentences_have_none(
    arrangement: Arrangement,
) -> None:
    corpus = wiki_corpus(6_000)
    outline, drafts, examples = planned(corpus, arrangement=arrangement)
    pairs = examples.pair_labels != NO_PAIR
    assert pairs.sum() > 20_000
    assert (examples.pair_labels[pairs] == FLIPPED).mean() == pytest.approx(0.5, abs=0.01)
    sizes = np.diff(outline.document_borders)
    assert np.array_equal(pairs, sizes[document_of(outline, drafts.firsts)] > 1)


def test_a_sentence_left_alone_follows_what_goes_before_it_or_meets_another_document() -> None:
    seen = set()
    for epoch in range(60):
        _, drafts, _ = planned(
            [[5, 5, 5], [7, 7]], epoch, max_length=13, short_prob=0.0
        )  # room for 2 sentences
        for index in np.flatnonzero((drafts.firsts == 2) & (drafts.pair_labels != NO_PAIR)):
            seen.add(
                (int(drafts.pair_labels[index]), int(drafts.a_starts[index]), int(drafts.a_stops[index]))
            )
            assert drafts.nexts[index] == 3
    assert seen == {(0, 1, 2), (1, 2, 3)}


def test_a_random_next_puts_back_the_sentences_it_replaces() -> None:
    corpus = wiki_corpus(2_000)
    _, drafts, _ = planned(corpus)
    is_random = drafts.pair_labels == FLIPPED
    assert np.array_equal(drafts.nexts[is_random], drafts.a_stops[is_random])
    assert np.array_equal(drafts.a_starts[is_random], drafts.firsts[is_random])
    is_true = drafts.pair_labels == KEPT
    assert np.array_equal(drafts.nexts[is_true], drafts.b_stops[is_true])


def test_a_random_next_fills_the_target_up_and_no_further() -> None:
    outline, drafts, _ = planned(wiki_corpus(500), short_prob=0.0)
    is_random = drafts.pair_labels == FLIPPED
    starts, stops = drafts.b_starts[is_random], drafts.b_stops[is_random]
    num_a = (outline.borders[drafts.a_stops] - outline.borders[drafts.a_starts])[is_random]
    num_b = outline.borders[stops] - outline.borders[starts]
    is_full = num_a + num_b >= 125
    ends_with_document = np.isin(stops, outline.document_borders)
    assert is_full.mean() > 0.5
    assert (is_full | ends_with_document).all()
    num_but_last = outline.borders[stops - 1] - outline.borders[starts]
    assert ((num_a + num_but_last < 125) | (stops - starts == 1)).all()


def test_other_documents_and_their_starts_are_drawn_evenly() -> None:
    corpus = memory_corpus([[9, 9, 9, 9], [9, 9], [9, 9, 9, 9, 9, 9]] * 3)
    counts = np.zeros(36, dtype=np.int64)
    for epoch in range(500):
        _, drafts, _ = planned(corpus, epoch, max_length=24)
        counts += np.bincount(drafts.b_starts[drafts.pair_labels == FLIPPED], minlength=36)
    shares = counts / counts.sum() * 9
    expected = np.repeat([1 / 4, 1 / 2, 1 / 6] * 3, [4, 2, 6] * 3)
    # A document is drawn less often by as much as its own examples, which may not draw it, are more.
    np.testing.assert_allclose(shares, expected, rtol=0.2)


def test_one_example_in_ten_aims_at_a_shorter_length() -> None:
    corpus = memory_corpus([[1] * 200] * 4000)  # sentences of one token reach any length exactly
    _, _, examples = planned(corpus, arrangement=SINGLES, max_length=102)
    inner = examples.a_lengths[examples.a_starts % 200 == 0]  # the first of each document; none ends with it
    is_short = inner < 100
    assert is_short.mean() == pytest.approx(0.1 * 98 / 99, abs=0.015)
    short = inner[is_short]
    assert short.min() >= 2
    assert short.mean() == pytest.approx(50.5, abs=4)


def test_long_pairs_lose_as_much_in_front_as_behind_on_average() -> None:
    outline, drafts, examples = planned(memory_corpus([[60, 60, 60]] * 3000), max_length=63, short_prob=0.0)
    starts = outline.borders[drafts.a_starts]
    cut = outline.borders[drafts.a_stops] - starts - examples.a_lengths
    front = (examples.a_starts - starts)[cut > 0]
    assert len(front) > 3000
    assert (front / cut[cut > 0]).mean() == pytest.approx(0.5, abs=0.01)
    assert front.var() == pytest.approx((cut[cut > 0] / 4).mean(), rel=0.1)


def test_no_two_epochs_or_seeds_are_alike_but_the_same_one_is() -> None:
    corpus = wiki_corpus(50)
    first, again, later, other = (
        planned(corpus, epoch, seed=seed)[2] for epoch, seed in [(0, 1), (0, 1), (1, 1), (0, 2)]
    )
    assert first.a_starts.tolist() == again.a_starts.tolist()
    assert first.a_starts.tolist() != later.a_starts.tolist()
    assert first.a_starts.tolist() != other.a_starts.tolist()


def test_a_document_without_end_is_planned_in_sections() -> None:
    lengths = [random.Random(0).randint(3, 40) for _ in range(20_000)]
    _, drafts, examples = planned([lengths], arrangement=SWAPPED)
    assert drafts.nexts[:-1].tolist() == drafts.firsts[1:].tolist()
    assert examples.lengths.mean() > 110


def reference_pairs(documents: list[list[int]], room: int = 125, short_prob: float = 0.1) -> float:
    """Walk as BERT's script does, one example at a time; return the mean length of an example."""
    rng = random.Random(0)
    lengths = []
    for number, document in enumerate(documents):
        first = 0
        while first < len(document):
            target = rng.randint(2, room) if rng.random() < short_prob else room
            stop = first
            while stop < len(document) and sum(document[first:stop]) < target:
                stop += 1
            middle = first + (rng.randint(1, stop - first - 1) if stop - first > 1 else 1)
            num_a, num_b = sum(document[first:middle]), sum(document[middle:stop])
            first = stop
            if stop == middle or rng.random() < 0.5:
                other = rng.choice([n for n in range(len(documents)) if n != number])
                start, num_b = rng.randrange(len(documents[other])), 0
                for length in documents[other][start:]:
                    num_b += length
                    if num_b >= target - num_a:
                        break
                first = middle
            lengths.append(sum(bert_truncates(num_a, num_b, room)) + 3)
    return sum(lengths) / len(lengths)


def test_examples_are_as_long_as_those_of_a_walk_by_hand() -> None:
    corpus = wiki_corpus(300)
    borders = np.concatenate(([0], corpus.document_ends))
    lengths = np.diff(np.concatenate(([0], corpus.sentence_ends)))
    documents = [lengths[a:b].tolist() for a, b in zip(borders, borders[1:], strict=False)]
    _, _, examples = planned(corpus)
    pairs = examples.lengths[examples.pair_labels != NO_PAIR]
    expected = reference_pairs(documents)
    assert pairs.mean() == pytest.approx(expected, rel=0.02)


def test_a_partner_is_from_the_same_file_and_drawn_evenly_in_it() -> None:
    corpus = replace(memory_corpus([[9] * 6] * 9), source_ends=np.array([4, 8, 9]))
    counts = np.zeros((9, 9), dtype=np.int64)
    for epoch in range(200):
        _, _, examples = planned(corpus, epoch, arrangement=RandomPairs("file"), max_length=32)
        is_flipped = examples.pair_labels == FLIPPED
        own = corpus.document_of(examples.a_starts[is_flipped])
        others = corpus.document_of(examples.b_starts[is_flipped])
        np.add.at(counts, (own, others), 1)
    assert not counts[:4, 4:].any()
    assert not counts[4:8, :4].any()
    assert not counts[4:8, 8].any()
    assert not counts.diagonal().any()
    for rows in (slice(0, 4), slice(4, 8)):
        block = counts[rows, rows]
        expected = block.sum() / 12
        assert (abs(block[~np.eye(4, dtype=np.bool_)] - expected) < 5 * np.sqrt(expected)).all()
    # A file of one document has no partner to give: any other document takes its place.
    assert (counts[8, :8] > 0).all()


def test_with_one_file_the_partner_rule_changes_nothing() -> None:
    corpus = replace(memory_corpus([[9] * 6] * 9), source_ends=np.array([9]))
    _, any_other, _ = planned(corpus)
    _, same_file, _ = planned(corpus, arrangement=RandomPairs("file"))
    assert np.array_equal(any_other.b_starts, same_file.b_starts)


def test_a_partner_from_the_same_file_needs_a_corpus_that_knows_its_files() -> None:
    outline, _, _ = planned([[5, 5], [5, 5]])
    with pytest.raises(DataError, match=r"does not say which file .* build it again"):
        RandomPairs("file").check(outline)
    with pytest.raises(UserError, match="partner='shard'; expected one of any, file"):
        RandomPairs("shard")  # type: ignore[arg-type]

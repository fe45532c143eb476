from collections import Counter

import numpy as np
import pytest

from glassbert.data.pretraining.token_vectors import (
    WINDOW,
    frequent_tokens,
    leading_factors,
    meetings,
    positive_information,
    token_vectors,
)
from helpers.corpora import VOCABULARY, MemoryCorpus, wiki_corpus


def corpus_of(ids: np.ndarray) -> MemoryCorpus:
    return MemoryCorpus(ids, np.ones(len(ids), dtype=np.bool_), np.array([len(ids)]), np.array([1]))


def test_meetings_are_those_of_a_plain_loop() -> None:
    ids = np.random.default_rng(0).integers(5, 40, size=600)
    contexts = frequent_tokens(corpus_of(ids), 50, 20)  # type: ignore[arg-type]
    expected: Counter[tuple[int, int]] = Counter()
    for place, one in enumerate(ids):
        for other in range(max(0, place - WINDOW), min(len(ids), place + WINDOW + 1)):
            if other != place:
                expected[int(one), int(ids[other])] += 1
    found = meetings(corpus_of(ids), 50, contexts)  # type: ignore[arg-type]
    assert all(
        found[one, column] == expected[one, context]
        for one in range(50)
        for column, context in enumerate(contexts.tolist())
    )
    counts = Counter(ids.tolist())
    assert min(counts[context] for context in contexts) >= sorted(counts.values())[-20]


def test_information_is_positive_and_high_where_tokens_meet_more_than_by_chance() -> None:
    counts = np.array([[8, 1, 0], [1, 8, 0], [0, 0, 0]], dtype=np.float32)
    found = positive_information(counts)
    shares = counts.sum(axis=0)[:2] ** 0.75 / (counts.sum(axis=0)[:2] ** 0.75).sum()
    assert found[0, 0] == pytest.approx(np.log(8 / 9 / shares[0]), rel=1e-5)
    assert found[0, 1] == 0
    assert not found[2].any()
    assert np.isfinite(found).all()


def test_factors_are_those_of_the_whole_decomposition() -> None:
    rng = np.random.default_rng(1)
    matrix = (rng.normal(size=(120, 8)) @ rng.normal(size=(8, 60))).astype(np.float32)
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    expected = left[:, :6] * np.sqrt(values[:6])
    found = leading_factors(matrix, 6, seed=0)
    # Signs are free; what is between rows is not.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-3 * values[0])
    assert leading_factors(matrix, 200, seed=0).shape == (120, 200)


def test_tokens_in_the_same_company_get_like_vectors() -> None:
    """Two groups of words that never meet, each word in the company of its own group."""
    rng = np.random.default_rng(2)
    ids = np.concatenate(
        [rng.integers(30 + 20 * (turn % 2), 50 + 20 * (turn % 2), 200) for turn in range(60)]
    )
    vectors = token_vectors(corpus_of(ids), 100, 8)  # type: ignore[arg-type]
    assert vectors.shape == (100, 8)
    assert not vectors[:30].any()
    np.testing.assert_allclose((vectors[30:70] ** 2).mean(axis=1), 1, rtol=1e-3)
    likeness = vectors[30:70] @ vectors[30:70].T / 8
    assert likeness[:20, :20].mean() > likeness[:20, 20:].mean() + 0.3


def test_the_same_corpus_and_seed_give_the_same_vectors() -> None:
    corpus = wiki_corpus(20)
    first, again, other = (
        token_vectors(corpus, len(VOCABULARY), 16, seed=seed)  # type: ignore[arg-type]
        for seed in (0, 0, 1)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)

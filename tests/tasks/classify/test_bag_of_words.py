import random

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_union

from glassbert.tasks.classify import bag_of_words as module
from glassbert.tasks.classify.bag_of_words import Block, Features, bag_of_words
from glassbert.tasks.classify.ngrams import character_counts, word_counts

WORDS = ("good", "bad", "film", "the", "a", "Very", "plot", "don't", "x", "2", "电影", "很好", "不", "é", "…")


def texts_of(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randrange(1, 12))) for _ in range(count)]


def sklearn_features() -> object:
    """The same words and n-grams by scikit-learn."""
    words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)[\u4e00-\u9fff]|\b\w+\b")
    return make_union(words, TfidfVectorizer(analyzer="char", ngram_range=(2, 4)))


def ours(train: list[str], test: list[str]) -> np.ndarray:
    counted = [word_counts(train), character_counts(train)]
    blocks = [Block.fitted(one, len(train), 1 << 20) for one in counted]
    features = Features.of(blocks, [word_counts(test), character_counts(test)], len(test))
    return features.product(torch.eye(features.width)).numpy()


def test_features_are_those_of_scikit_learn() -> None:
    train, test = texts_of(40), [*texts_of(20, seed=1), "", "  ", "unseen 字 words"]
    union = sklearn_features()
    union.fit(train)  # type: ignore[attr-defined]
    expected = union.transform(test).toarray()  # type: ignore[attr-defined]
    found = ours(train, test)
    assert found.shape == expected.shape
    # Columns are in another order; what is between rows is not.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)


def test_counts_do_not_depend_on_blocks_or_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = texts_of(30)
    whole = character_counts(texts)
    monkeypatch.setattr("glassbert.tasks.classify.ngrams._BLOCK_CHARACTERS", 50)
    for count in (word_counts, character_counts):
        found = count(texts)
        for row, text in enumerate(texts):
            alone = count([text])
            np.testing.assert_array_equal(found.features[found.rows == row], alone.features)
            np.testing.assert_array_equal(found.values[found.rows == row], alone.values)
    np.testing.assert_array_equal(character_counts(texts).features, whole.features)


@pytest.mark.parametrize("num_labels", [2, 5])
def test_logits_are_those_of_scikit_learn(num_labels: int) -> None:
    train, test = texts_of(120), texts_of(40, seed=1)
    gold = np.array([len(text) % num_labels for text in train])
    union = sklearn_features()
    model = LogisticRegression(max_iter=1000, tol=1e-8)
    model.fit(union.fit_transform(train), gold)  # type: ignore[attr-defined]
    expected = model.predict_proba(union.transform(test))  # type: ignore[attr-defined]
    logits = bag_of_words(train, gold[:, None].astype(np.float32), test, "single", num_labels)
    found = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_scores_are_those_of_ridge_regression() -> None:
    train, test = texts_of(100), texts_of(30, seed=1)
    scores = np.array([text.count("good") - text.count("bad") for text in train], dtype=np.float32)
    union = sklearn_features()
    spread = scores.std(ddof=1)
    model = Ridge().fit(union.fit_transform(train), scores / spread)  # type: ignore[attr-defined]
    expected = model.predict(union.transform(test)) * spread  # type: ignore[attr-defined]
    found = bag_of_words(train, scores[:, None], test, "regression", 1)
    np.testing.assert_allclose(found[:, 0], expected, atol=0.02)


def test_several_labels_are_judged_one_by_one() -> None:
    train, test = texts_of(150), texts_of(50, seed=1)
    has = np.array([["good" in text, "plot" in text, True] for text in train], dtype=np.float32)
    logits = bag_of_words(train, has, test, "multi", 3)
    gold = np.array([["good" in text, "plot" in text, True] for text in test])
    assert ((logits > 0) == gold).mean() > 0.85


def test_two_hundred_labels_fit_into_the_memory_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_WEIGHTS", 200 * 300)
    train = [f"word{row % 200} and more" for row in range(600)]
    gold = np.array([[row % 200] for row in range(600)], dtype=np.float32)
    logits = bag_of_words(train, gold, train[:200], "single", 200)
    assert logits.shape == (200, 200)
    assert np.isfinite(logits).all()


def test_of_many_rows_an_even_choice_is_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROWS", 50)
    train = ["good"] * 500 + ["bad"] * 500
    gold = np.array([[0]] * 500 + [[1]] * 500, dtype=np.float32)
    logits = bag_of_words(train, gold, ["good", "bad"], "single", 2)
    assert logits.argmax(axis=1).tolist() == [0, 1]


def test_texts_without_a_word_get_the_prior() -> None:
    gold = np.array([[0]] * 30 + [[1]] * 10, dtype=np.float32)
    logits = bag_of_words([""] * 40, gold, ["", "?"], "single", 2)
    assert logits.argmax(axis=1).tolist() == [0, 0]


def test_the_same_rows_give_the_same_bits() -> None:
    gold = np.array([[row % 2] for row in range(60)], dtype=np.float32)
    first, again = (bag_of_words(texts_of(60), gold, texts_of(20, 1), "single", 2) for _ in range(2))
    assert np.array_equal(first, again)

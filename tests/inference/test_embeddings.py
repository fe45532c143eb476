from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassbert.inference.embeddings import Embeddings

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def vectors() -> Embeddings:
    return Embeddings(NUMBERS.copy(), tokens=(3, 4, 5), truncated=(False, True, False))


def test_it_is_an_array_with_two_facts_about_each_text(vectors: Embeddings) -> None:
    assert isinstance(vectors, np.ndarray)
    assert (vectors.shape, vectors.dtype) == ((3, 4), np.float32)
    assert vectors.tokens == (3, 4, 5)
    assert vectors.truncated == (False, True, False)
    with pytest.raises(ValueError, match="zip"):
        Embeddings(NUMBERS, tokens=(3, 4, 5), truncated=(False,))


@pytest.mark.parametrize(
    ("choose", "tokens"),
    [
        (lambda e: e[1], (4,)),
        (lambda e: e[-1], (5,)),
        (lambda e: e[1:], (4, 5)),
        (lambda e: e[::-1], (5, 4, 3)),
        (lambda e: e[[2, 0]], (5, 3)),
        (lambda e: e[~np.array(e.truncated)], (3, 5)),
        (lambda e: e[:, :2], (3, 4, 5)),
        (lambda e: e[1:, :2], (4, 5)),
        (lambda e: e[..., 2:], (3, 4, 5)),
        (lambda e: e[0][:2], (3,)),
        (lambda e: list(e)[1], (4,)),
        (lambda e: e[:0], ()),
    ],
)
def test_chosen_texts_keep_what_is_known_of_them(
    vectors: Embeddings, choose: Callable[[Any], Embeddings], tokens: tuple[int, ...]
) -> None:
    chosen = choose(vectors)
    assert chosen.tokens == tokens
    assert chosen.truncated == tuple(token == 4 for token in tokens)
    np.testing.assert_array_equal(chosen, choose_plain(choose))


def choose_plain(choose: Callable[[Any], Any]) -> Any:
    """Return what the same choice gives of a plain array."""

    class Plain(np.ndarray):
        truncated = (False, True, False)

    return np.asarray(choose(NUMBERS.view(Plain)))


@pytest.mark.parametrize(
    "compute",
    [
        lambda e: e @ e.T,
        lambda e: e.mean(0),
        lambda e: e / np.linalg.norm(e, axis=1, keepdims=True),
        lambda e: np.concatenate([e, e]),
        lambda e: np.argsort(-(e @ e[0])),
        lambda e: np.einsum("ij,kj->ik", e, e),
        lambda e: e > 3,
    ],
)
def test_the_result_of_arithmetic_is_a_plain_array(
    vectors: Embeddings, compute: Callable[[Any], Any]
) -> None:
    assert type(compute(vectors)) is np.ndarray
    np.testing.assert_array_equal(compute(vectors), compute(NUMBERS))


def test_a_single_number_is_a_number(vectors: Embeddings) -> None:
    assert isinstance(vectors[1, 2], np.float32)
    assert isinstance(vectors.mean(), np.float32)
    assert isinstance(vectors[0] @ vectors[1], np.float32)


def test_changed_in_place_it_still_knows_its_texts(vectors: Embeddings) -> None:
    vectors /= 2
    assert vectors.tokens == (3, 4, 5)
    np.testing.assert_array_equal(vectors, NUMBERS / 2)


@pytest.mark.parametrize(
    "change", [lambda e: e.T, lambda e: e.reshape(-1), lambda e: e[None], lambda e: e[e > 3]]
)
def test_what_is_not_one_row_per_text_knows_no_texts(
    vectors: Embeddings, change: Callable[[Any], Any]
) -> None:
    with pytest.raises(AttributeError, match="no longer know their texts"):
        _ = change(vectors).tokens


def test_vectors_are_saved_and_shared_like_any_array(vectors: Embeddings, tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", vectors, allow_pickle=False)
    np.testing.assert_array_equal(np.load(tmp_path / "vectors.npy"), NUMBERS)
    assert torch.from_numpy(vectors).tolist() == NUMBERS.tolist()
    assert repr(vectors).startswith("Embeddings([[")

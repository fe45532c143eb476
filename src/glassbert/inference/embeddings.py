"""Vectors of texts: a numpy array that also knows how many tokens each text gave and which were cut."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Vectors = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


class Embeddings(_Vectors):
    """Vectors of texts, (texts, features) in float32; a text given alone is (features,).

    `e @ e.T`, `e.mean(0)`, the functions of numpy and `numpy.save` work as with any other array. A choice of
    texts, such as `e[2]`, `e[:10]` or `e[mask]`, keeps their `tokens` and `truncated`. The result of
    arithmetic is a plain array. A copy, or what was reshaped, has neither `tokens` nor `truncated`.
    """

    _texts: tuple[tuple[int, bool], ...] | None = None

    def __new__(cls, vectors: ArrayLike, tokens: Sequence[int], truncated: Sequence[bool]) -> "Embeddings":
        """Return vectors, (texts, features), that know how long each text was and whether it was cut."""
        self = np.asarray(vectors, dtype=np.float32).view(cls)
        self._texts = tuple(zip(tokens, truncated, strict=True))
        return self

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens that each text gave to the model, specials included."""
        return tuple(num_tokens for num_tokens, _ in self._known_texts())

    @property
    def truncated(self) -> tuple[bool, ...]:
        """Whether each text was longer than the model takes."""
        return tuple(was_cut for _, was_cut in self._known_texts())

    def __array_wrap__(
        self, array: np.ndarray[Any, Any], context: Any = None, return_scalar: bool = False
    ) -> Any:
        """Return the result of arithmetic as a plain array; ``self``, when it was changed in place."""
        if array is self:
            return self
        return array[()] if return_scalar else np.asarray(array)

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        if isinstance(found, Embeddings) and self._texts is not None:
            found._texts = self._texts if self.ndim == 1 else _chosen(self._texts, key)
        return found

    def _known_texts(self) -> tuple[tuple[int, bool], ...]:
        if self._texts is None:
            raise AttributeError(
                "these vectors were copied or reshaped and no longer know their texts; "
                "read `tokens` and `truncated` from what `embed` returned"
            )
        return self._texts


def _chosen(texts: tuple[tuple[int, bool], ...], key: Any) -> tuple[tuple[int, bool], ...] | None:
    """Return the texts of the rows that an index chooses; None when the result is not one row per text."""
    rows = key[0] if isinstance(key, tuple) and key else key
    if rows is None or np.ndim(rows) > 1:
        return None
    return tuple(texts[row] for row in np.atleast_1d(np.arange(len(texts))[rows]))


@dataclass(frozen=True, slots=True)
class EmbeddedText:
    """The vector of one text."""

    embedding: NDArray[np.float32]
    tokens: int
    """Tokens that the text gave to the model, specials included."""
    truncated: bool
    """Whether the text was longer than the model takes."""

    def to_json(self) -> dict[str, Any]:
        """Return what `embed` prints."""
        return {
            "embedding": self.embedding.tolist(),
            "tokens": self.tokens,
            "truncated": self.truncated,
        }


def each_text(embeddings: Embeddings) -> list[EmbeddedText]:
    """Return the vectors one by one, with what is known of each text."""
    vectors = np.asarray(embeddings)
    return [
        EmbeddedText(vector, tokens, truncated)
        for vector, tokens, truncated in zip(vectors, embeddings.tokens, embeddings.truncated, strict=True)
    ]

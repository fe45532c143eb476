"""What the two kinds of tokenizer have in common: BERT's WordPiece and the reversible BPE of translation."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

from glassbert.errors import UserError

_SURROGATE = re.compile("[\ud800-\udfff]")


class TextTokenizer(Protocol):
    """Text to ids and back."""

    @property
    def max_length(self) -> int:
        """The most ids that an input may have, specials included."""

    def __len__(self) -> int:
        """Return the number of pieces."""

    def ids_of_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without specials."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the tokenizer of a model folder."""

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the files that `load` reads; with ``overwrite``, in the place of those saved there."""


def for_engine(texts: Sequence[str]) -> list[str]:
    """Return ``texts`` with lone surrogates, which the engine cannot take, replaced one for one."""
    return [text if text.isascii() else _SURROGATE.sub("\ufffd", text) for text in texts]


def check_ids(ids: Sequence[int], vocab_size: int) -> None:
    """Refuse ids that no piece has."""
    for id_ in ids:
        if not 0 <= id_ < vocab_size:
            raise UserError(
                f"id {id_} is outside the vocabulary of {vocab_size} pieces; "
                "were these ids made with another vocabulary?"
            )

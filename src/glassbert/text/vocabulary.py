"""The pieces that a model knows, one per line in `vocab.txt`; the line number is the id."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from glassbert.arguments import checked_methods
from glassbert.errors import DataError, ModelError, UserError
from glassbert.open_files import read_regular
from glassbert.outputs import check_new
from glassbert.storage import write_atomically
from glassbert.text.files import decoded_lines

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")

_UNUSED = re.compile(r"\[unused\d+\]")


def unused_pieces(count: int) -> list[str]:
    """Return the pieces of ``count`` rows that are kept free."""
    return [f"[unused{number}]" for number in range(1, count + 1)]


def is_unused(piece: str) -> bool:
    """Return whether ``piece`` marks a free row."""
    return _UNUSED.fullmatch(piece) is not None


def is_reserved(piece: str) -> bool:
    """Return whether ``piece`` is a special or marks a free row: text does not give it."""
    return piece in SPECIALS or is_unused(piece)


@checked_methods
@dataclass(frozen=True)
class Vocabulary:
    """Pieces by id, and ids by piece; checked to be complete and free of duplicates."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(self.pieces, "vocabulary")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a `vocab.txt`."""
        path = Path(path)
        try:
            raw = read_regular(path)
        except OSError as error:
            raise ModelError(
                f"{path}: {error.strerror}; expected a vocabulary file with one piece per line"
            ) from None
        try:
            # Not `splitlines`: it also cuts at characters such as U+2028, which released vocabularies hold.
            lines = list(decoded_lines(raw.split(b"\n"), str(path)))
        except DataError as error:
            raise ModelError(str(error)) from None
        while lines and not lines[-1]:
            lines.pop()
        _check(lines, str(path))
        return cls(tuple(lines))

    def save(self, path: str | Path) -> None:
        """Write the `vocab.txt`; no file is replaced, as nothing in it would say whose it is."""
        check_new(path)
        write_atomically(Path(path), self._file_bytes)

    def __len__(self) -> int:
        return len(self.pieces)

    def __contains__(self, piece: object) -> bool:
        return piece in self.ids

    def id(self, piece: str) -> int:
        """Return the id of ``piece``, which must be in the vocabulary."""
        try:
            return self.ids[piece]
        except KeyError:
            raise UserError(f"{piece!r} is not one of the {len(self)} pieces of the vocabulary") from None

    @cached_property
    def ids(self) -> dict[str, int]:
        """Map each piece to its id."""
        return {piece: id_ for id_, piece in enumerate(self.pieces)}

    @property
    def pad_id(self) -> int:
        return self.ids[PAD]

    @property
    def unk_id(self) -> int:
        return self.ids[UNK]

    @property
    def cls_id(self) -> int:
        return self.ids[CLS]

    @property
    def sep_id(self) -> int:
        return self.ids[SEP]

    @property
    def mask_id(self) -> int:
        return self.ids[MASK]

    @property
    def special_ids(self) -> tuple[int, ...]:
        """The ids of `SPECIALS`, in that order."""
        return tuple(self.ids[special] for special in SPECIALS)

    @cached_property
    def starts_word(self) -> NDArray[np.bool_]:
        """For each id whether its piece begins a word, that is, has no ##; (V,), read-only."""
        starts = np.array([not piece.startswith("##") for piece in self.pieces], dtype=np.bool_)
        starts.flags.writeable = False
        return starts

    @cached_property
    def sha256(self) -> str:
        """The fingerprint of the file that `save` writes."""
        return hashlib.sha256(self._file_bytes).hexdigest()

    @property
    def _file_bytes(self) -> bytes:
        return "".join(f"{piece}\n" for piece in self.pieces).encode("utf-8")


def _check(pieces: Sequence[str], name: str) -> None:
    """Refuse a list of pieces that cannot be a vocabulary; ``name`` says where it is from."""
    if not pieces:
        raise ModelError(
            f"{name}: no piece in it; expected one piece per line, {' '.join(SPECIALS)} among them"
        )
    first_lines: dict[str, int] = {}
    for line, piece in enumerate(pieces, start=1):
        if not piece:
            raise ModelError(f"{name}:{line}: blank line; remove it, or the ids after it shift")
        if "\n" in piece or "\r" in piece:
            raise ModelError(f"{name}:{line}: {piece!r} holds a line end and cannot be a line of vocab.txt")
        first_line = first_lines.setdefault(piece, line)
        if first_line != line:
            raise ModelError(
                f"{name}:{line}: {piece!r} is already on line {first_line}; each piece must occur once"
            )
    for special in SPECIALS:
        if special not in first_lines:
            raise ModelError(
                f"{name}: no line holds {special} among its {len(pieces)} pieces; a BERT vocabulary needs it"
            )

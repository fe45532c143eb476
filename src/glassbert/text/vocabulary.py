"""The pieces that a model knows, one a line in `vocab.txt`; the line number is the id."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from glassbert.errors import DataError, ModelError, UserError
from glassbert.storage import write_atomically
from glassbert.text.files import decoded_lines

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@dataclass(frozen=True)
class Vocabulary:
    """Pieces by id, and ids by piece; checked to be complete and free of duplicates."""

    pieces: tuple[str, ...]

    def __post_init__(self) -> None:
        _check(self.pieces, "vocabulary")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a `vocab.txt`."""
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelError(
                f"{path}: {error.strerror}; a vocabulary file with one piece a line is needed"
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

    def save(self, path: Path) -> None:
        """Write the `vocab.txt`."""
        write_atomically(path, self._file_bytes)

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
    def sha256(self) -> str:
        """The fingerprint of the file that `save` writes."""
        return hashlib.sha256(self._file_bytes).hexdigest()

    @property
    def _file_bytes(self) -> bytes:
        return "".join(f"{piece}\n" for piece in self.pieces).encode("utf-8")


def _check(pieces: Sequence[str], name: str) -> None:
    """Refuse a list of pieces that cannot be a vocabulary; ``name`` is where it came from."""
    if not pieces:
        raise ModelError(
            f"{name}: holds no piece; one piece a line is expected, {' '.join(SPECIALS)} among them"
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
                f"{name}:{line}: {piece!r} already stands on line {first_line}; each piece must be there once"
            )
    for special in SPECIALS:
        if special not in first_lines:
            raise ModelError(
                f"{name}: no line holds {special} among its {len(pieces)} pieces; a BERT vocabulary needs it"
            )

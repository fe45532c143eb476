"""Read Google's TF1 BERT checkpoints with numpy alone, under the names that Hugging Face uses.

A checkpoint ``bert_model.ckpt`` is not a file but a prefix. ``bert_model.ckpt.index`` is a table from names
of variables to type, shape and place; ``bert_model.ckpt.data-00000-of-00001``, or several, hold the values.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import ModelError
from glassbert.interop.tf1.crc32c import masked_crc32c
from glassbert.interop.tf1.names import is_optimizer_state, rule_for_tf1
from glassbert.interop.tf1.table import Damaged, Message, Unsupported, read_table
from glassbert.open_files import PartsFile

_READER_VERSION = 1
# Within numpy's limit; no real model comes near it.
_MAX_DIMENSIONS = 32
_MAX_ELEMENTS = 2**56
_MAX_INDEX_SIZE = 2**26
# TensorFlow's numbers for types.
_TYPES = {
    1: "float32",
    2: "float64",
    3: "int32",
    4: "uint8",
    5: "int16",
    6: "int8",
    9: "int64",
    10: "bool",
    17: "uint16",
    19: "float16",
    22: "uint32",
    23: "uint64",
}
# Types that numpy lacks or no model uses, for the error message.
_UNSUPPORTED_TYPES = {
    7: "string",
    8: "complex64",
    14: "bfloat16",
    18: "complex128",
    20: "resource",
    21: "variant",
}


def find_checkpoint(folder: str | Path) -> Path | None:
    """Return the prefix of the one checkpoint in ``folder``, or None if it holds none."""
    folder = Path(folder)
    indexes = sorted(path.name for path in folder.glob("*.index"))
    if len(indexes) > 1:
        raise ModelError(f"{folder}: holds several checkpoints, {', '.join(indexes)}; keep one of them there")
    return folder / indexes[0].removesuffix(".index") if indexes else None


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where one variable lies and what it is."""

    type_number: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    crc32c: int
    num_slices: int

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read a ``BundleEntryProto``."""
        message = Message.parse(data)
        shapes = message.nested(2)
        return cls(
            type_number=message.integer(1),
            shape=tuple(dimension.integer(1) for shape in shapes for dimension in shape.nested(2)),
            shard=message.integer(3),
            offset=message.integer(4),
            size=message.integer(5),
            crc32c=message.integer(6),
            num_slices=len(message.parts.get(7, [])),
        )

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The numpy type, or None if numpy has none."""
        name = _TYPES.get(self.type_number)
        return np.dtype(name).newbyteorder("<") if name else None

    def check(self) -> None:
        """Raise ``Damaged`` if no tensor can have this shape, type and size."""
        # Lengths of zero count as one here, because numpy also refuses (0, 2**63).
        num_slots = math.prod(max(length, 1) for length in self.shape)
        if len(self.shape) > _MAX_DIMENSIONS or min(self.shape, default=0) < 0 or num_slots > _MAX_ELEMENTS:
            raise Damaged(f"has the impossible shape {self.shape}")
        if self.dtype and math.prod(self.shape) * self.dtype.itemsize != self.size:
            raise Damaged(f"has {self.size} bytes, which is not {self.dtype.name} of shape {self.shape}")


class Bundle:
    """The variables of a checkpoint, read when asked for."""

    def __init__(self, prefix: str | Path) -> None:
        """Read the index and check every entry against the data files; no tensor is read yet."""
        self.index_path = Path(f"{prefix}.index")
        self._entries: dict[str, Entry] = {}
        index = _opened(self.index_path)
        with _naming_file(self.index_path):
            if index.size > _MAX_INDEX_SIZE:
                raise Damaged(f"has {index.size:,} bytes; at most {_MAX_INDEX_SIZE:,} are expected")
            table = read_table(np.frombuffer(index.read(0, index.size), np.uint8))
            num_shards = _read_num_shards(table)
            for key, value in table:
                # Such keys belong to slices of a partitioned variable, which has its own entry.
                if not key.startswith(b"\0"):
                    self._entries[_decode(key)] = Entry.parse(value)
        self._shards = [
            _opened(Path(f"{prefix}.data-{shard:05d}-of-{num_shards:05d}")) for shard in range(num_shards)
        ]
        for name, entry in self._entries.items():
            if not entry.num_slices:
                self._check(name, entry)

    def _check(self, name: str, entry: Entry) -> None:
        with _naming_file(self.index_path, name):
            entry.check()
            if not 0 <= entry.shard < len(self._shards):
                raise Damaged(f"lies in data file {entry.shard} of {len(self._shards)}")
            if entry.offset < 0 or entry.size < 0:
                raise Damaged(f"takes {entry.size} bytes at {entry.offset}")
        shard = self._shards[entry.shard]
        with _naming_file(shard.path, name):
            if entry.offset + entry.size > shard.size:
                raise Damaged(f"should end at {entry.offset + entry.size} of the file's {shard.size} bytes")

    def names(self) -> list[str]:
        """Return the names of all variables in the file's order, which is alphabetical."""
        return list(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entry(name).shape

    def tensor(self, name: str) -> NDArray[Any]:
        """Return a variable, after checking its checksum."""
        entry = self._entry(name)
        with _naming_file(self.index_path, name):
            if entry.num_slices:
                raise Unsupported(f"is cut into {entry.num_slices} slices; save it without a partitioner")
            if entry.dtype is None:
                kind = _UNSUPPORTED_TYPES.get(entry.type_number, f"TensorFlow's number {entry.type_number}")
                raise Unsupported(f"is of type {kind}; readable are {', '.join(sorted(_TYPES.values()))}")
        shard = self._shards[entry.shard]
        data = np.frombuffer(shard.read(entry.offset, entry.size), np.uint8)
        with _naming_file(shard.path, name):
            if masked_crc32c(data) != entry.crc32c:
                raise Damaged("fails its checksum")
        return data.view(entry.dtype).reshape(entry.shape)

    def _entry(self, name: str) -> Entry:
        if name not in self._entries:
            raise ModelError(f"{self.index_path}: no variable {name!r} among its {len(self._entries)}")
        return self._entries[name]


def _read_num_shards(table: Iterator[tuple[bytes, bytes]]) -> int:
    """Read the ``BundleHeaderProto``, which comes first, under the empty key."""
    key, value = next(table, (None, b""))
    if key != b"":
        raise Damaged("the first entry is not a header")
    header = Message.parse(value)
    if header.integer(2) != 0:
        raise Unsupported("was written on a big-endian machine; save it again on a little-endian one")
    needed = max((version.integer(2) for version in header.nested(3)), default=0)
    if needed > _READER_VERSION:
        raise Unsupported(f"needs a reader of bundle version {needed}; this one reads {_READER_VERSION}")
    if header.integer(1) < 1:
        raise Damaged(f"the header counts {header.integer(1)} data files")
    return header.integer(1)


def _decode(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise Damaged(f"key {key!r} is not UTF-8") from None


def _opened(path: Path) -> PartsFile:
    try:
        return PartsFile(path)
    except FileNotFoundError:
        raise ModelError(f"{path}: missing; a checkpoint is one .index and all its .data files") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None


@contextmanager
def _naming_file(path: Path, variable: str = "") -> Iterator[None]:
    """Turn a defect inside a file into a user error that names the file."""
    subject = f"{path}: {variable!r}" if variable else f"{path}:"
    try:
        yield
    except Damaged as error:
        raise ModelError(f"{subject} {error}; the file is damaged, copy it again") from None
    except Unsupported as error:
        raise ModelError(f"{subject} {error}") from None


@dataclass(frozen=True)
class Skipped:
    """Variables of a checkpoint that do not belong to the converted model."""

    optimizer: tuple[str, ...]
    """The optimiser's state and counters: expected, and useless outside the original run."""
    unexpected: tuple[str, ...]
    """Names without a rule: the model may lack something."""


def to_huggingface(bundle: Bundle) -> tuple[dict[str, NDArray[Any]], Skipped]:
    """Return the model's tensors under Hugging Face's names as new arrays, and what was left out.

    The MLM decoder's weight is not among them: it is the word embeddings.
    """
    tensors: dict[str, NDArray[Any]] = {}
    optimizer: list[str] = []
    unexpected: list[str] = []
    for name in bundle.names():
        if rule := rule_for_tf1(name):
            values = bundle.tensor(name)
            tensors[rule.huggingface] = np.array(values.T if rule.is_transposed else values, order="C")
        else:
            (optimizer if is_optimizer_state(name) else unexpected).append(name)
    if not tensors:
        found = ", ".join(map(repr, bundle.names()[:3]))
        raise ModelError(f"{bundle.index_path}: holds no variable of a TF1 BERT; its first are {found}")
    return tensors, Skipped(tuple(optimizer), tuple(unexpected))

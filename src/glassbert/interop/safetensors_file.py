"""Read a safetensors file: its header by our JSON parser, its tensors on demand.

The file is 8 bytes, the length of the header; the header, JSON that gives each tensor's type, shape and
place; and the numbers. Nothing is mapped into memory, so a file that changes while it is read is an error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.open_files import PartsFile
from glassbert.parsing import MAX_PARTS, FormatError, parse_json
from glassbert.typed import shown

_MAX_HEADER = 100_000_000
"""Bytes; the limit of the format."""
_MAX_DIMENSIONS = 32
_MAX_SIZE = 2**48
_METADATA = "__metadata__"
_TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


@dataclass(frozen=True)
class _Place:
    """What a tensor is, and where it lies in the file."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    stop: int


class SafetensorsFile(Mapping[str, Tensor]):
    """The tensors of a file by name, each read when it is asked for, into memory of its own."""

    metadata: Mapping[str, str]

    def __init__(self, path: str | Path) -> None:
        """Read the header and check every place; no number is read yet. A missing file is a ModelError."""
        try:
            self._file = PartsFile(path)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error.strerror}); fetch or write it again") from None
        header, self._start = self._header()
        self.metadata = self._metadata(header.pop(_METADATA, {}))
        self._places = {name: self._place(name, entry) for name, entry in header.items()}
        end = 0
        for place in sorted(self._places.values(), key=lambda place: (place.start, place.stop)):
            if place.start != end:
                raise self._damaged(f"tensors overlap or leave a gap at byte {end}")
            end = place.stop
        if self._start + end != self._file.size:
            raise self._damaged(f"{self._start + end:,} bytes announced, the file has {self._file.size:,}")

    def __getitem__(self, name: str) -> Tensor:
        return self.part(name)

    def part(self, name: str, *indices: int) -> Tensor:
        """Return a tensor, or the part of it that its first ``indices`` select, and read nothing else."""
        place = self._places[name]
        start, size, shape = self._start + place.start, place.stop - place.start, place.shape
        for index in indices:
            size //= shape[0]
            start += range(shape[0])[index] * size
            shape = shape[1:]
        values = torch.empty(size, dtype=torch.uint8, device="cpu")
        self._file.read_into(start, values.numpy().data)
        return values.view(place.dtype).reshape(shape)

    def __contains__(self, name: object) -> bool:
        return name in self._places  # the inherited method would read the tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return {name: place.shape for name, place in self._places.items()}

    def _header(self) -> tuple[dict[str, Any], int]:
        """Return the header, and where it ends."""
        if self._file.size < 8:
            raise self._damaged(f"{self._file.size} bytes are too few")
        length = int.from_bytes(self._file.read(0, 8), "little")
        if length > min(_MAX_HEADER, self._file.size - 8):
            raise self._damaged(f"a header of {length:,} bytes in a file of {self._file.size:,}")
        try:
            header = parse_json(bytes(self._file.read(8, length)), max_parts=MAX_PARTS)
        except FormatError as error:
            raise self._damaged(f"the header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise self._damaged("the header is no JSON object")
        return header, 8 + length

    def _metadata(self, found: Any) -> Mapping[str, str]:
        if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
            raise self._damaged(f"{_METADATA} is {shown(found)}; strings are expected")
        return found

    def _place(self, name: str, entry: Any) -> _Place:
        kind, shape, offsets = (
            entry.get(key) if isinstance(entry, dict) else None for key in ("dtype", "shape", "data_offsets")
        )
        dtype = _TYPES.get(kind) if isinstance(kind, str) else None
        if dtype is None:
            raise self._damaged(f"{shown(name)} holds {shown(kind)}, expected one of {', '.join(_TYPES)}")
        sizes, place = _sizes(shape), _sizes(offsets)
        if sizes is None or place is None or len(place) != 2:
            raise self._damaged(f"{shown(name)} has no shape and place: {shown(shape)}, {shown(offsets)}")
        start, stop = place
        if stop > self._file.size or stop - start != prod(sizes) * dtype.itemsize:
            raise self._damaged(f"{shown(name)}, {kind} of shape {shown(shape)}, is at {start} to {stop}")
        return _Place(dtype, sizes, start, stop)

    def _damaged(self, reason: str) -> ModelError:
        return ModelError(
            f"{self._file.path}: damaged or truncated safetensors file ({reason}); fetch or write it again"
        )


def _sizes(value: Any) -> tuple[int, ...] | None:
    """Return a JSON value that is a list of a few sizes that no tensor exceeds; None if it is not."""
    if not isinstance(value, list) or len(value) > _MAX_DIMENSIONS:
        return None
    is_right = all(type(one) is int and 0 <= one < _MAX_SIZE for one in value)
    return tuple(value) if is_right else None

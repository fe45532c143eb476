"""Tensors of a trace: in memory, or in a safetensors file that is written and read one tensor at a time.

The header of the file comes first and holds every shape, so the steps of a trace are known before the pass.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import ModelError
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.parsing import json_text

Array = NDArray[Any]


@dataclass(frozen=True)
class Slot:
    """The place of a tensor."""

    name: str
    shape: tuple[int, ...]
    is_whole: bool = False
    """Whether it holds whole numbers, int64; otherwise float32."""

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def dtype(self) -> np.dtype[Any]:
        """How its numbers are stored."""
        return np.dtype("<i8" if self.is_whole else "<f4")


class Store(Protocol):
    """Where a recorder puts tensors."""

    def put(self, name: str, value: Array) -> None:
        """Keep a tensor."""


class Memory(dict[str, Array]):
    """Tensors in memory. Slots that nothing is put into, gradients that no path leads to, read as zeros."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        super().__init__()
        self.slots = {slot.name: slot for slot in slots}

    def put(self, name: str, value: Array) -> None:
        """Keep a tensor without copying it."""
        self[name] = value

    def __missing__(self, name: str) -> Array:
        slot = self.slots[name]
        return np.zeros(slot.shape, slot.dtype)


class TensorFile:
    """A safetensors file of known shapes, to be filled in any order; what is left out stays zero."""

    def __init__(self, file: BinaryIO, slots: Iterable[Slot], metadata: Mapping[str, str]) -> None:
        self._file, self._places = file, dict[str, tuple[Slot, int]]()
        header: dict[str, Any] = {"__metadata__": dict(metadata)}
        end = 0
        # Wider numbers first: then every tensor begins at a multiple of its number's size.
        for slot in sorted(slots, key=lambda slot: -slot.dtype.itemsize):
            kind = "I64" if slot.is_whole else "F32"
            place = [end, end + slot.nbytes]
            header[slot.name] = {"dtype": kind, "shape": slot.shape, "data_offsets": place}
            self._places[slot.name] = (slot, end)
            end += slot.nbytes
        written = json_text(header).encode("utf-8")
        written += b" " * (-len(written) % 8)
        file.write(len(written).to_bytes(8, "little"))
        file.write(written)
        self._start = 8 + len(written)
        file.truncate(self._start + end)

    def put(self, name: str, value: Array) -> None:
        """Write a tensor into its place."""
        slot, offset = self._places[name]
        assert value.shape == slot.shape, f"{name}: {value.shape}, planned {slot.shape}"
        self._file.seek(self._start + offset)
        self._file.write(np.ascontiguousarray(value, dtype=slot.dtype).data)


@dataclass(frozen=True)
class StoredTensors(Mapping[str, Array]):
    """The tensors of a safetensors file, each read when it is asked for."""

    path: Path

    @cached_property
    def _file(self) -> SafetensorsFile:
        if not self.path.exists():
            raise ModelError(f"{self.path}: no such file; name a trace that was saved")
        return SafetensorsFile(self.path)

    def __getitem__(self, name: str) -> Array:
        return self._file[name].numpy()

    def part(self, name: str, index: tuple[Any, ...]) -> Array:
        """Return a part of a tensor; what the first numbers of ``index`` do not select is not read."""
        first = tuple(takewhile(lambda one: isinstance(one, int), index))
        return np.asarray(self._file.part(name, *first).numpy()[index[len(first) :]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._file)

    def __len__(self) -> int:
        return len(self._file)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return self._file.shapes

    @property
    def metadata(self) -> dict[str, str]:
        """What the header says beside the shapes."""
        return dict(self._file.metadata)

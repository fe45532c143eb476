"""Verifying a parameter table against a weight file: every tensor must be there, with the shape predicted."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.errors import ModelError
from glassbert.heads import PARTS, Part
from glassbert.interop.family import Family
from glassbert.interop.names import nearest

if TYPE_CHECKING:
    from glassbert.interop.folder import ModelFolder

Shape = tuple[int, ...]


@dataclass(frozen=True)
class StoredShapes:
    """The shapes in a weight file, under our names."""

    folder: Path
    family: Family[Any]
    shapes: dict[str, Shape]
    repeated: tuple[str, ...] = ()
    """Names in the file of tensors that it holds a second time; they are counted once."""
    buffers: tuple[str, ...] = ()
    """Names in the file of tensors that are not weights."""
    remarks: tuple[str, ...] = ()
    """What else the reader noticed."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the file holds beside the encoder."""
        found = {name.split(".")[0] for name in self.shapes}
        return tuple(part for part in PARTS if part in found)

    def without(self, name: str, shape: Shape) -> "StoredShapes":
        """Return the same without a copy of a tied tensor, which some files keep; it must have ``shape``."""
        if name not in self.shapes:
            return self
        theirs = self.family.to_theirs(name)
        _check_shape(self.folder, theirs, self.shapes[name], shape)
        others = {other: shape for other, shape in self.shapes.items() if other != name}
        return replace(self, shapes=others, repeated=(*self.repeated, theirs))


def read_stored_shapes(found: "ModelFolder") -> StoredShapes:
    """Return the shapes of a folder's weights."""
    family, folder = found.family, found.path
    shapes: dict[str, Shape] = {}
    repeated, buffers = [], []
    for file_name, shape in found.stored.shapes.items():
        if family.is_buffer(file_name):
            buffers.append(file_name)
            continue
        name = family.to_ours(file_name)
        if name is None:
            raise ModelError(
                f"{folder}: {file_name} {shape} is not a tensor of {family.name}, so the table lacks it"
            )
        if name == "output.bias" and shape[:1] == (1,):
            shape = shape[1:]  # Marian keeps it as a row
        if name in shapes:
            _check_shape(folder, file_name, shape, shapes[name])
            repeated.append(file_name)
        shapes[name] = shape
    remarks = (*found.stored.notes, *found.config_notes, *_task_weights(folder))
    return StoredShapes(folder, family, shapes, tuple(repeated), tuple(buffers), remarks)


def _task_weights(folder: Path) -> tuple[str, ...]:
    # These import torch, which no other source of a table needs.
    from glassbert.interop.companions import TASK_WEIGHTS
    from glassbert.interop.safetensors_file import SafetensorsFile

    if not (folder / TASK_WEIGHTS).is_file():
        return ()
    number = sum(map(prod, SafetensorsFile(folder / TASK_WEIGHTS).shapes.values()))
    return (f"{TASK_WEIGHTS} holds {number:,} more, the task's own; they are not counted.",)


def verify(stored: StoredShapes, expected: Mapping[str, Shape]) -> None:
    """Raise unless the file holds exactly the ``expected`` tensors."""
    to_theirs, folder = stored.family.to_theirs, stored.folder
    for name, shape in expected.items():
        if name not in stored.shapes:
            spare = [to_theirs(other) for other in stored.shapes if other not in expected]
            guess = nearest(to_theirs(name), spare)
            hint = f"; it has {guess} instead" if guess else ""
            raise ModelError(
                f"{folder}: config.json asks for {to_theirs(name)} {shape}, which the file lacks{hint}"
            )
        _check_shape(folder, to_theirs(name), stored.shapes[name], shape)
    for name, shape in stored.shapes.items():
        if name not in expected:
            raise ModelError(
                f"{folder}: the file holds {to_theirs(name)} {shape}, which config.json has no place for"
            )


def _check_shape(folder: Path, name: str, found: Shape, expected: Shape) -> None:
    if found != expected:
        raise ModelError(f"{folder}: {name} has shape {found}; expected {expected} by config.json")

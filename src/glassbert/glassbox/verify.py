"""Closing a parameter table against a weight file: every tensor must be there, with the shape foretold."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError
from glassbert.interop.names import modernise, nearest, to_ours, to_theirs
from glassbert.interop.translator_config import is_encoder_decoder
from glassbert.storage import read_json

DECODER = "mlm.decoder.weight"

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Spelling:
    """How the files of one kind of model name their tensors."""

    kind: str
    to_theirs: Callable[[str], str]
    to_ours: Callable[[str], str | None]
    """None for what such a model does not have; two names may mean one tensor."""
    is_buffer: Callable[[str], bool]
    """Whether a tensor is no weight."""


def _bert_to_ours(name: str) -> str | None:
    modern = modernise(name)
    assert modern is not None
    return to_ours(modern)


_BERT = Spelling("BERT", to_theirs, _bert_to_ours, lambda name: modernise(name) is None)
_OWN = Spelling("a translator", str, str, lambda name: False)


@dataclass(frozen=True)
class StoredTensors:
    """The shapes in a weight file, under our names."""

    shapes: dict[str, Shape]
    spelling: Spelling
    repeated: tuple[str, ...] = ()
    """Names in the file of tensors that stand there a second time; they are counted once."""
    buffers: tuple[str, ...] = ()
    """Names in the file of tensors that are no weights."""
    remarks: tuple[str, ...] = ()
    """What the reader passed over."""

    @property
    def parts(self) -> frozenset[str]:
        """What the file holds beside the encoder: pooler, mlm, nsp, labels, span."""
        return frozenset(name.split(".")[0] for name in self.shapes) - {"encoder"}

    @property
    def file_names(self) -> Iterable[str]:
        """The tensors' names as files spell them now."""
        return map(self.spelling.to_theirs, self.shapes)


def read_stored(folder: Path) -> tuple[Mapping[str, Any], Path, StoredTensors]:
    """Return the content of a model folder's config, its path, and the shapes of the weights."""
    config, config_path, stored_shapes, remarks = _read(folder)
    spelling = _spelling(config)
    shapes: dict[str, Shape] = {}
    repeated, buffers = [], []
    for file_name, shape in stored_shapes.items():
        if spelling.is_buffer(file_name):
            buffers.append(file_name)
            continue
        name = spelling.to_ours(file_name)
        if name is None:
            raise ModelError(
                f"{folder}: {file_name} {shape} is no tensor of {spelling.kind}; the table cannot place it"
            )
        if name == "output.bias" and shape[:1] == (1,):
            shape = shape[1:]  # Marian keeps it as a row
        if name in shapes:
            _check_shape(folder, file_name, shape, shapes[name])
            repeated.append(file_name)
        shapes[name] = shape
    return config, config_path, StoredTensors(shapes, spelling, tuple(repeated), tuple(buffers), remarks)


def _spelling(config: Mapping[str, Any]) -> Spelling:
    if not is_encoder_decoder(config):
        return _BERT
    if config.get("model_type") != "marian":
        return _OWN
    from glassbert.interop.marian import COMPUTED, from_marian_name, marian_name

    return Spelling("Marian", marian_name, from_marian_name, lambda name: name in COMPUTED)


def _read(folder: Path) -> tuple[Mapping[str, Any], Path, Mapping[str, Shape], tuple[str, ...]]:
    # These import torch, which no other source of a table has to wait for.
    from glassbert.interop.folder import TASK_WEIGHTS
    from glassbert.interop.stored import read_stored
    from glassbert.interop.tf1.bundle import find_checkpoint
    from glassbert.interop.weights import read_file, read_shapes

    if find_checkpoint(folder) is None or any(folder.glob("*.safetensors")):
        config_path = folder / "config.json"
        remarks: tuple[str, ...] = ()
        if (folder / TASK_WEIGHTS).is_file():
            number = sum(tensor.numel() for _, tensor in read_file(folder / TASK_WEIGHTS))
            remarks = (f"{TASK_WEIGHTS} holds {number:,} more, the task's own; they are not counted.",)
        return read_json(config_path), config_path, read_shapes(folder), remarks
    source = read_stored(folder)
    shapes = {name: tuple(tensor.shape) for name, tensor in source.tensors.items()}
    return source.config, source.config_path, shapes, source.notes


def without_tied_decoder(stored: StoredTensors, folder: Path, shape: Shape) -> StoredTensors:
    """Return ``stored`` without a copy of the token embedding, which some files keep as the MLM decoder."""
    if DECODER not in stored.shapes:
        return stored
    _check_shape(folder, to_theirs(DECODER), stored.shapes[DECODER], shape)
    others = {name: shape for name, shape in stored.shapes.items() if name != DECODER}
    return replace(stored, shapes=others, repeated=(*stored.repeated, to_theirs(DECODER)))


def close(stored: StoredTensors, expected: Mapping[str, Shape], folder: Path) -> None:
    """Raise unless the file holds exactly the ``expected`` tensors."""
    spelled = stored.spelling.to_theirs
    for name, shape in expected.items():
        if name not in stored.shapes:
            spare = [spelled(other) for other in stored.shapes if other not in expected]
            guess = nearest(spelled(name), spare)
            hint = f"; it has {guess} instead" if guess else ""
            raise ModelError(
                f"{folder}: config.json asks for {spelled(name)} {shape}, which the file lacks{hint}"
            )
        _check_shape(folder, spelled(name), stored.shapes[name], shape)
    for name, shape in stored.shapes.items():
        if name not in expected:
            raise ModelError(
                f"{folder}: the file holds {spelled(name)} {shape}, which config.json has no place for"
            )


def _check_shape(folder: Path, name: str, found: Shape, expected: Shape) -> None:
    if found != expected:
        raise ModelError(f"{folder}: {name} has shape {found}; expected {expected} by config.json")

"""Models in any file format, as the content of config.json and tensors under their file names."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.interop.compressed import check_description, expand, is_scale
from glassbert.interop.config_keys import QUANTISATION
from glassbert.interop.tf1.bundle import Bundle, find_checkpoint, to_huggingface
from glassbert.interop.weights import read_pickled_weights, read_shapes, read_weights, weight_files
from glassbert.sentence import Sentence
from glassbert.storage import read_json

Kind = Literal["safetensors", "pickle", "tf1"]
PICKLE = "pytorch_model.bin"
GOOGLE_CONFIG = "bert_config.json"


@dataclass(frozen=True)
class StoredModel:
    """A model as found on disk. Its weights are read when they are asked for."""

    folder: Path
    kind: Kind
    config: Mapping[str, Any]
    config_path: Path
    checkpoint: Path | None = None
    """The prefix of the files of a TF1 checkpoint."""
    is_compressed: bool = False
    """Whether matrices have 8 bits and scales; `tensors` holds the expanded weights."""

    @cached_property
    def files(self) -> tuple[Path, ...]:
        """The files that hold the weights."""
        if self.checkpoint is not None:
            return tuple(sorted(self.folder.glob(f"{self.checkpoint.name}.*")))
        if self.kind == "pickle":
            return (self.folder / PICKLE,)
        return tuple(weight_files(self.folder))

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """Every tensor under its name in `transformers`' files."""
        return self._contents[0]

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor; of safetensors, no value is read for it."""
        if self.kind == "safetensors":
            return {name: shape for name, shape in self._shapes_in_file.items() if not self._is_scale(name)}
        return {name: tuple(tensor.shape) for name, tensor in self.tensors.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped, for the user."""
        if self.is_compressed:
            return ("its matrices are stored with 8 bits a weight",)
        return self._contents[1] if self.kind == "tf1" else ()

    @cached_property
    def _shapes_in_file(self) -> dict[str, tuple[int, ...]]:
        return read_shapes(self.folder)

    @cached_property
    def _contents(self) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
        if self.checkpoint is not None:
            return _read_tf1(self.checkpoint)
        if self.kind == "pickle":
            return read_pickled_weights(self.folder / PICKLE), ()
        tensors = read_weights(self.folder)
        return (expand(tensors, str(self.folder)) if self.is_compressed else tensors), ()

    def _is_scale(self, name: str) -> bool:
        return self.is_compressed and is_scale(name)


def find_stored(folder: str | Path, *, may_unpickle: bool = False) -> StoredModel:
    """Find out what kind of model folder this is, and read its config.

    Args:
        may_unpickle: Also open pytorch_model.bin. Only `convert`, which a user runs knowingly, allows it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ModelError(
            f"no folder {repr(str(folder))[1:-1]}; expected one with config.json and model.safetensors, or, "
            "with --online, a name on the Hugging Face hub"
        )
    has_safetensors = any(folder.glob("*.safetensors"))
    checkpoint = None if has_safetensors else find_checkpoint(folder)
    config_path = folder / GOOGLE_CONFIG
    if checkpoint is None or not config_path.is_file():
        config_path = folder / "config.json"
    kind: Kind = "safetensors"
    if checkpoint is not None:
        kind = "tf1"
    elif may_unpickle and not has_safetensors and (folder / PICKLE).is_file():
        kind = "pickle"
    config = read_json(config_path)
    if is_compressed := config.get(QUANTISATION) is not None and kind == "safetensors":
        check_description(config.pop(QUANTISATION), str(config_path))
    return StoredModel(folder, kind, config, config_path, checkpoint, is_compressed)


def _read_tf1(checkpoint: Path) -> tuple[Mapping[str, Tensor], tuple[str, ...]]:
    arrays, skipped = to_huggingface(Bundle(checkpoint))
    notes = [Sentence("unexpected variable {name}, left out", name=name) for name in skipped.unexpected]
    if skipped.optimizer:
        notes.insert(0, Sentence("{count} optimiser variables skipped", count=len(skipped.optimizer)))
    return {name: torch.from_numpy(array) for name, array in arrays.items()}, tuple(notes)

"""Whatever people have, read into one form: the content of config.json and tensors under their file names."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.interop.tf1.bundle import Bundle, find_checkpoint, to_huggingface
from glassbert.interop.weights import read_pickled_weights, read_weights, weight_files
from glassbert.storage import read_json

PICKLE = "pytorch_model.bin"
GOOGLE_CONFIG = "bert_config.json"


@dataclass(frozen=True)
class StoredModel:
    """A model as found on disk."""

    kind: Literal["safetensors", "pickle", "tf1"]
    config: Mapping[str, Any]
    config_path: Path
    tensors: Mapping[str, Tensor]
    files: tuple[Path, ...]
    """The files that hold the weights."""
    notes: tuple[str, ...] = ()
    """What was passed over, for the report."""


def read_stored(folder: Path, *, may_unpickle: bool = False) -> StoredModel:
    """Read a model folder of any kind we know.

    Args:
        may_unpickle: Also open pytorch_model.bin. Only `convert`, which a user runs knowingly, says so.
    """
    if not folder.is_dir():
        raise ModelError(
            f"no folder {folder}; expected one with config.json and model.safetensors, or, with --online, a "
            "name on the Hugging Face hub"
        )
    prefix = find_checkpoint(folder)
    if prefix is not None and not any(folder.glob("*.safetensors")):
        return _read_tf1(folder, prefix)
    config_path = folder / "config.json"
    config = read_json(config_path)
    if may_unpickle and (folder / PICKLE).is_file() and not any(folder.glob("*.safetensors")):
        tensors = read_pickled_weights(folder / PICKLE)
        return StoredModel("pickle", config, config_path, tensors, (folder / PICKLE,))
    return StoredModel("safetensors", config, config_path, read_weights(folder), tuple(weight_files(folder)))


def _read_tf1(folder: Path, prefix: Path) -> StoredModel:
    config_path = folder / GOOGLE_CONFIG
    if not config_path.is_file():
        config_path = folder / "config.json"
    arrays, skipped = to_huggingface(Bundle(prefix))
    notes = [f"{len(skipped.optimizer)} optimiser variables passed over"] if skipped.optimizer else []
    notes += [f"unexpected variable {name}, left out" for name in skipped.unexpected]
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    files = tuple(sorted(folder.glob(f"{prefix.name}.*")))
    return StoredModel("tf1", read_json(config_path), config_path, tensors, files, tuple(notes))

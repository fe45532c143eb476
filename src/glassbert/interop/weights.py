"""Weight files: safetensors, whole or sharded. Everything is checked before it is used."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor

from glassbert.errors import ModelError
from glassbert.interop.on_demand import OnDemand
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.storage import is_disk_full, read_json
from glassbert.typed import shown

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
_LONGEST_NAME = 200
"""Characters; file systems allow about 255 bytes."""


def weight_files(folder: str | Path) -> list[Path]:
    """Return the safetensors files of a model folder: one, or the shards that the index names."""
    folder = Path(folder)
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        return _shards(folder)
    if (folder / "pytorch_model.bin").is_file():
        raise ModelError(
            f"{folder} holds pytorch_model.bin, a pickle, which is never loaded; "
            f"run `glassbert convert {folder} NEW_FOLDER` once and use that folder"
        )
    raise ModelError(f"no weights in {folder}; expected {WEIGHTS}, or {INDEX} and its shards")


def read_weights(folder: str | Path) -> Mapping[str, Tensor]:
    """Return every tensor of a model folder, as stored; each is read when it is asked for."""
    files: dict[str, SafetensorsFile] = {}
    for path in weight_files(folder):
        file = SafetensorsFile(path)
        for name in file:
            if name in files:
                raise ModelError(f"{path}: tensor {name} is in another shard too")
            files[name] = file
    return OnDemand(files, lambda name: files[name][name])


def tensors_in(data: bytes, source: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file whose bytes have been read.

    Args:
        source: The file's name, for messages.
    """
    try:
        return load(data)
    except SafetensorError as error:
        raise ModelError(
            f"{source}: damaged or truncated safetensors file ({error}); fetch or write it again"
        ) from None


def read_shapes(folder: str | Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor without reading its values."""
    shapes: dict[str, tuple[int, ...]] = {}
    for path in weight_files(folder):
        shapes |= SafetensorsFile(path).shapes
    return shapes


def write_weights(tensors: Mapping[str, Tensor], path: str | Path) -> None:
    """Write ``tensors`` as one safetensors file; the caller makes the folder atomic."""
    save_tensors(tensors, path, metadata={"format": "pt"})  # `transformers` refuses files without the format


def save_tensors(
    tensors: Mapping[str, Tensor], path: str | Path, metadata: dict[str, str] | None = None
) -> None:
    """Write a safetensors file with the permissions that new files usually have."""
    path = Path(path)
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: tensor.detach().contiguous() for name, tensor in tensors.items()}, path, metadata)
    except SafetensorError as error:
        if is_disk_full(error):  # the library wraps the system's error in one of its own
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from None
        raise
    path.chmod(mode)  # the library makes files that only their owner can read


def read_pickled_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a pytorch_model.bin. Only `convert` calls this.

    ``weights_only`` limits a pickle but has been bypassed before (CVE-2025-32434, CVE-2026-24747), so no
    other verb ever opens one.
    """
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # unpickling hostile bytes can raise anything
        raise ModelError(
            f"{path}: not a plain file of tensors ({type(error).__name__}); nothing was loaded"
        ) from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise ModelError(f"{path}: expected a mapping of names to tensors")
    for name, tensor in content.items():
        if not _is_plain(tensor):
            raise ModelError(
                f"{path}: {name} is not a plain tensor (sparse, nested, quantised or without values)"
            )
    return content


def _is_plain(tensor: Tensor) -> bool:
    is_dense = tensor.layout == torch.strided and not tensor.is_nested
    return is_dense and tensor.device.type == "cpu" and not tensor.is_quantized


def _shards(folder: Path) -> list[Path]:
    weight_map = read_json(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{folder / INDEX}: expected a weight_map of tensor names to shard files")
    paths = []
    for name in sorted({str(shard) for shard in weight_map.values()}):
        # A shard lies beside its index; a path could name any file of the machine.
        if Path(name).name != name:
            raise ModelError(f"{folder / INDEX}: shard {shown(name)} is not a plain file name")
        if len(name) > _LONGEST_NAME or not (folder / name).is_file():
            raise ModelError(f"{folder / INDEX}: shard {shown(name)} is missing")
        paths.append(folder / name)
    return paths

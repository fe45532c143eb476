"""Files of a model folder beside its network: what sentence-transformers, a task or an objective keeps there.

They are kept as bytes, so that a loaded model no longer needs its folder, and are saved with the model.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.open_files import read_regular
from glassbert.storage import read_json
from glassbert.typed import typed

TASK_WEIGHTS = "task.safetensors"
"""Weights that a task has beyond those of BERT; `transformers` does not read this file."""
OBJECTIVE_WEIGHTS = "objective.safetensors"
"""Weights of an objective that belong to no model: to resume a run, and to measure the objective."""
MODELS = "models"
"""The key of run.json that names the folders of further models, which an objective trains."""
_NAMES = (
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    TASK_WEIGHTS,
    OBJECTIVE_WEIGHTS,
)
# A model that is stored as int8 has a quarter of the bytes; one that an objective trained beside it has not.
_MAX_SIZE_RATIO = 8

Companions = Mapping[str, bytes]
"""The bytes of each file by its path within the folder."""


def read_companions(folder: str | Path) -> Companions:
    """Return the files of a model folder that belong to the model beside its network."""
    folder = Path(folder)
    paths = [folder / name for name in _NAMES]
    own = (path for path in folder.glob("*.safetensors") if path.name not in _NAMES)
    max_bytes = _MAX_SIZE_RATIO * sum(path.stat().st_size for path in own)
    for name in further_models(read_json(folder / "run.json") if (folder / "run.json").is_file() else {}):
        paths += sorted((folder / name).glob("*"))
    return {path.relative_to(folder).as_posix(): _read(path, max_bytes) for path in paths if path.is_file()}


def _read(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a file; weights are checked, and none may be much larger than the model's own."""
    if path.suffix != ".safetensors":
        return read_regular(path)
    SafetensorsFile(path)
    if path.stat().st_size > max_bytes:
        raise ModelError(
            f"{path}: {path.stat().st_size:,} bytes, more than {_MAX_SIZE_RATIO} times the weights of the "
            "model; it belongs to another one, remove it or copy the right one"
        )
    return path.read_bytes()


def write_companions(companions: Companions, folder: str | Path, *, without_models: bool = False) -> None:
    """Write the files into ``folder``, which exists.

    Args:
        without_models: Leave out further models, which the caller writes.
    """
    for name, content in companions.items():
        path = Path(folder) / name
        if without_models and name not in _NAMES:
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)


def further_models(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the folders with further models that a run.json lists."""
    names: tuple[str, ...] = typed(
        run.get(MODELS, []), tuple[str, ...], f"run.json: {MODELS}", error=ModelError
    )
    for name in names:
        if Path(name).name != name:
            raise ModelError(f"run.json: {name[:80]!r} is not the name of a folder beside it")
    return names

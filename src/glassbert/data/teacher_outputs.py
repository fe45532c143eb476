"""A teacher's outputs for each input, on disk: the teacher runs once, and its students read them.

A folder holds the numbers of all inputs as float16, concatenated, how many rows each input has, and a
manifest with the hash of both and the key of what they were computed from.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import DataError, ModelError
from glassbert.open_files import PartsFile
from glassbert.ranges import Count
from glassbert.storage import new_file, new_folder, read_json, sha256_of, write_atomically, write_json
from glassbert.typed import record_from

MANIFEST, VALUES, ROWS = "teacher.json", "values.f16", "rows.u32"
_TYPE = np.dtype("<f2")


@dataclass(frozen=True)
class _Manifest:
    key: str
    columns: Count
    inputs: Count
    values_sha256: str
    rows_sha256: str


@dataclass(frozen=True)
class TeacherOutputs:
    """The numbers of each input, (rows, columns)."""

    folder: Path
    columns: int
    num_rows: NDArray[np.uint32]

    @classmethod
    def find(cls, folder: Path, key: str) -> "TeacherOutputs | None":
        """Return what the folder holds; None if it holds nothing, something else, or is damaged."""
        if not (folder / MANIFEST).is_file():
            return None
        try:
            manifest = record_from(
                _Manifest, read_json(folder / MANIFEST), str(folder / MANIFEST), error=ModelError
            )
            hashes = (sha256_of(folder / VALUES), sha256_of(folder / ROWS))
        except (ModelError, OSError):
            return None
        if (key, manifest.values_sha256, manifest.rows_sha256) != (manifest.key, *hashes):
            return None
        rows = np.frombuffer((folder / ROWS).read_bytes(), dtype="<u4")
        return cls(folder, manifest.columns, rows)

    @classmethod
    def write(cls, folder: Path, key: str, outputs: Iterable[NDArray[Any]]) -> "TeacherOutputs":
        """Write the numbers of each input, in order; the folder appears complete or not at all."""
        num_rows: list[int] = []
        columns, digest = 0, hashlib.sha256()
        with new_folder(folder, overwrite=True) as new:
            with new_file(new / VALUES) as file:
                for output in outputs:
                    with np.errstate(over="ignore"):  # infinity is refused below
                        values = np.atleast_2d(output).astype(_TYPE)
                    if not np.isfinite(values).all():
                        raise ModelError(
                            f"the teacher gives NaN or infinity for input {len(num_rows)}; `glassbert "
                            "doctor` finds the layer, or choose another teacher"
                        )
                    columns = values.shape[1]
                    num_rows.append(len(values))
                    data = values.tobytes()
                    digest.update(data)
                    file.write(data)
            rows = np.array(num_rows, dtype="<u4")
            write_atomically(new / ROWS, rows.tobytes())
            hashes = {"values_sha256": digest.hexdigest(), "rows_sha256": sha256_of(new / ROWS)}
            write_json(new / MANIFEST, {"key": key, "columns": columns, "inputs": len(rows), **hashes})
        return cls(folder, columns, rows)

    def __len__(self) -> int:
        return len(self.num_rows)

    def __getitem__(self, index: int) -> NDArray[np.float32]:
        """Return the numbers of an input, (rows, columns)."""
        start, stop = int(self._starts[index]), int(self._starts[index + 1])
        size = self.columns * _TYPE.itemsize
        data = self._file.read(start * size, (stop - start) * size)
        return np.frombuffer(data, dtype=_TYPE).reshape(stop - start, self.columns).astype(np.float32)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.num_rows, dtype=np.int64)])

    @cached_property
    def _file(self) -> PartsFile:
        return PartsFile(self.folder / VALUES, error=DataError)


def outputs_key(teacher_sha256: Iterable[str], ids: Iterable[NDArray[Any]]) -> str:
    """Return the name of a teacher's outputs for these inputs: a hash of its weights and of every id."""
    digest = hashlib.sha256("\n".join(teacher_sha256).encode())
    for one in ids:
        digest.update(np.array([len(one)], dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(one, dtype="<i4").tobytes())
    return digest.hexdigest()

"""Foreign safetensors files: read as their library does, and always checked."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassbert.errors import ModelError
from glassbert.interop.safetensors_file import SafetensorsFile

GENERATOR = torch.Generator().manual_seed(0)
TENSORS = {
    "a": torch.randn(3, 4, 5, generator=GENERATOR),
    "b": torch.arange(7),
    "c": torch.randn(2, 2, generator=GENERATOR).to(torch.bfloat16),
    "d": torch.randn(5, generator=GENERATOR).to(torch.float16),
    "e": torch.tensor([True, False]),
    "f": torch.empty(0, 3),
    "g": torch.tensor(2.5, dtype=torch.float64),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_file(TENSORS, tmp_path / "a.safetensors", {"format": "pt"})
    return tmp_path / "a.safetensors"


def test_every_type_and_shape_is_read_as_the_library_reads_it(path: Path) -> None:
    file, expected = SafetensorsFile(path), load_file(path)
    assert file.keys() == expected.keys()
    assert file.metadata == {"format": "pt"}
    for name, tensor in expected.items():
        assert (file[name].dtype, file.shapes[name]) == (tensor.dtype, tuple(tensor.shape))
        assert torch.equal(file[name], tensor), name
    assert torch.equal(file.part("a", 1, -1), TENSORS["a"][1, -1])
    with pytest.raises(IndexError):
        file.part("a", 3)


def test_what_is_read_belongs_to_nobody_else(path: Path) -> None:
    file = SafetensorsFile(path)
    file["a"].zero_()
    assert torch.equal(file["a"], TENSORS["a"])
    os.truncate(path, 200)
    with pytest.raises(ModelError, match=r"a\.safetensors: became shorter since it was opened"):
        dict(file)


def with_header(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the header of a file and leave its numbers."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    found = change(json.loads(data[8:end]))
    header = found if isinstance(found, bytes) else json.dumps(found).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + data[end:])


def entry(**changes: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda header: {**header, "a": {**header["a"], **changes}}


WRONG = {
    "a type that torch does not have": entry(dtype="F6_E2M3"),
    "a type that is none": entry(dtype={"a": 1}),
    "no type": entry(dtype=None),
    "a negative length": entry(shape=[-1, 60]),
    "more than the file": entry(shape=[2**40, 2**40], data_offsets=[0, 2**47]),
    "an absurd number": entry(shape=[10**300]),
    "a fraction": entry(shape=[1.5]),
    "a shape that is no list": entry(shape="60"),
    "very many axes": entry(shape=[1] * 10_000),
    "places in the wrong order": entry(data_offsets=[240, 0]),
    "an overlap": entry(data_offsets=[4, 244]),
    "one place": entry(data_offsets=[0]),
    "an entry that is no object": lambda header: {**header, "a": 5},
    "metadata of numbers": lambda header: {**header, "__metadata__": {"format": 1}},
    "a tensor less": lambda header: {name: header[name] for name in header if name != "g"},
    "a list": lambda header: list(header),
    "a deep one": lambda header: b"[" * 100_000,
    "bytes": lambda header: b"\xff\xfe\xfd",
    "more tensors than any model has": lambda header: {
        **header,
        **{f"x{at}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for at in range(50_000)},
    },
    "a key twice": lambda header: b'{"a": 1, "a": 2}',
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_a_header_that_lies_is_refused(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    with_header(path, change)
    with pytest.raises(ModelError, match="damaged or truncated safetensors file") as refused:
        SafetensorsFile(path)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize("data", [b"", b"1234567", b"\xff" * 8, (2).to_bytes(8, "little") + b"{} "])
def test_a_file_that_is_none_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(ModelError, match="damaged or truncated safetensors file"):
        SafetensorsFile(tmp_path / "a")


def test_what_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none", tmp_path / "loop", Path("/dev/zero")):
        with pytest.raises(ModelError, match=r"expected a file, got|cannot be read"):
            SafetensorsFile(path)

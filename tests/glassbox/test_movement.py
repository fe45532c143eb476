"""How far tensors moved between two saved models."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from glassbert.errors import ModelError
from glassbert.glassbox.movement import movements


def saved(folder: Path, **tensors: list[float]) -> Path:
    folder.mkdir()
    save_file({name: torch.tensor(values) for name, values in tensors.items()}, folder / "model.safetensors")
    return folder


def test_distance_size_and_largest_change(tmp_path: Path) -> None:
    before = saved(tmp_path / "a", w=[3.0, 4.0], b=[0.0, 0.0], still=[1.0])
    after = saved(tmp_path / "b", w=[3.0, 5.0], b=[0.0, -2.0], still=[1.0])
    found = {one.name: one for one in movements(before, after)}
    assert (found["w"].size, found["w"].moved, found["w"].largest) == (5.0, 1.0, 1.0)
    assert found["w"].share == 0.2
    assert found["b"].share == float("inf")
    assert (found["b"].largest, found["still"].share) == (2.0, 0.0)


def test_other_tensors_are_refused(tmp_path: Path) -> None:
    before, after = saved(tmp_path / "a", w=[1.0]), saved(tmp_path / "b", w=[1.0, 2.0])
    with pytest.raises(ModelError, match="a and b hold tensors of other names or shapes"):
        movements(before, after)

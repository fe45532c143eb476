import os
from pathlib import Path

import pytest
import torch

import glassbert as gb
from glassbert.errors import ModelError
from glassbert.interop.companions import OBJECTIVE_WEIGHTS, TASK_WEIGHTS, read_companions
from glassbert.interop.weights import save_tensors
from helpers.oracles import make_oracle, save_oracle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", [OBJECTIVE_WEIGHTS, TASK_WEIGHTS])
def test_weights_that_are_none_are_refused_before_they_are_read(folder: Path, name: str) -> None:
    with (folder / name).open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # zeros that take no room on the disk
    with pytest.raises(ModelError, match=rf"{name}: damaged"):
        gb.load(folder)


def test_weights_beside_a_model_are_about_as_large_as_its_own_at_most(folder: Path) -> None:
    save_tensors({"x": torch.zeros(10)}, folder / OBJECTIVE_WEIGHTS)
    assert set(read_companions(folder)) == {OBJECTIVE_WEIGHTS}
    num_values = (folder / "model.safetensors").stat().st_size * 2
    save_tensors({"x": torch.zeros(num_values)}, folder / OBJECTIVE_WEIGHTS)
    with pytest.raises(ModelError, match=r"more than 8 times the weights of the model"):
        gb.load(folder)

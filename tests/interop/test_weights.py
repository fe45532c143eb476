import json
import pickle
from pathlib import Path

import pytest
import torch

from glassbert.errors import ModelError
from glassbert.interop.weights import read_pickled_weights, read_shapes, read_weights, write_weights
from helpers.oracles import make_oracle, save_oracle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_oracle(make_oracle("BertModel"), tmp_path)


@pytest.mark.parametrize("size", [0, 4, 100, 5000])
def test_a_truncated_file_is_refused(folder: Path, size: int) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ModelError, match=r"model\.safetensors: damaged or truncated"):
        read_weights(folder)


def test_others_may_read_weights_as_they_may_any_file(tmp_path: Path) -> None:
    (tmp_path / "any").touch()
    write_weights({"a": torch.zeros(2)}, tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_header_that_promises_too_much_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes((2**60).to_bytes(8, "little") + path.read_bytes()[8:])
    with pytest.raises(ModelError, match="damaged or truncated"):
        read_weights(folder)


def test_a_folder_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no weights in"):
        read_weights(tmp_path)


def test_a_pickle_is_pointed_to_convert_and_not_opened(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"not even a pickle")
    with pytest.raises(ModelError, match="glassbert convert"):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"a": "../../etc/passwd"}, "is not a plain file name"),
        ({"a": "model-00001-of-00002.safetensors"}, "is missing"),
        ({}, "expected a weight_map"),
    ],
)
def test_an_index_cannot_lead_elsewhere(tmp_path: Path, weight_map: dict[str, str], message: str) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelError, match=message):
        read_weights(tmp_path)


def test_shapes_are_read_without_values(folder: Path) -> None:
    shapes = read_shapes(folder)
    assert shapes["embeddings.word_embeddings.weight"] == (60, 32)
    assert shapes.keys() == read_weights(folder).keys()


class Hostile:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("a pickle ran code",))


def test_a_pickle_with_code_in_it_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps({"weight": Hostile()}))
    with pytest.raises(ModelError, match="nothing was loaded"):
        read_pickled_weights(path)
    torch.save({"weight": Hostile()}, path)
    with pytest.raises(ModelError, match="nothing was loaded"):
        read_pickled_weights(path)
    assert "a pickle ran code" not in capsys.readouterr().out


ODD = {
    "sparse": lambda: torch.zeros(2, 2).to_sparse(),
    "compressed": lambda: torch.zeros(2, 2).to_sparse_csr(),
    "nested": lambda: torch._nested_tensor_from_tensor_list([torch.zeros(2), torch.zeros(3)]),
    "quantised": lambda: torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8),
    "without values": lambda: torch.zeros(2, device="meta"),
}


@pytest.mark.filterwarnings("ignore")  # torch says that some of them are new, others old
@pytest.mark.parametrize("kind", ODD)
def test_a_pickle_of_odd_tensors_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "pytorch_model.bin"
    torch.save({"plain": torch.zeros(2), "weight": ODD[kind]()}, path)
    with pytest.raises(ModelError, match="weight is not a plain tensor"):
        read_pickled_weights(path)

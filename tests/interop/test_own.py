import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassbert.errors import ModelError, UserError
from glassbert.interop.folder import TranslatorFolder, write_network
from glassbert.model.layout import Batch
from glassbert.storage import read_json
from helpers.small_translators import KINDS, START, small_network, small_transformer


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_comes_back_from_its_folder(kind: str, tmp_path: Path) -> None:
    network = small_network(kind)
    write_network(network, tmp_path)
    again = TranslatorFolder.open(tmp_path).build()[0]
    assert again.config == network.config
    assert list(again.state_dict()) == list(network.state_dict())
    for name, value in network.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name
    source, target = Batch.from_lists([[3, 4, 5]]), Batch.from_lists([[START, 6]])
    with torch.no_grad():
        assert torch.equal(again(source, target), network(source, target))
    has_own_output = "output.weight" in dict(again.named_parameters())
    assert has_own_output == (kind in ("pre", "learned", "rotary"))


def test_half_precision_halves_the_file_and_is_read_as_single(tmp_path: Path) -> None:
    network = small_transformer(norm_position="pre")
    write_network(network, tmp_path, dtype="bfloat16")
    assert load_file(tmp_path / "model.safetensors")["output.bias"].dtype == torch.bfloat16
    again = TranslatorFolder.open(tmp_path).build()[0]
    torch.testing.assert_close(again.output.bias, network.output.bias.bfloat16().float())
    with pytest.raises(UserError, match="dtype='int3'"):
        write_network(network, tmp_path, dtype="int3")


def damaged(folder: Path, config: dict[str, Any], tensors: dict[str, Any]) -> Path:
    """Write a folder, then change it; a value of None removes."""
    write_network(small_transformer(norm_position="pre"), folder)
    content = {k: v for k, v in (read_json(folder / "config.json") | config).items() if v is not None}
    (folder / "config.json").write_text(json.dumps(content))
    state = {k: v for k, v in (load_file(folder / "model.safetensors") | tensors).items() if v is not None}
    save_file(state, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("config", "tensors", "message"),
    [
        ({"architectures": ["Bird"]}, {}, "is a BERT, not a translator; train one with"),
        ({"num_decoder_layer": 3}, {}, "unknown key 'num_decoder_layer'; did you mean 'num_decoder_layers'"),
        ({"encoder": None}, {}, "no encoder; the file is damaged"),
        ({"encoder": 3}, {}, "encoder: expected an object, got 3"),
        ({"num_decoder_layers": 3}, {}, r"decoder.blocks.2.attention.query.weight is missing"),
        ({}, {"bird": torch.zeros(1)}, "unexpected tensor bird"),
        ({}, {"output.bias": torch.zeros(3)}, r"output.bias has shape \(3,\); config.json asks for \(20,\)"),
        ({}, {"output.bias": torch.full((20,), torch.nan)}, "output.bias holds NaN"),
    ],
)
def test_a_folder_that_does_not_fit_together_is_refused(
    config: dict[str, Any], tensors: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=message):
        TranslatorFolder.open(damaged(tmp_path, config, tensors)).build()[0]


def test_a_marian_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    write_network(small_transformer(), tmp_path)
    whole = load_file(tmp_path / "model.safetensors")
    shared = "model.shared.weight"
    for changes, message in (
        ({"lm_head.weight": whole[shared] + 1}, f"lm_head.weight and {shared} differ"),
        ({shared: whole[shared][:, :8].contiguous()}, r"has shape \(20, 8\)"),
        ({shared: None}, f"{shared} is missing"),
        ({"bird": torch.zeros(1)}, "unexpected tensor bird"),
    ):
        save_file(
            {k: v for k, v in (whole | changes).items() if v is not None}, tmp_path / "model.safetensors"
        )
        with pytest.raises(ModelError, match=message):
            TranslatorFolder.open(tmp_path).build()[0]
    copies = {"lm_head.weight": whole[shared].clone(), "model.encoder.embed_positions.weight": torch.ones(1)}
    save_file(whole | copies, tmp_path / "model.safetensors")
    assert TranslatorFolder.open(tmp_path).build()[0].config == small_transformer().config

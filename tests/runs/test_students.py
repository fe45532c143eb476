"""Students of every task: from a teacher's folder to a smaller model, measured beside it."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file, save_file

from glassbert.cli.main import main
from glassbert.config import ModelConfig, preset
from glassbert.data.teacher_outputs import TeacherOutputs
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.model.init import new_bert
from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.run import RunResult, carry_out
from glassbert.runs.teacher import TEACHER, student_of
from glassbert.storage import read_json
from glassbert.tasks.fine_tuning import FineTune
from helpers.oracles import small_tokenizer
from helpers.small_model import VOCAB_SIZE, other_vocabulary, sentiment
from helpers.task_rows import TASK_OF, rows_of, signalled_at

KINDS = ["single", "multi", "regression", "pair", "tag", "answer"]
TRAIN = {"steps": 6, "batch_size": 16, "learning_rate": 3e-3, "save_every": 3, "log_every": 1}


def deep_folder(folder: Path, num_blocks: int = 4) -> Path:
    shape = preset(
        "tiny",
        vocab_size=VOCAB_SIZE,
        num_hidden_layers=num_blocks,
        max_position_embeddings=40,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
    )
    folder.mkdir()
    write_model(new_bert(ModelConfig(encoder=shape, head="none"), seed=0), small_tokenizer(), folder, run={})
    return folder


@pytest.mark.parametrize("keep", [[99], [-1, 3], [0, 0, 3], [0], []])
def test_a_remembered_choice_that_makes_no_student_is_refused(tmp_path: Path, keep: list[int]) -> None:
    (tmp_path / "student.json").write_text(json.dumps({"keep": keep}))
    network, _ = EncoderFolder.open(deep_folder(tmp_path / "teacher")).build()
    with pytest.raises(ModelError, match=r"student\.json: keep=.*; remove the file to choose again"):
        student_of(network, "auto", 2, tmp_path, lambda bert: 0.0, str)


def carried_out(name: str, tables: dict[str, Any], out: Path, reported: list[str] | None = None) -> RunResult:
    with patch("glassbert.training.log.measured_peak", return_value=1e9):
        recipe = FineTuneRecipe.of(name, tables)
        return carry_out(recipe, out, log=(reported if reported is not None else []).append)


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a teacher of four blocks for each kind of label, and its files."""
    folder = tmp_path_factory.mktemp("given")
    deep_folder(folder / "model")
    for kind in KINDS:
        for name, number, seed in (("train", 48, 0), ("dev", 24, 1)):
            lines = (json.dumps(row) + "\n" for row in rows_of(kind, number, seed))
            (folder / f"{kind}.{name}.jsonl").write_text("".join(lines))
        tables = tables_of(folder, kind)
        tables["model"] = {"start": str(folder / "model")}
        carried_out(TASK_OF.get(kind, "classify"), tables, folder / kind)
    unlabelled = [{"text": f"{one.text} o"} for one in sentiment(20, 9)]
    (folder / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unlabelled))
    return folder


def tables_of(folder: Path, kind: str, **distil: Any) -> dict[str, dict[str, Any]]:
    files = {name: str(folder / f"{kind}.{name}.jsonl") for name in ("train", "dev")}
    return {"data": files, "train": dict(TRAIN), "distil": distil, "task": {"baseline": False}}


@pytest.mark.parametrize("kind", KINDS)
def test_a_student_of_every_task_has_half_the_blocks_and_is_measured_beside_its_teacher(
    kind: str, given: Path, tmp_path: Path
) -> None:
    reported: list[str] = []
    tables = tables_of(given, kind, teacher=str(given / kind / "best"))
    result = carried_out(TASK_OF.get(kind, "classify"), tables, tmp_path / "out", reported)
    student, teacher = load(result.model), load(given / kind)
    assert student.config.encoder.num_hidden_layers == 2
    keep = read_json(tmp_path / "out" / "student.json")["keep"]
    assert len(keep) == 2
    assert keep[-1] == 3
    assert any(line.startswith("tried 3 choices of blocks") for line in reported)
    kept = read_json(result.model / "run.json")["student"]
    assert result.evaluation is not None
    assert result.evaluation.comparison is not None
    assert kept == json.loads(json.dumps(result.evaluation.comparison.to_json()))
    assert kept["teacher"]["blocks"] == 4
    assert kept["student"]["blocks"] == 2
    assert kept["teacher"]["parameters"] == teacher.num_parameters
    assert kept["student"]["parameters"] == student.num_parameters
    of_teacher = teacher.evaluate(given / f"{kind}.dev.jsonl").metrics[kept["metric"]]
    assert kept["teacher"]["score"] == pytest.approx(of_teacher)
    assert kept["student"]["score"] == pytest.approx(result.metrics[kept["metric"]])
    assert kept["student"]["texts_per_second"] > 0
    again = load(result.model).evaluate(given / f"{kind}.dev.jsonl")
    assert again.comparison == result.evaluation.comparison, "evaluate shows the teacher, too"


def test_agreement_is_the_share_of_equal_decisions(given: Path, tmp_path: Path) -> None:
    tables = tables_of(given, "single", teacher=str(given / "single" / "best"))
    result = carried_out("classify", tables, tmp_path / "out")
    rows = [row["text"] for row in rows_of("single", 24, 1)]
    labels = [[one.label for one in load(path).predict(rows)] for path in (given / "single", result.model)]
    share = sum(a == b for a, b in zip(*labels, strict=True)) / len(rows)
    assert read_json(result.model / "run.json")["student"]["agreement"] == pytest.approx(share)


def test_the_teacher_answers_once_for_all_seeds_and_sessions(given: Path, tmp_path: Path) -> None:
    tables = tables_of(given, "single", teacher=str(given / "single" / "best"), keep="0,3")
    tables["runs"] = {"seeds": 2}
    with patch.object(TeacherOutputs, "write", wraps=TeacherOutputs.write) as wrote:
        carried_out("classify", tables, tmp_path / "out")
        carried_out("classify", tables, tmp_path / "out")
    assert wrote.call_count == 1
    folder = tmp_path / "out" / TEACHER
    answers = TeacherOutputs.find(folder, read_json(folder / "teacher.json")["key"])
    assert answers is not None
    assert len(answers) == 48


def test_a_student_that_is_stopped_resumes_bit_for_bit(given: Path, tmp_path: Path) -> None:
    tables = tables_of(given, "single", teacher=str(given / "single" / "best"))
    whole = carried_out("classify", tables, tmp_path / "whole")
    with patch.object(FineTune, "batch", signalled_at(3, signal.SIGTERM)):
        assert not carried_out("classify", tables, tmp_path / "parts").is_finished
    again = carried_out("classify", tables, tmp_path / "parts")
    for name in ("best", "last"):
        one, other = (load_file(out.out / name / "model.safetensors") for out in (whole, again))
        assert all(torch.equal(one[key], other[key]) for key in one)


def test_unlabelled_rows_are_learned_from_the_teacher_alone(given: Path, tmp_path: Path) -> None:
    teacher = str(given / "single" / "best")
    plain = tables_of(given, "single", teacher=teacher, keep="0,3")
    more = tables_of(given, "single", teacher=teacher, keep="0,3", unlabelled=str(given / "more.jsonl"))
    counts = {}
    for name, tables in (("plain", plain), ("more", more)):
        carried_out("classify", tables, tmp_path / name)
        manifest = read_json(tmp_path / name / TEACHER / "teacher.json")
        counts[name] = manifest["inputs"]
        logged = [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        assert all(row["taught_loss"] >= 0 for row in logged if "taught_loss" in row)
    assert counts == {"plain": 48, "more": 68}
    weights = [load_file(tmp_path / name / "last" / "model.safetensors") for name in counts]
    assert any(not torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_a_student_learns_more_from_the_teacher_than_from_nothing(given: Path, tmp_path: Path) -> None:
    """Without labels in the loss, the student still comes closer to its teacher."""
    tables = tables_of(given, "single", teacher=str(given / "single" / "best"), keep="0,3", gold_weight=0.0)
    tables["train"]["steps"] = 20
    carried_out("classify", tables, tmp_path / "out")
    logged = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["taught_loss"] for row in logged if "taught_loss" in row]
    assert losses[-1] < losses[0] / 2


def test_the_command_line_makes_a_student(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ["--train", str(given / "tag.train.jsonl"), "--dev", str(given / "tag.dev.jsonl")]
    arguments = ["--teacher", str(given / "tag"), "--blocks", "1", "--set", "train.steps=2"]
    assert main(["train", "tag", *files, *arguments, "--out", str(tmp_path / "out")]) == 0
    assert load(capsys.readouterr().out.strip()).config.encoder.num_hidden_layers == 1
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Teacher and student" in page
    assert "texts a second" in page


def test_teachers_and_students_that_do_not_fit_are_refused_before_anything_is_written(
    given: Path, tmp_path: Path
) -> None:
    out, teacher = tmp_path / "out", str(given / "single" / "best")
    start = {"start": str(deep_folder(tmp_path / "deep", 5))}
    strange = {"start": str(other_vocabulary(tmp_path / "other"))}
    cases: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
        ({"teacher": str(given / "tag" / "best")}, {}, ModelError, "a teacher for tag"),
        ({"teacher": str(given / "regression" / "best")}, {}, ModelError, "the student learns classify"),
        ({"teacher": str(given / "multi" / "best")}, {}, ModelError, "a teacher for classify"),
        ({"teacher": teacher}, strange, ModelError, "another vocabulary"),
        ({"teacher": teacher}, start, UserError, "a student has fewer blocks than its teacher"),
        ({"teacher": teacher, "keep": "0,4"}, {}, UserError, "the teacher has 4 blocks, 0 to 3"),
        ({"teacher": teacher, "blocks": 4}, {}, UserError, "a student has fewer blocks"),
        ({"teacher": teacher, "keep": "0,3"}, start, UserError, "no blocks of the teacher are kept"),
        ({"teacher": teacher, "keep": "0,3", "blocks": 2}, {}, UserError, "are both set"),
        ({"keep": "0,3"}, start, UserError, "name the teacher"),
        ({"teacher": teacher, "temperature": 0.0}, {}, UserError, "distil.temperature"),
        ({"teacher": str(given / "model")}, {}, ModelError, "no task"),
    ]
    for distil, model, error, message in cases:
        tables = {**tables_of(given, "single", **distil), "model": model}
        with pytest.raises(error, match=message):
            carried_out("classify", tables, out)
        assert not out.exists(), message


def test_a_teacher_that_gives_nan_ends_the_run_in_one_line(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(given / "single" / "best", tmp_path / "nan")
    path = tmp_path / "nan" / "model.safetensors"
    weights = load_file(path)
    weights["bert.encoder.layer.3.output.dense.bias"][0] = 3e38  # the LayerNorm above squares it
    save_file(weights, path, {"format": "pt"})
    files = ["--train", str(given / "single.train.jsonl"), "--dev", str(given / "single.dev.jsonl")]
    arguments = ["--teacher", str(tmp_path / "nan"), "--keep", "0,3", "--set", "train.steps=2"]
    assert main(["train", "classify", *files, *arguments, "--out", str(tmp_path / "out")]) == 4
    lines = capsys.readouterr().err.strip().splitlines()
    assert "the teacher gives NaN" in lines[-1]
    assert not (tmp_path / "out").exists()

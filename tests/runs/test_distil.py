"""Students of vectors: any text, a teacher, and a smaller encoder."""

import json
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import glassbert as gb
from glassbert.cli.main import main
from glassbert.config import ModelConfig, preset
from glassbert.data.sentences import sampled_sentences
from glassbert.errors import ModelError, UserError
from glassbert.inference.model import Model
from glassbert.interop.sentence_transformers import SentenceSettings
from glassbert.messages import say_nothing
from glassbert.model.init import new_bert
from glassbert.model.pooling import Pooling
from glassbert.storage import read_json
from glassbert.tasks.distillation import Distil, compared_vectors
from helpers.oracles import make_oracle, save_oracle, small_tokenizer
from helpers.small_model import VOCAB_SIZE, other_vocabulary, sentiment
from helpers.task_rows import signalled_at

SHORT = {"steps": 8, "learning_rate": 3e-3, "texts": 60, "held_out": 20, "log_every": 1, "save_every": 3}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a teacher of four blocks that pools by its first token, a text and pairs."""
    folder = tmp_path_factory.mktemp("given")
    shape = preset(
        "tiny",
        vocab_size=VOCAB_SIZE,
        num_hidden_layers=4,
        max_position_embeddings=40,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        initializer_range=0.3,  # so that texts differ
    )
    network = new_bert(ModelConfig(encoder=shape, head="mlm"), seed=0)
    pooling = SentenceSettings(Pooling(modes=("cls",), should_normalise=True), max_length=30)
    Model(network, small_tokenizer(), sentences=pooling).save(folder / "teacher")
    texts = [one.text for one in sentiment(120, 0)]
    (folder / "text.txt").write_text("".join(f"{text}.\n" for text in texts))
    vectors = np.asarray(gb.load(folder / "teacher").embed(texts[:41]))
    scores = (vectors[:-1] * vectors[1:]).sum(axis=1)
    rows = [f"{texts[at]}\t{texts[at + 1]}\t{score:.7f}\n" for at, score in enumerate(scores)]
    (folder / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + "".join(rows))
    return folder


def distilled(given: Path, out: Path, reported: list[str] | None = None, **settings: Any) -> gb.RunResult:
    with patch("glassbert.training.log.measured_peak", return_value=1e9):
        return gb.distil(
            given / "teacher",
            text=given / "text.txt",
            out=out,
            log=(reported if reported is not None else []).append,
            **{**SHORT, **settings},
        )


def test_a_student_comes_closer_to_its_teacher_and_pools_as_it_does(given: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    result = distilled(given, tmp_path / "out", reported, steps=40)
    student, teacher = gb.load(result.model), gb.load(given / "teacher")
    assert student.config.encoder.num_hidden_layers == 2
    assert (student.pooling, student.max_length) == (teacher.pooling, teacher.max_length)
    assert student.config.encoder.hidden_dropout_prob == teacher.config.encoder.hidden_dropout_prob
    logged = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["states_loss"] for row in logged if "states_loss" in row]
    assert losses[-1] < losses[0] / 2
    texts = [one.text for one in sentiment(30, 5)]
    cosines = (np.asarray(student.embed(texts)) * np.asarray(teacher.embed(texts))).sum(axis=1)
    assert cosines.mean() > 0.95
    assert student.fill("a [MASK]"), "the head of the teacher still fits"
    kept = read_json(result.model / "run.json")["student"]
    assert kept["keep"] == read_json(tmp_path / "out" / "student.json")["keep"]
    assert kept["agreement"] == pytest.approx(result.metrics["agreement"])
    assert kept["kept"] is None, "no pairs, no score"


def test_pairs_with_scores_of_people_measure_both(given: Path, tmp_path: Path) -> None:
    result = distilled(given, tmp_path / "out", keep=(0, 2, 3), pairs=given / "pairs.tsv", report=True)
    assert result.evaluation is not None
    found = result.evaluation.comparison
    assert found is not None
    lines = (given / "pairs.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    for model, side in ((given / "teacher", found.teacher), (result.model, found.student)):
        vectors = [np.asarray(gb.load(model).embed([row[place] for row in rows])) for place in (0, 1)]
        cosines = (vectors[0] * vectors[1]).sum(axis=1)
        expected = spearman(cosines, np.array([float(row[2]) for row in rows]))
        assert side.score == pytest.approx(expected, abs=1e-3)
    assert found.teacher.score == pytest.approx(1.0, abs=1e-3), "the pairs were scored by the teacher"
    assert found.kept == found.student.score / found.teacher.score  # type: ignore[operator]
    assert result.best_by == "agreement", "the pairs measure, and choose nothing"
    assert "Teacher and student" in (tmp_path / "out" / "report.html").read_text()


def spearman(first: Any, second: Any) -> float:
    ranks = [
        np.array([np.mean(np.flatnonzero(np.sort(one) == value)) for value in one]) for one in (first, second)
    ]
    return float(np.corrcoef(*ranks)[0, 1])


def test_a_run_that_is_stopped_resumes_bit_for_bit(given: Path, tmp_path: Path) -> None:
    whole = distilled(given, tmp_path / "whole")
    with patch.object(Distil, "batch", signalled_at(4, signal.SIGTERM, Distil)):
        assert not distilled(given, tmp_path / "parts").is_finished
    again = distilled(given, tmp_path / "parts")
    one, other = (load_file(run.out / "last" / "model.safetensors") for run in (whole, again))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_student_of_another_width_learns_how_alike_texts_are(given: Path, tmp_path: Path) -> None:
    narrow = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 2}
    result = distilled(given, tmp_path / "out", model="tiny", steps=40, **narrow)
    assert gb.load(result.model).config.encoder.hidden_size == 16
    assert "cosine" not in result.metrics
    logged = [json.loads(line) for line in (tmp_path / "out" / "metrics.jsonl").read_text().splitlines()]
    losses = [row["similarity_loss"] for row in logged if "similarity_loss" in row]
    assert losses[-1] < losses[0] / 2


def test_vectors_are_compared_by_all_similarities() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(20, 4)).astype(np.float32)
    turned = vectors @ np.linalg.qr(generator.normal(size=(4, 4)))[0].astype(np.float32)
    assert compared_vectors(vectors, vectors)["cosine"] == pytest.approx(1.0)
    found = compared_vectors(turned, vectors)
    assert found["agreement"] == pytest.approx(1.0, abs=1e-3), "a rotation changes no similarity"
    assert found["cosine"] < 0.9
    assert abs(compared_vectors(generator.normal(size=(20, 4)), vectors)["agreement"]) < 0.5


def test_a_sample_is_drawn_from_all_of_the_text_and_holds_no_sentence_twice(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"sentence {number % 300} here.\n" for number in range(600)))
    found = sampled_sentences(path, 100, seed=1, log=say_nothing)
    assert len(found) == len(set(found)) == 100
    numbers = [int(sentence.split()[1]) for sentence in found]
    assert 100 < np.mean(numbers) < 200
    assert found == sampled_sentences(path, 100, seed=1, log=say_nothing)
    assert found != sampled_sentences(path, 100, seed=2, log=say_nothing)


def test_what_cannot_be_distilled_is_refused_before_anything_is_written(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    other = other_vocabulary(tmp_path / "other")
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"keep": (0, 4)}, UserError, "0 to 3"),
        ({"keep": (0, 1)}, UserError, "the last block, 3"),
        ({"blocks": 4}, UserError, "fewer blocks"),
        ({"model": "tiny", "num_hidden_layers": 9}, UserError, "fewer blocks"),
        ({"model": "tiny", "blocks": 2}, UserError, "no blocks of the teacher"),
        ({"model": other}, ModelError, "another vocabulary"),
        ({"texts": 0}, UserError, "data.texts"),
    ]
    for settings, error, message in cases:
        with pytest.raises(error, match=message):
            distilled(given, out, **settings)
        assert not out.exists()
    save_oracle(make_oracle("BertForSequenceClassification", num_labels=2), tmp_path / "task")
    run = read_json(tmp_path / "task" / "run.json") if (tmp_path / "task" / "run.json").exists() else {}
    (tmp_path / "task" / "run.json").write_text(json.dumps({**run, "task": {"name": "classify"}}))
    with pytest.raises(ModelError, match="train classify --teacher"):
        gb.distil(tmp_path / "task", text=given / "text.txt", out=out, log=say_nothing)
    assert not out.exists()


@pytest.mark.parametrize("choice", [{"keep": (0, 4)}, {"keep": (0, 1)}, {"blocks": 4}])
def test_blocks_that_make_no_student_are_refused_before_the_text_is_read(
    given: Path, tmp_path: Path, choice: dict[str, Any]
) -> None:
    reported: list[str] = []
    with pytest.raises(UserError):
        distilled(given, tmp_path / "out", reported, **choice)
    assert not reported


def test_the_command_line_distils(given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = [f"--set={name}" for name in ("data.texts=40", "data.held_out=20", "train.steps=2")]
    files = ["--text", str(given / "text.txt"), "--out", str(tmp_path / "out")]
    assert main(["distil", str(given / "teacher"), *files, *changes, "--json", "--keep", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert gb.load(found["model"]).config.encoder.num_hidden_layers == 1
    assert main(["distil", str(given / "teacher"), "--out", str(tmp_path / "none")]) == 2
    assert "--text is missing" in capsys.readouterr().err

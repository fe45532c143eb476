import json
import math
import shutil
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.errors import UserError
from glassbert.evaluation.corpus import evaluate_corpus
from glassbert.evaluation.evaluate import evaluate
from glassbert.inference.loading import load
from glassbert.metrics.corpus import CorpusReport
from glassbert.runs.pretrain import PretrainRecipe
from glassbert.runs.run import carry_out
from helpers.oracles import make_oracle, save_oracle

TEXT = "the cat sat. the dog ran. the cat ran.\n\nthe dog sat. the cat sat. the dog ran.\n" * 4


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A model with fresh weights, and a corpus with its vocabulary."""
    model = save_oracle(make_oracle("BertForPreTraining"), tmp_path / "model")
    (tmp_path / "text.txt").write_text(TEXT)
    corpus = tmp_path / "corpus"
    arguments = ["corpus", "build", str(tmp_path / "text.txt"), "--form", "paragraphs"]
    assert main([*arguments, "--tokenizer", str(model), "--out", str(corpus)]) == 0
    return model, corpus


def test_a_model_that_knows_nothing_is_as_unsure_as_its_vocabulary_is_large(
    folders: tuple[Path, Path],
) -> None:
    model, corpus = load(folders[0]), folders[1]
    evaluation = evaluate(model, corpus)
    metrics = evaluation.metrics
    assert metrics["mlm_loss"] == pytest.approx(math.log(model.config.encoder.vocab_size), rel=0.2)
    assert set(metrics) == {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"}
    assert evaluation.examples > 0
    assert evaluate(model, corpus).metrics == metrics


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "sop"])
def test_a_model_is_measured_by_the_objective_that_it_was_trained_for(
    folders: tuple[Path, Path], tmp_path: Path, objective: str
) -> None:
    corpus = str(folders[1])
    recipe = PretrainRecipe.of(
        {
            "data": {"corpus": corpus, "held_out": corpus, "held_out_tokens": 300},
            "model": {"preset": "tiny", "max_position_embeddings": 40},
            "objective": {"name": objective, "max_length": 24, "short_prob": 0.4},
            "train": {"steps": 1, "batch_tokens": 64},
        }
    )
    result = carry_out(recipe, tmp_path / "run", log=lambda line: None)
    model, lines = load(tmp_path / "run" / "last"), list[str]()
    evaluation = evaluate_corpus(model, folders[1], name="m", num_tokens=300, log=lines.append)
    assert evaluation.metrics == pytest.approx(result.metrics)
    assert isinstance(evaluation.report, CorpusReport)
    assert (evaluation.report.objective, evaluation.report.max_length) == (objective, 24)
    assert lines == []


def test_the_objective_of_a_model_without_a_run_is_assumed_and_reported(
    folders: tuple[Path, Path],
) -> None:
    lines: list[str] = []
    evaluation = evaluate(folders[0], folders[1], log=lines.append)
    assert "assumed: objective mlm+nsp, since no run.json names the one of the training" in lines
    assert list(evaluation.notes) == lines


def test_evaluate_takes_a_corpus_and_gates_on_it(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, corpus = map(str, folders)
    capsys.readouterr()
    assert main(["evaluate", model, corpus, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["metrics"]["mlm_loss"] > 0
    assert main(["evaluate", model, corpus, "--min", f"mlm_loss={found['metrics']['mlm_loss'] + 1}"]) == 0
    assert main(["evaluate", model, corpus, "--min", "mlm_loss=0.01"]) == 5


def test_evaluate_writes_a_report_on_a_corpus(folders: tuple[Path, Path], tmp_path: Path) -> None:
    model, corpus = map(str, folders)
    page = tmp_path / "page.html"
    assert main(["evaluate", model, corpus, "--report", str(page)]) == 0
    assert "<h2>Objective: mlm+nsp</h2>" in page.read_text()


def test_a_model_without_an_mlm_head_is_exit_4(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = save_oracle(make_oracle("BertModel"), tmp_path / "plain")
    shutil.copy(folders[0] / "vocab.txt", plain / "vocab.txt")
    assert main(["evaluate", str(plain), str(folders[1])]) == 4
    assert "no MLM head" in capsys.readouterr().err


def test_half_precision_reaches_a_corpus(folders: tuple[Path, Path]) -> None:
    whole = evaluate(load(folders[0]), folders[1]).metrics
    half = evaluate(load(folders[0], precision="bfloat16"), folders[1]).metrics
    assert half["mlm_loss"] == pytest.approx(whole["mlm_loss"], rel=0.02)
    assert half["mlm_loss"] != whole["mlm_loss"]


def test_longer_examples_are_measured_on_request(
    folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model, corpus = map(str, folders)
    capsys.readouterr()
    found = {}
    for length in (12, 30):
        assert main(["evaluate", model, corpus, "--max-length", str(length), "--json"]) == 0
        found[length] = json.loads(capsys.readouterr().out)
        assert found[length]["report"]["max_length"] == length
    assert found[12]["examples"] > found[30]["examples"]


@pytest.mark.parametrize(
    ("length", "message"),
    [("100000", "exceeds the 40 positions of the model"), ("0", "at least 1"), ("2", "leaves no room")],
)
def test_a_length_that_the_model_cannot_read_is_refused(
    folders: tuple[Path, Path], length: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model, corpus = map(str, folders)
    capsys.readouterr()
    assert main(["evaluate", model, corpus, "--max-length", length]) == 2
    assert message in capsys.readouterr().err


def test_a_length_is_refused_for_rows(folders: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="max_length is for a corpus; leave it out"):
        evaluate(folders[0], [{"text": "the cat", "label": "a"}], max_length=8)

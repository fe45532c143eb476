import json
import math
import shutil
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.evaluation.corpus import measure_corpus
from glassbert.inference.model import load
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
    metrics, num_examples = measure_corpus(model, corpus)
    assert metrics["mlm_loss"] == pytest.approx(math.log(model.config.encoder.vocab_size), rel=0.2)
    assert set(metrics) == {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"}
    assert num_examples > 0
    assert measure_corpus(model, corpus) == (metrics, num_examples)


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


def test_a_model_without_an_mlm_head_is_exit_4(
    folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = save_oracle(make_oracle("BertModel"), tmp_path / "plain")
    shutil.copy(folders[0] / "vocab.txt", plain / "vocab.txt")
    assert main(["evaluate", str(plain), str(folders[1])]) == 4
    assert "no MLM head" in capsys.readouterr().err

from pathlib import Path

from glassbert.data.examples import TextExample
from glassbert.interop.huggingface import build
from glassbert.interop.source import read_source
from glassbert.tasks.classify import Classify, ClassifySettings, ClassPrediction
from glassbert.tasks.finetune import FineTune
from glassbert.training.loop import train
from glassbert.training.settings import TrainSettings
from oracles import small_tokenizer
from tasks.small_model import VOCAB_SIZE, sentiment, small_folder


def small_task(folder: Path) -> FineTune[TextExample, ClassPrediction]:
    tokenizer = small_tokenizer(VOCAB_SIZE)
    rows, dev = sentiment(200), sentiment(60, seed=1)
    form, _ = Classify.for_training("classify", ClassifySettings(), tokenizer, rows, dev, max_length=40)
    spec = form.head()
    bert, _ = build(read_source(folder), head=spec.head, labels=spec.labels, problem_type=spec.problem_type)
    return FineTune(bert, tokenizer, form, rows, dev, batch_size=16, batch_tokens=4096, seed=0)


def test_a_small_model_learns_a_small_task(tmp_path: Path) -> None:
    task = small_task(small_folder(tmp_path / "model"))
    settings = TrainSettings(epochs=6, learning_rate=3e-3, evaluate_every=20)
    result = train(task, settings, tmp_path / "run", about={}, tell=lambda line: None)
    assert result.metrics["accuracy"] > 0.95

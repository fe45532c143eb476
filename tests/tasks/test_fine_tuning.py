import random
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import AnswerExample, TextExample
from glassbert.errors import UserError
from glassbert.interop.folder import EncoderFolder
from glassbert.tasks.answer.predictions import AnswerPrediction
from glassbert.tasks.answer.settings import AnswerSettings
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.classify.settings import ClassifySettings
from glassbert.tasks.classify.task import Classify
from glassbert.tasks.fine_tuning import FineTune
from glassbert.training.loop import train
from glassbert.training.settings import TrainSettings
from helpers.answering import question_about, questions
from helpers.oracles import small_tokenizer
from helpers.small_model import VOCAB_SIZE, sentiment, small_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"), dropout=0.3)


def small_task(folder: Path, **settings: Any) -> FineTune[TextExample, ClassPrediction]:
    tokenizer = small_tokenizer(VOCAB_SIZE)
    rows, dev = sentiment(200), sentiment(60, seed=1)
    task, _ = Classify.for_training(
        "classify", ClassifySettings(**settings), tokenizer, rows, dev, max_length=40
    )
    spec = task.head()
    start = EncoderFolder.open(folder)
    bert, _ = start.build(head=spec.head, labels=spec.labels, problem_type=spec.problem_type)
    return FineTune(bert, tokenizer, task, rows, dev, batch_size=16, batch_tokens=4096, seed=0)


def answering_task(
    folder: Path, dev: list[AnswerExample], metric: str
) -> FineTune[AnswerExample, AnswerPrediction]:
    tokenizer, rows = small_tokenizer(VOCAB_SIZE), questions(20, impossible=0.5)
    task, _ = Extract.for_training(
        "answer", AnswerSettings(metric=metric), tokenizer, rows, dev, max_length=40
    )
    bert, _ = EncoderFolder.open(folder).build(head="answer")
    return FineTune(bert, tokenizer, task, rows, dev, batch_size=16, batch_tokens=4096, seed=0)


def test_a_small_model_learns_a_small_task(tmp_path: Path) -> None:
    task = small_task(small_folder(tmp_path / "model"))
    settings = TrainSettings(epochs=6, learning_rate=3e-3, evaluate_every=20)
    result = train(task, settings, tmp_path / "run", about={}, log=lambda line: None)
    assert result.metrics["accuracy"] > 0.95


def members(task: FineTune[Any, Any], steps: range) -> list[tuple[int, ...]]:
    return [tuple(one.example for one in task.batch(step)) for step in steps]


def test_batches_are_a_pure_function_of_the_step(folder: Path) -> None:
    task = small_task(folder)
    per_epoch = task.steps_in_epochs(1.0)
    assert per_epoch == 13
    first, second = members(task, range(per_epoch)), members(task, range(per_epoch, 2 * per_epoch))
    assert sorted(sum(first, ())) == sorted(sum(second, ())) == list(range(200))
    assert first != second
    again = small_task(folder)
    assert members(again, range(2 * per_epoch))[::-1] == [*first, *second][::-1]
    assert again.epoch_of(per_epoch) == 1.0
    assert again.steps_in_epochs(1.5) == 20


def test_the_parts_of_a_batch_add_up_to_it(folder: Path) -> None:
    task = small_task(folder)
    task.module.eval()
    batch = task.batch(3)
    whole = task.module(batch)
    parts = [task.module(part) for part in task.split(batch, 3)]
    for name in whole:
        assert sum(part[name].item() for part in parts) == pytest.approx(whole[name].item(), rel=1e-5)
    assert len(task.split(batch[:2], 3)) == 2
    assert task.counts(batch)["tokens"] == sum(map(len, batch))


def test_dropout_is_on_in_training_but_not_in_a_frozen_encoder(folder: Path) -> None:
    for is_frozen in (False, True):
        task = small_task(folder, freeze_encoder=is_frozen)
        task.module.train()
        encoder = task.module.bert.encoder
        assert encoder.training == (not is_frozen)
        assert task.module.bert.labels is not None
        assert task.module.bert.labels.training


@pytest.mark.parametrize("metric", ["has_answer_f1", "no_answer_accuracy"])
def test_a_metric_that_some_rows_call_for_is_known_whichever_comes_first(folder: Path, metric: str) -> None:
    generator = random.Random(0)
    answered, impossible = (question_about(3, generator, has_answer=has_one) for has_one in (True, False))
    for dev in ([answered, impossible], [impossible, answered]):
        task = answering_task(folder, dev, metric)
        task.check_metric()
        assert metric in task.evaluate()
    with pytest.raises(UserError, match=f"task.metric=.{metric}.; expected one of loss, exact_match, f1$"):
        answering_task(folder, [answered], metric).check_metric()

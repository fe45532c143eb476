"""A task's loss can be looked into: the module that is trained takes a tap."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from glassbert.data.pair_batches import TranslateObjective
from glassbert.interop.folder import EncoderFolder
from glassbert.model.tap import Tap
from glassbert.tasks.answer.task import AnswerSettings, Extract
from glassbert.tasks.classify.task import Classify, ClassifySettings
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.tag.task import Tag, TagSettings
from glassbert.tasks.translation import Translate
from helpers.answering import questions
from helpers.oracles import small_tokenizer
from helpers.sentence_pairs import encoded, sentence_pairs, small_network
from helpers.sentence_pairs import small_tokenizer as subword_tokenizer
from helpers.small_model import VOCAB_SIZE, sentiment, small_folder
from helpers.small_run import small_task as pretraining_task
from helpers.tagging import tagged_texts
from helpers.tap_names import OF_LOSSES, listed, plain, trace


def fine_tuning(name: str, kind: Any, settings: Any, rows: Any) -> Callable[[Path], FineTune[Any, Any]]:
    def make(folder: Path) -> FineTune[Any, Any]:
        tokenizer = small_tokenizer(VOCAB_SIZE)
        task, _ = kind.for_training(name, settings, tokenizer, rows, [], max_length=40)
        spec = task.head()
        bert, _ = EncoderFolder.open(folder).build(
            head=spec.head, labels=spec.labels, problem_type=spec.problem_type
        )
        return FineTune(bert, tokenizer, task, rows, [], batch_size=8, batch_tokens=4096, seed=0)

    return make


def translation(folder: Path) -> Translate:
    tokenizer = subword_tokenizer()
    pairs = encoded(tokenizer, sentence_pairs(20))
    network = small_network(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    return Translate(network, tokenizer, TranslateObjective(pairs, batch_tokens=300, seed=0))


TASKS: dict[str, Callable[[Path], Any]] = {
    "mlm+nsp": lambda folder: pretraining_task(dropout=0.0),
    "classify": fine_tuning("classify", Classify, ClassifySettings(), sentiment(40)),
    "tag": fine_tuning("tag", Tag, TagSettings(), tagged_texts(40)),
    "tag by a CRF": fine_tuning("tag", Tag, TagSettings(crf=True), tagged_texts(40)),
    "answer": fine_tuning("answer", Extract, AnswerSettings(), questions(20, impossible=0.5)),
    "translate": translation,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_folder(tmp_path_factory.mktemp("model"), dropout=0.0)


@pytest.mark.parametrize("name", TASKS)
def test_a_tapped_loss_is_the_loss_with_the_same_gradients(name: str, folder: Path) -> None:
    task = TASKS[name](folder)
    module, part = task.module.train(), task.batch(0)
    found = []
    for tap in (None, Tap(lambda _, value: value)):
        module.zero_grad()
        sums = module(part) if tap is None else module(part, tap)
        sum(sums[loss] for loss in task.loss_weights).backward()
        found.append((sums, [p.grad for p in module.parameters() if p.grad is not None]))
    (fast, fast_gradients), (glass, glass_gradients) = found
    assert fast.keys() == glass.keys()
    for key in fast:
        torch.testing.assert_close(glass[key], fast[key], atol=1e-4, rtol=1e-4)
    assert len(fast_gradients) == len(glass_gradients)
    for of_fast, of_glass in zip(fast_gradients, glass_gradients, strict=True):
        torch.testing.assert_close(of_glass, of_fast, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", TASKS)
def test_the_gradient_of_a_loss_reaches_every_number_that_it_is_made_of(name: str, folder: Path) -> None:
    task, seen = TASKS[name](folder), {}

    def keep(found: str, value: Tensor) -> Tensor:
        if value.requires_grad:
            value.retain_grad()
        seen[found] = value
        return value

    sums = task.module.eval()(task.batch(0), Tap(keep))
    sum(sums[loss] for loss in task.loss_weights).backward()
    assert {plain(found) for found in seen} <= set(listed())
    assert {"emb.out", "enc.0.mlp.act", "enc.out", *task.loss_weights} <= set(seen)
    waves, unread = {"emb.position", "dec.emb.position"}, {"head.pooler.dense", "head.pooled"}
    constants = waves if name == "translate" else unread if name.startswith(("tag", "answer")) else set()
    assert {found for found, value in seen.items() if value.grad is None} <= constants


def test_the_glossary_lists_every_name_of_a_loss(folder: Path) -> None:
    names = set()
    for make in TASKS.values():
        task = make(folder)
        names |= {plain(name) for name in trace(lambda tap, task=task: task.module(task.batch(0), tap))}
    assert OF_LOSSES <= names <= set(listed())

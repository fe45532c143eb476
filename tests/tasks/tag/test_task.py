import os
import random
import signal
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.config import ModelConfig
from glassbert.data.examples import Span, TagExample
from glassbert.errors import DataError, ModelError, UserError
from glassbert.inference.loading import load
from glassbert.interop.companions import TASK_WEIGHTS
from glassbert.interop.folder import EncoderFolder
from glassbert.model.bert import Bert, Output
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch
from glassbert.model.packed import pack
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.forward import raw_outputs
from glassbert.tasks.tag.predictions import TagPrediction
from glassbert.tasks.tag.scheme import TagSet
from glassbert.tasks.tag.settings import TagSettings
from glassbert.tasks.tag.task import Tag
from glassbert.tasks.task import Input, Task
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.windows import Window
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.loop import TrainResult, train
from glassbert.training.settings import TrainSettings
from helpers.oracles import small_tokenizer
from helpers.predicting import predictions
from helpers.small_model import VOCAB_SIZE, small_bert, small_folder
from helpers.tagging import KnowingNetwork, tagged_text, tagged_texts

TOKENIZER = small_tokenizer(VOCAB_SIZE)


def make_form(max_length: int = 40, **changes: Any) -> Tag:
    """Return a form for the labels of `tagging`."""
    task, _ = Tag.for_training(
        "tag", TagSettings(**changes), TOKENIZER, tagged_texts(50), [], max_length=max_length
    )
    return task


def make_network(task: Tag) -> Bert:
    """Return an untrained network whose tags are all about equally likely."""
    shape = small_bert().config.encoder
    return new_bert(
        ModelConfig(encoder=shape, head="tag", has_pooler=False, labels=task.tag_set.names), seed=1
    ).eval()


def spans_of(prediction: TagPrediction) -> tuple[Span, ...]:
    return tuple(Span(span.start, span.end, span.label) for span in prediction.spans)


def learn(
    folder: Path, steps: int = 120, event: Callable[[], None] | None = None, **changes: Any
) -> TrainResult:
    """Train for a while on tiny texts, one of them longer than the model takes.

    Args:
        event: Happens in the middle of the run.
    """
    rows = [*tagged_texts(300), tagged_text(60, random.Random(2))]
    dev = [*tagged_texts(40, seed=1), tagged_text(60, random.Random(3))]
    task, _ = Tag.for_training("tag", TagSettings(**changes), TOKENIZER, rows, dev, max_length=40)
    spec = task.head()
    start = EncoderFolder.open(small_folder(folder / "model", dropout=0.1))
    bert, _ = start.build(head=spec.head, labels=spec.labels)
    task: FineTune[TagExample, TagPrediction] = FineTune(
        bert, TOKENIZER, task, rows, dev, batch_size=16, batch_tokens=4096, seed=0
    )
    batch = task.batch

    def batch_with_event(step: int) -> list[Input]:
        if event is not None and step == steps // 2:
            event()
        return batch(step)

    task.batch = batch_with_event  # type: ignore[method-assign]
    settings = TrainSettings(steps=steps, learning_rate=1e-2, evaluate_every=1000)
    return train(task, settings, folder / "run", about={}, log=lambda line: None)


@pytest.fixture(scope="module", params=[{}, {"crf": True, "scheme": "bioes"}], ids=["plain", "crf"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run."""
    folder = tmp_path_factory.mktemp("tag")
    assert learn(folder, **request.param).metrics["f1"] > 0.9
    return folder / "run"


def loaded(folder: Path) -> tuple[Tag, Bert]:
    """Return the form and the network of a saved model."""
    model = load(folder)
    assert isinstance(model.task, Tag)
    return model.task, model.network


def test_a_loaded_model_finds_what_it_has_learned(run: Path) -> None:
    task, network = loaded(run / "best")
    dev = [*tagged_texts(40, seed=1), tagged_text(60, random.Random(3))]
    found = predictions(task, network, dev)
    assert task.measure(dev, found).f1 > 0.9
    assert task.has_whole_words
    for example, prediction in zip(dev, found, strict=True):
        for span in prediction.spans:
            assert span.text == example.text[span.start : span.end]
            assert 0.0 < span.score <= 1.0


def test_predictions_have_the_promised_shape(run: Path) -> None:
    model = load(run)
    found = model.predict(["a xyz b 好v", {"text": ""}])
    assert list(found[0].to_json()) == ["spans", "tokens", "truncated"]
    assert [(span["text"], span["label"]) for span in found[0].to_json()["spans"]] == [
        ("xyz", "PER"),
        ("好v", "LOC"),
    ]
    assert list(found[0].to_json()["spans"][0]) == ["start", "end", "label", "text", "score"]
    assert found[1].to_json() == {"spans": [], "tokens": 2, "truncated": False}


def test_a_resumed_run_equals_one_that_never_stopped(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    learn(whole, steps=6, crf=True)
    assert not learn(stopped, 6, lambda: os.kill(os.getpid(), signal.SIGTERM), crf=True).is_finished
    assert learn(stopped, 6, crf=True).is_finished
    for name in ("model.safetensors", TASK_WEIGHTS):
        assert (stopped / "run/last" / name).read_bytes() == (whole / "run/last" / name).read_bytes()


def test_a_text_alone_is_tagged_as_in_any_batch(run: Path) -> None:
    task, network = loaded(run / "best")
    texts = [*tagged_texts(20, seed=4), tagged_text(60, random.Random(5)), TagExample("", None, "x")]
    together = predictions(task, network, texts)
    for prediction, text in zip(together, texts, strict=True):
        (alone,) = predictions(task, network, [text])
        assert spans_of(alone) == spans_of(prediction)
        np.testing.assert_allclose(
            [span.score for span in alone.spans], [span.score for span in prediction.spans], atol=1e-5
        )
    backwards = predictions(task, network, texts[::-1])[::-1]
    assert [spans_of(one) for one in backwards] == [spans_of(one) for one in together]


def test_transformers_loads_the_folder_and_gives_the_same_logits(run: Path) -> None:
    task, network = loaded(run / "best")
    theirs, report = transformers.AutoModelForTokenClassification.from_pretrained(
        run / "best", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert tuple(theirs.config.id2label.values()) == task.tag_set.names
    (inputs,) = task.inputs([tagged_texts(1, seed=6)[0]], with_targets=False)
    with torch.no_grad():
        ours = network(pack(inputs)).labels
        logits = theirs.eval()(torch.from_numpy(inputs[0].ids)[None].long()).logits[0]
    torch.testing.assert_close(ours, logits, atol=1e-5, rtol=1e-5)


def test_the_form_follows_the_protocol() -> None:
    task: Task[TagExample, TagPrediction] = make_form()
    assert task.best_by == "f1"


def test_tags_are_at_their_pieces_and_borders_at_the_specials() -> None:
    task = make_form()
    (inputs,) = task.inputs(
        [TagExample("a xy 好", (Span(2, 4, "PER"), Span(5, 6, "LOC")), "x")], with_targets=True
    )
    assert len(inputs) == 1
    assert inputs[0].target is not None
    names = [*task.tag_set.names, "border"]
    assert [names[tag] for tag in inputs[0].target] == ["border", "O", "B-PER", "I-PER", "B-LOC", "border"]


def test_every_piece_of_a_long_text_is_judged_once_and_by_the_window_that_shows_most() -> None:
    task = make_form(max_length=10, stride=3)
    example = tagged_text(40, random.Random(0))
    (whole,) = make_form(max_length=1000).inputs([example], with_targets=True)
    (inputs,) = task.inputs([example], with_targets=True)
    assert len(inputs) > 10
    assert whole[0].target is not None
    found: dict[int, int] = {}
    for one in inputs:
        assert one.target is not None
        assert len(one) == 10
        for place in np.flatnonzero(one.target >= 0).tolist():
            at = one.window.start + place
            assert at not in found
            found[at] = int(one.target[place])
    assert [found[at] for at in range(len(whole[0]))] == whole[0].target.tolist()
    assert task.counts(inputs) == make_form(max_length=1000).counts(whole)


def test_an_untrained_model_has_the_loss_of_guessing() -> None:
    task = make_form()
    network = make_network(task)
    inputs = [one for windows in task.inputs(tagged_texts(20), with_targets=True) for one in windows]
    sums = task.losses(network(pack(inputs)), inputs)
    assert sums["loss"].item() / task.counts(inputs)["loss"] == pytest.approx(np.log(5), abs=0.05)


def test_an_untrained_crf_excludes_illegal_tags() -> None:
    plain, task = make_form(), make_form(crf=True)
    network = make_network(task)
    inputs = [one for windows in task.inputs(tagged_texts(20), with_targets=True) for one in windows]
    output = network(pack(inputs))
    loss, free_loss = task.losses(output, inputs)["loss"], plain.losses(output, inputs)["loss"]
    assert 0.5 * free_loss < loss < 0.95 * free_loss


def test_windows_of_a_crf_can_begin_and_end_inside_a_span() -> None:
    task = make_form(max_length=10, stride=3, crf=True)
    text = "xyz" * 10
    (inputs,) = task.inputs([TagExample(text, (Span(0, 30, "PER"),), "x")], with_targets=True)
    loss = task.losses(make_network(task)(pack(inputs)), inputs)["loss"]
    assert loss.item() / 30 < 3 * np.log(5)  # a forbidden step would cost thousands


def test_rows_without_a_piece_bear_no_loss() -> None:
    for task in (make_form(), make_form(crf=True)):
        (inputs,) = task.inputs([TagExample(" \n ", (), "x")], with_targets=True)
        assert task.counts(inputs)["loss"] == 0
        loss = task.losses(make_network(task)(pack(inputs)), inputs)["loss"]
        assert loss.item() == 0.0
        loss.backward()
        assert task.extra is None or task.extra.weight.grad is not None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \t ", []),
        ("龘龘 ☃", []),  # unknown characters only
        ("a Xy, xZ。 b", [("Xy", "PER"), ("xZ", "PER")]),
        ("我今天uv", [("今天", "PER"), ("uv", "LOC")]),
        (
            "\u200bXY\u0301Z\u200b a",
            [("XY\u0301Z", "PER")],
        ),  # what has no piece of its own lies inside or outside
        ("a\r\n今 天 b", [("今 天", "PER")]),
    ],
)
def test_spans_are_exact_substrings(text: str, expected: list[tuple[str, str]]) -> None:
    task = make_form()
    network = KnowingNetwork(TOKENIZER, task.tag_set)
    (prediction,) = predictions(task, network, [TagExample(text, None, "x")])
    assert [(span.text, span.label) for span in prediction.spans] == expected
    assert prediction.tokens == 2 + len(TOKENIZER.pieces_of(text).ids)
    assert not prediction.truncated


@settings(deadline=None, max_examples=30)
@given(st.text("axu今好 ，É\u0301\u200b한龘", max_size=60), st.integers(4, 12))
def test_spans_of_any_text_are_substrings_in_order(text: str, max_length: int) -> None:
    task = make_form(max_length=max_length)
    (prediction,) = predictions(task, make_network(task), [TagExample(text, None, "x")])
    at = 0
    for span in prediction.spans:
        assert at <= span.start < span.end <= len(text)
        assert span.text == text[span.start : span.end]
        at = span.end


def test_no_border_falls_inside_a_character() -> None:
    # A syllable is three pieces, which the network would divide between two spans.
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, "\u1112", "##\u1161", "##\u11ab")))
    task = Tag(tag_set=TagSet.of(("X",)), tokenizer=tokenizer, max_length=40, has_whole_words=False)
    logits = torch.zeros(8, 3)
    logits[1:7, 1] = 5.0  # two syllables, every piece of them begins a span

    def network(batch: Batch) -> Output:
        return Output(hidden=torch.zeros(8, 1), labels=logits)

    (prediction,) = predictions(task, network, [TagExample("\ud55c \ud55c", None, "x")])
    assert [(span.start, span.end) for span in prediction.spans] == [(0, 1), (2, 3)]


def test_a_text_of_300_000_characters_is_tagged_exactly_in_bounded_time() -> None:
    example = tagged_text(105_000, random.Random(0))
    assert len(example.text) > 300_000
    task = make_form(max_length=512)
    network = KnowingNetwork(TOKENIZER, task.tag_set)
    started = time.process_time()
    (prediction,) = predictions(task, network, [example])
    assert time.process_time() - started < 30
    assert spans_of(prediction) == example.spans
    assert network.longest <= 3000  # tokens that the network sees at once


@pytest.mark.slow
def test_a_text_of_300_000_characters_takes_memory_for_its_logits_only() -> None:
    example = tagged_text(105_000, random.Random(0))
    task = make_form(max_length=512)
    tracemalloc.start()
    predictions(task, KnowingNetwork(TOKENIZER, task.tag_set), [example])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6


def test_no_border_falls_inside_a_word_unless_training_had_such() -> None:
    example = TagExample("a xyab", None, "x")
    whole = make_form()
    assert whole.has_whole_words
    (prediction,) = predictions(whole, KnowingNetwork(TOKENIZER, whole.tag_set), [example])
    assert [span.text for span in prediction.spans] in ([], ["xyab"])
    rows = [*tagged_texts(50), TagExample("xyab", (Span(0, 2, "PER"),), "x")]
    free, notes = Tag.for_training("tag", TagSettings(), TOKENIZER, rows, [], max_length=40)
    assert not free.has_whole_words
    (prediction,) = predictions(free, KnowingNetwork(TOKENIZER, free.tag_set), [example])
    assert [span.text for span in prediction.spans] == ["xy"]
    assert not any("inside a word" in note for note in notes)


def test_remarks_describe_the_examples() -> None:
    rows = [
        TagExample("ab ☃☃ 好", (Span(0, 2, "PER"), Span(3, 4, "LOC"), Span(4, 5, "LOC")), "train.jsonl:1"),
        TagExample("ab ", (Span(0, 3, "PER"),), "train.jsonl:2"),
    ]
    dev = [TagExample("a", (Span(0, 1, "PER"),), "dev.jsonl:1")]
    _, notes = Tag.for_training("tag", TagSettings(), TOKENIZER, rows, dev, max_length=40)
    assert notes == [
        "2 labels: LOC (2), PER (2)",
        "no held-out row has the label LOC: how well it is found stays unknown",
        "2 of 4 spans do not end where pieces do: moved to whole pieces",
        "1 of 4 spans have no piece of their own: left out",
    ]
    _, notes = Tag.for_training("tag", TagSettings(), TOKENIZER, rows[1:], dev, max_length=40)
    assert notes[1:] == [
        "no training span begins or ends inside a word, so no predicted one will",
        "1 of 1 spans do not end where pieces do: moved to whole pieces",
    ]


def test_examples_that_nothing_can_be_learned_from_are_refused() -> None:
    def refused(train_rows: list[TagExample], dev: list[TagExample]) -> str:
        with pytest.raises(DataError) as caught:
            Tag.for_training("tag", TagSettings(), TOKENIZER, train_rows, dev, max_length=40)
        return str(caught.value)

    good = TagExample("a", (Span(0, 1, "PER"),), "train.jsonl:1")
    assert refused([TagExample("a", (), "train.jsonl:1")], []).startswith(
        "none of the 1 training rows has a span"
    )
    assert refused([TagExample("a", None, "train.jsonl:1")], []).startswith(
        "train.jsonl:1: the row has no spans"
    )
    assert refused([good], [TagExample("a", (Span(0, 1, "ORG"),), "dev.jsonl:7")]) == (
        "dev.jsonl:7: label 'ORG' is in no training row; the training rows have PER"
    )


def test_a_label_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(ModelError, match="test.jsonl:3: label 'ORG' is not one of the model's: LOC, PER"):
        make_form().inputs([TagExample("a", (Span(0, 1, "ORG"),), "test.jsonl:3")], with_targets=True)


def test_all_of_a_text_is_read() -> None:
    with pytest.raises(
        UserError, match="task.long_text=head: the task reads all of a text, in windows; remove it"
    ):
        TagSettings(long_text="head")


def test_a_run_without_spans_raises_an_alarm() -> None:
    task = make_form()
    nothing = [TagPrediction((), 2)]
    example = TagExample("x", (Span(0, 1, "PER"),), "x")
    assert task.alarm([example], nothing) == "no span is found"
    assert task.alarm([TagExample("a", (), "x")], nothing) is None


def test_tuning_finds_the_temperature_that_was_lost() -> None:
    task = make_form()
    network = make_network(task)
    rows = tagged_texts(60, seed=9)
    inputs = task.inputs(rows, with_targets=True)
    flat = raw_outputs(task, network, inputs)
    generator = np.random.default_rng(0)
    # Logits whose probabilities are true: the right tag is drawn from them.
    for windows, of_row in zip(inputs, flat, strict=True):
        for number, one in enumerate(windows):
            assert one.target is not None
            logits = 2 * generator.normal(size=of_row[number].shape)
            cumulated = np.cumsum(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), axis=1)
            one.target[1:-1] = (generator.random((len(logits), 1)) > cumulated).sum(axis=1)
            of_row[number] = 3.0 * logits
    tuning = task.tune(rows, inputs, flat)
    assert tuning.temperature == pytest.approx(3.0, rel=0.15)


def test_scores_before_and_after_the_temperature_are_both_known() -> None:
    rows = tagged_texts(30, seed=9)
    task = make_form()
    cooled = Tag(
        tag_set=task.tag_set, tokenizer=TOKENIZER, max_length=40, temperature=4.0, has_whole_words=True
    )
    network = KnowingNetwork(TOKENIZER, task.tag_set)
    found = predictions(cooled, network, rows)
    assert all(span.uncalibrated > span.score for one in found for span in one.spans)
    measured = cooled.calibration(rows, found)
    assert measured is not None
    assert measured.ece > measured.ece_uncalibrated  # every span is right: surer is better
    assert "uncalibrated" not in found[0].to_json()["spans"][0]
    assert task.calibration(rows, [TagPrediction((), 2)] * len(rows)) is None


def test_a_folder_of_others_is_read_by_the_names_of_its_tags() -> None:
    labels = ("O", "B-MISC", "I-MISC")
    config = ModelConfig(encoder=small_bert().config.encoder, head="tag", has_pooler=False, labels=labels)
    task = Tag.from_run("tag", {}, TOKENIZER, config, max_length=30)
    assert task.tag_set == TagSet(labels)
    assert (task.max_length, task.has_whole_words, task.extra) == (30, True, None)


def test_the_windows_of_a_run_are_those_of_its_training() -> None:
    task = make_form(max_length=10, stride=3)
    config = ModelConfig(
        encoder=small_bert().config.encoder, head="tag", has_pooler=False, labels=task.tag_set.names
    )
    again = Tag.from_run("tag", task.to_run(), TOKENIZER, config, max_length=40)
    (inputs,) = again.inputs([TagExample("a" * 14, None, "x")], with_targets=False)
    assert [one.window for one in inputs] == [Window(0, 8), Window(3, 11), Window(6, 14)]

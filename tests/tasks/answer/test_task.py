import json
import random
import time
import tracemalloc
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.config import ModelConfig
from glassbert.data.examples import Answer, AnswerExample
from glassbert.errors import DataError, UserError
from glassbert.inference.loading import load
from glassbert.interop.folder import EncoderFolder
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.packed import pack
from glassbert.tasks.answer.predictions import AnswerPrediction
from glassbert.tasks.answer.settings import AnswerSettings
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.forward import raw_outputs
from glassbert.tasks.task import Task
from glassbert.text.windows import Window
from glassbert.training.loop import train
from glassbert.training.settings import TrainSettings
from helpers.answering import KnowingNetwork, question_about, questions
from helpers.oracles import small_tokenizer
from helpers.predicting import predictions
from helpers.small_model import VOCAB_SIZE, small_bert, small_folder

TOKENIZER = small_tokenizer(VOCAB_SIZE)


def make_form(max_length: int = 40, impossible: float = 0.0, **changes: Any) -> Extract:
    task, _ = Extract.for_training(
        "answer",
        AnswerSettings(**changes),
        TOKENIZER,
        questions(50, impossible=impossible),
        [],
        max_length=max_length,
    )
    return task


@cache
def make_network() -> Bert:
    """Return an untrained network that finds all places about equally likely."""
    shape = small_bert().config.encoder
    return new_bert(ModelConfig(encoder=shape, head="answer", has_pooler=False), seed=1).eval()


def ask(question: str, context: str) -> AnswerExample:
    return AnswerExample("", question, context, None, "input:1")


def place(prediction: AnswerPrediction) -> tuple[str, int | None, int | None]:
    return prediction.answer, prediction.start, prediction.end


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short training run on tiny contexts, some longer than the model takes, some without an answer."""
    folder = tmp_path_factory.mktemp("answer")
    rows = [*questions(600, impossible=0.3), *(question_about(25, random.Random(seed)) for seed in range(20))]
    dev = [*questions(60, seed=1, impossible=0.3), question_about(25, random.Random(50))]
    task, _ = Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows, dev, max_length=40)
    bert, _ = EncoderFolder.open(small_folder(folder / "model")).build(head="answer")
    task: FineTune[AnswerExample, AnswerPrediction] = FineTune(
        bert, TOKENIZER, task, rows, dev, batch_size=16, batch_tokens=4096, seed=0
    )
    settings = TrainSettings(epochs=7, learning_rate=5e-3, evaluate_every=1000)
    result = train(task, settings, folder / "run", about={}, log=lambda line: None)
    assert result.metrics["f1"] > 0.85
    return folder / "run"


def loaded(folder: Path) -> tuple[Extract, Bert]:
    """Return the form and the network of a saved model."""
    model = load(folder)
    assert isinstance(model.task, Extract)
    return model.task, model.network


def test_a_loaded_model_answers_what_it_has_learned(run: Path) -> None:
    task, network = loaded(run / "best")
    dev = questions(60, seed=1, impossible=0.3)
    found = predictions(task, network, dev)
    assert task.can_be_none
    assert task.measure(dev, found).f1 > 0.85
    assert {one.answer == "" for one in found} == {True, False}
    for example, prediction in zip(dev, found, strict=True):
        for answer in prediction.n_best:
            assert answer.answer == example.context[answer.start : answer.end]
            assert 0.0 < answer.score <= 1.0


def test_predictions_have_the_promised_shape(run: Path) -> None:
    (found,) = load(run).predict([{"question": "x", "context": "a uv b"}])
    content = found.to_json()
    assert list(content) == [
        "answer", "start", "end", "score", "n_best", "no_answer_score", "tokens", "truncated"
    ]  # fmt: skip
    assert list(content["n_best"][0]) == ["answer", "start", "end", "score"]
    assert content["tokens"] == 8
    json.dumps(content, allow_nan=False)


def test_a_question_alone_is_answered_as_in_any_batch(run: Path) -> None:
    task, network = loaded(run / "best")
    asked = [*questions(20, seed=4, impossible=0.3), question_about(60, random.Random(5)), ask("x", "")]
    together = predictions(task, network, asked)
    for prediction, example in zip(together, asked, strict=True):
        (alone,) = predictions(task, network, [example])
        assert place(alone) == place(prediction)
        np.testing.assert_allclose(
            [alone.score, alone.no_answer_score, *(one.score for one in alone.n_best)],
            [prediction.score, prediction.no_answer_score, *(one.score for one in prediction.n_best)],
            atol=1e-5,
            rtol=1e-5,
        )
    assert [place(one) for one in predictions(task, network, asked[::-1])] == [
        place(one) for one in together[::-1]
    ]


def test_transformers_loads_the_folder_and_gives_the_same_logits(run: Path) -> None:
    task, network = loaded(run / "best")
    theirs, report = transformers.AutoModelForQuestionAnswering.from_pretrained(
        run / "best", output_loading_info=True
    )
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    (inputs,) = task.inputs(questions(1, seed=6), with_targets=False)
    with torch.no_grad():
        ours = network(pack(inputs)).span
        output = theirs.eval()(
            torch.from_numpy(inputs[0].ids)[None].long(),
            token_type_ids=torch.from_numpy(inputs[0].segments)[None].long(),
        )
    logits = torch.stack([output.start_logits[0], output.end_logits[0]], dim=1)
    torch.testing.assert_close(ours, logits, atol=1e-5, rtol=1e-5)


def test_the_form_follows_the_protocol() -> None:
    task: Task[AnswerExample, AnswerPrediction] = make_form()
    assert task.best_by == "f1"


def test_targets_count_the_pieces_of_the_context_from_one() -> None:
    example = AnswerExample("", "x y", "ab uv c", (Answer("uv", 3), Answer("c", 6)), "x")
    (inputs,) = make_form().inputs([example], with_targets=True)
    assert [TOKENIZER.vocabulary.pieces[id_] for id_ in inputs[0].ids] == (
        ["[CLS]", "x", "y", "[SEP]", "a", "##b", "u", "##v", "c", "[SEP]"]
    )
    assert inputs[0].segments.tolist() == [0] * 4 + [1] * 6
    assert inputs[0].target is not None
    assert inputs[0].target.tolist() == [3, 4]  # the first of the answers is learned


def test_windows_without_the_whole_answer_and_impossible_questions_point_at_no_answer() -> None:
    task = make_form(max_length=24, stride=10)
    words = " ".join("a" * 40)
    context = words[:30] + "u v" + words[33:]
    example = AnswerExample("", "x", context, (Answer("u v", 30),), "x")
    (inputs,) = task.inputs([example], with_targets=True)
    assert [(one.window, one.target.tolist()) for one in inputs if one.target is not None] == [
        (Window(0, 20), [16, 17]),
        (Window(10, 30), [6, 7]),
        (Window(20, 40), [0, 0]),
    ]
    (inputs,) = task.inputs([AnswerExample("", "x", context, (), "x")], with_targets=True)
    assert all(one.target is not None and one.target.tolist() == [0, 0] for one in inputs)


def test_an_untrained_model_has_the_loss_of_guessing() -> None:
    task, network = make_form(), make_network()
    examples = [AnswerExample("", "x", " ".join("a" * length), (Answer("a", 0),), "x") for length in (5, 9)]
    inputs = [one for windows in task.inputs(examples, with_targets=True) for one in windows]
    sums = task.losses(network(pack(inputs)), inputs)
    assert task.counts(inputs)["loss"] == 2
    # Only the pieces of the context and no answer compete: 6 and 10 places.
    assert sums["loss"].item() == pytest.approx(np.log(6) + np.log(10), abs=0.25)


def test_the_loss_is_that_of_each_question_alone() -> None:
    task, network = make_form(), make_network()
    inputs = [one for windows in task.inputs(questions(6), with_targets=True) for one in windows]
    together = task.losses(network(pack(inputs)), inputs)["loss"].item()
    alone = sum(task.losses(network(pack([one])), [one])["loss"].item() for one in inputs)
    assert together == pytest.approx(alone, abs=1e-4)


def test_an_answer_without_a_piece_bears_no_loss() -> None:
    task = make_form()
    example = AnswerExample("", "x", "a  b", (Answer("  ", 1),), "x")
    (inputs,) = task.inputs([example], with_targets=True)
    assert task.counts(inputs)["loss"] == 0
    assert task.losses(make_network()(pack(inputs)), inputs)["loss"].item() == 0.0


@pytest.mark.parametrize(
    ("question", "context", "answer"),
    [
        ("x", "a b uv w, c rs", "uv w"),
        ("y", "a b uv w, c Rś", "Rś"),  # accents and capitals as the user wrote them
        ("x", "我们今天很好。", "好"),
        ("y", "我们今天很好。", "今天"),
        ("x", "a\r\nuv\tw\n b", "uv\tw"),
        ("x", "龘\u200b uv", "uv"),
    ],
)
def test_answers_are_exact_substrings(question: str, context: str, answer: str) -> None:
    (found,) = predictions(make_form(), KnowingNetwork(TOKENIZER), [ask(question, context)])
    assert place(found) == (answer, context.index(answer), context.index(answer) + len(answer))
    assert found.n_best[0].answer == answer
    assert len(found.n_best) <= 5
    scores = [one.score for one in found.n_best]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("context", ["", "  \n", "a b c", "☃☃ ☃"])
def test_a_context_without_an_answer_gets_none_where_training_had_such(context: str) -> None:
    task = make_form(impossible=0.5)
    (found,) = predictions(task, KnowingNetwork(TOKENIZER), [ask("x", context)])
    assert place(found) == ("", None, None)
    assert found.no_answer_score > 0
    json.dumps(found.to_json(), allow_nan=False)
    (found,) = predictions(make_form(), KnowingNetwork(TOKENIZER), [ask("x", context)])
    assert (found.answer == "") == (not context.strip())  # a model that has not learned it always answers


def test_the_threshold_decides() -> None:
    task = make_form(impossible=0.5)
    example = ask("x", "a uv b")
    (found,) = predictions(task, KnowingNetwork(TOKENIZER), [example])
    assert found.answer == "uv"
    for threshold, answer in ((found.no_answer_score - 0.1, ""), (found.no_answer_score + 0.1, "uv")):
        strict = Extract(tokenizer=TOKENIZER, max_length=40, can_be_none=True, threshold=threshold)
        assert predictions(strict, KnowingNetwork(TOKENIZER), [example])[0].answer == answer


def test_one_window_with_an_answer_is_enough() -> None:
    task = make_form(max_length=24, impossible=0.5)
    plain = " ".join("abcdefg" * 12)
    for context in (f"uv {plain}", f"{plain} uv", f"{plain} uv {plain}"):
        (inputs,) = task.inputs([ask("x", context)], with_targets=False)
        assert len(inputs) > 5
        (found,) = predictions(task, KnowingNetwork(TOKENIZER), [ask("x", context)])
        assert found.answer == "uv"
        assert found.no_answer_score < -10  # that most windows see none says nothing against it
    assert predictions(task, KnowingNetwork(TOKENIZER), [ask("x", plain)])[0].answer == ""


def test_an_answer_is_no_longer_than_allowed() -> None:
    task = Extract(tokenizer=TOKENIZER, max_length=40, max_pieces=2)
    (found,) = predictions(task, KnowingNetwork(TOKENIZER), [ask("x", "a u v w b")])
    assert found.n_best
    assert all(len(one.answer.split()) <= 2 for one in found.n_best)


def test_no_answer_begins_or_ends_inside_a_word_unless_training_had_such() -> None:
    example = ask("x", "a auvb b")
    whole = make_form()
    assert whole.has_whole_words
    (found,) = predictions(whole, KnowingNetwork(TOKENIZER), [example])
    assert all(one.answer in ("a", "auvb", "b", "a auvb", "auvb b", "a auvb b") for one in found.n_best)
    rows = [*questions(5), AnswerExample("", "x", "auvb", (Answer("uv", 1),), "x")]
    free, _ = Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows, [], max_length=40)
    (found,) = predictions(free, KnowingNetwork(TOKENIZER), [example])
    assert found.answer == "uv"


@settings(deadline=None, max_examples=30)
@given(st.text("axu今好 ，É\u0301\u200b한龘", max_size=80), st.integers(22, 30))
def test_answers_from_any_context_are_substrings_within_it(context: str, max_length: int) -> None:
    task = make_form(max_length=max_length)
    (found,) = predictions(task, make_network(), [ask("x", context)])
    for one in found.n_best:
        assert 0 <= one.start < one.end <= len(context)
        assert one.answer == context[one.start : one.end]
    assert len({(one.start, one.end) for one in found.n_best}) == len(found.n_best)
    assert found.tokens == 4 + len(TOKENIZER.pieces_of(context).ids)


def long_question() -> tuple[AnswerExample, str]:
    """Return a question whose answer stands somewhere in 300,000 characters."""
    words = "abc def gg 。 " * 25_000
    return ask("x", words[:200_000] + " uv w " + words[200_000:]), "uv w"


def test_an_answer_is_found_in_300_000_characters_in_bounded_time() -> None:
    example, answer = long_question()
    task, network = make_form(max_length=512), KnowingNetwork(TOKENIZER)
    started = time.process_time()
    (found,) = predictions(task, network, [example])
    assert time.process_time() - started < 30
    assert place(found) == (answer, 200_001, 200_005)
    assert example.context[200_001:200_005] == answer
    assert network.longest <= 3000


@pytest.mark.slow
def test_a_context_of_300_000_characters_takes_little_memory() -> None:
    example, _ = long_question()
    task = make_form(max_length=512)
    tracemalloc.start()
    predictions(task, KnowingNetwork(TOKENIZER), [example])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 150e6


def test_a_question_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(DataError, match="input:1: the question has 30 pieces, which leaves room for 7 of"):
        make_form().inputs([ask("x " * 30, "a " * 30)], with_targets=False)


def test_remarks_describe_the_examples() -> None:
    rows = [
        AnswerExample("", "x", "ab ☃☃", (Answer("☃", 3),), "train.json:1"),
        AnswerExample("", "x", "a  b", (Answer("  ", 1),), "train.json:2"),
        AnswerExample("", "x", "ab", (), "train.json:3"),
    ]
    task, notes = Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows, [], max_length=40)
    assert task.can_be_none
    assert notes == [
        "answers have up to 30 pieces",
        "1 of 3 training questions have no answer",
        "1 of 2 answers do not end where pieces do: moved to whole pieces",
        "1 of 2 answers have no piece of their own: left out",
    ]
    _, notes = Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows[:2], rows, max_length=40)
    assert notes[1].startswith(
        "1 of 3 held-out questions have no answer, but every training question has one"
    )


def test_long_answers_are_allowed_when_training_has_them() -> None:
    text = " ".join("u" * 60)
    rows = [AnswerExample("", "x", text, (Answer(text, 0),), "train.json:1")]
    task, _ = Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows, [], max_length=40)
    assert task.max_pieces == 60
    limited = AnswerSettings(max_answer=7)
    assert Extract.for_training("answer", limited, TOKENIZER, rows, [], max_length=40)[0].max_pieces == 7


def test_examples_that_nothing_can_be_learned_from_are_refused() -> None:
    def refused(rows: list[AnswerExample]) -> str:
        with pytest.raises(DataError) as caught:
            Extract.for_training("answer", AnswerSettings(), TOKENIZER, rows, [], max_length=40)
        return str(caught.value)

    assert refused([AnswerExample("", "x", "a", (), "train.json:1")]).startswith(
        "none of the 1 training questions"
    )
    assert refused([ask("x", "a")]).startswith("input:1: the question has no list of answers")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"long_text": "head"}, "task.long_text=head: the task reads all of a text"),
        ({"n_best": 0}, "task.n_best=0; expected a whole number of at least 1"),
        ({"max_answer": -1}, "task.max_answer=-1; expected a whole number of at least 1"),
        ({"measure": "rouge"}, "task.measure='rouge'; expected one of squad, cmrc"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AnswerSettings(**changes)


def test_the_measure_is_that_of_the_script() -> None:
    task = make_form()

    def guessed(answer: str) -> AnswerPrediction:
        return AnswerPrediction(answer, 0, len(answer), 0.9, (), -1.0, 5)

    english = [AnswerExample("", "x", "the cat sat", (Answer("cat", 4),), "x")]
    chinese = [AnswerExample("", "x", "今天很好", (Answer("今天", 0),), "x")]
    assert task.measure(english, [guessed("The cat")]).exact_match == 1.0  # SQuAD drops articles
    report = task.measure(chinese, [guessed("今天很")])
    assert report.exact_match == 0.0
    assert report.f1 == pytest.approx(0.8)  # two of two, two of three: characters, not one word


def test_two_questions_of_one_id_are_both_measured() -> None:
    rows = [
        AnswerExample("q1", "x", "u", (Answer("u", 0),), "dev.json:1"),
        AnswerExample("q1", "y", "r", (Answer("r", 0),), "dev.json:2"),
    ]
    found = predictions(make_form(), KnowingNetwork(TOKENIZER), rows)
    report = make_form().measure(rows, found)
    assert (report.support, report.exact_match) == (2, 1.0)


def test_tuning_finds_threshold_and_temperature() -> None:
    task = make_form(impossible=0.5)
    rows = questions(60, seed=9, impossible=0.5)
    inputs = task.inputs(rows, with_targets=True)
    raw = raw_outputs(task, KnowingNetwork(TOKENIZER), inputs)
    # No answer is now thought far too likely, by the same amount for all questions.
    for of_row in raw:
        for logits in of_row:
            logits[0] += 12.0
    assert not any(task.predict(*one).answer for one in zip(rows, inputs, raw, strict=True))
    tuning = task.tune(rows, inputs, raw)
    tuned = Extract(
        tokenizer=TOKENIZER, max_length=40, can_be_none=True, threshold=float(tuning.run["threshold"])
    )
    cooled = [[logits / tuning.temperature for logits in of_row] for of_row in raw]
    found = [tuned.predict(*one) for one in zip(rows, inputs, cooled, strict=True)]
    assert tuned.measure(rows, found).exact_match == 1.0
    assert task.tune([row for row in rows if row.answers], [], []).run == {}


def test_the_threshold_keeps_away_from_the_scores_on_both_sides() -> None:
    task = make_form(impossible=0.5)
    rows = questions(60, seed=9, impossible=0.5)
    inputs = task.inputs(rows, with_targets=True)
    raw = raw_outputs(task, KnowingNetwork(TOKENIZER), inputs)
    tuning = task.tune(rows, inputs, raw)
    cooled = [[logits / tuning.temperature for logits in of_row] for of_row in raw]
    found = [task.predict(*one) for one in zip(rows, inputs, cooled, strict=True)]
    answered = [one.no_answer_score for one, row in zip(found, rows, strict=True) if row.answers]
    others = [one.no_answer_score for one, row in zip(found, rows, strict=True) if not row.answers]
    assert tuning.run["threshold"] == pytest.approx((max(answered) + min(others)) / 2)


def test_scores_before_and_after_the_temperature_are_both_known() -> None:
    rows = questions(30, seed=9)
    cooled = Extract(tokenizer=TOKENIZER, max_length=40, temperature=4.0)
    found = predictions(cooled, KnowingNetwork(TOKENIZER), rows)
    assert all(one.uncalibrated > one.score for one in found)
    measured = cooled.calibration(rows, found)
    assert measured is not None
    assert measured.ece > measured.ece_uncalibrated  # every answer is right: surer is better
    assert "uncalibrated" not in found[0].to_json()


def test_a_model_that_never_answers_raises_an_alarm() -> None:
    task = make_form()
    nothing = [AnswerPrediction("", None, None, 0.9, (), 1.0, 5)]
    assert task.alarm(questions(1), nothing) == "no question is answered"
    assert task.alarm([AnswerExample("", "x", "a", (), "x")], nothing) is None


def test_a_loaded_form_is_as_the_saved_one() -> None:
    task = Extract(
        tokenizer=TOKENIZER,
        max_length=30,
        max_pieces=12,
        has_whole_words=False,
        can_be_none=True,
        threshold=1.5,
        settings=AnswerSettings(stride=7, n_best=2, measure="cmrc"),
    )
    config = ModelConfig(encoder=small_bert().config.encoder, head="answer", has_pooler=False)
    run = json.loads(json.dumps(task.to_run()))
    assert Extract.from_run("answer", run, TOKENIZER, config, max_length=40).to_run() == task.to_run()

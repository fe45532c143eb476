"""Answer a question with a part of a context, or say that the context holds no answer.

The model sees the question and a window of the context, [CLS] question [SEP] context [SEP], and scores every
piece as the first and as the last of the answer; [CLS] means no answer. A context of any length is read in
overlapping windows. Answers are exact substrings of the context.

Legend: B inputs of a batch, L tokens of the longest, N pieces of a context, W pieces of one window of it.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.data.examples import AnswerExample, Kind
from glassbert.errors import DataError
from glassbert.metrics.answers import (
    AnswerReport,
    MeasureName,
    best_no_answer_threshold,
    cmrc,
    measure_for,
    squad,
)
from glassbert.metrics.calibration import Calibration, fit_temperature, score_calibration
from glassbert.metrics.mistakes import Mistake
from glassbert.model.bert import Output
from glassbert.model.layout import Layout, unpack
from glassbert.sentence import Sentence
from glassbert.tasks.answer.labels import answers_by_number, placed_answer, remarks, right_answers, survey
from glassbert.tasks.answer.mistakes import mistake
from glassbert.tasks.answer.predictions import AnswerPrediction, FoundAnswer
from glassbert.tasks.answer.settings import AnswerSettings
from glassbert.tasks.answer.spans import (
    ScoredSpan,
    best_spans,
    context_windows,
    log_probabilities,
    merge_spans,
    window_target,
)
from glassbert.tasks.saved import SavedAnswer
from glassbert.tasks.task import Contest, HeadSpec, Input, Task, Tuning, with_specials
from glassbert.text.alignment import as_offsets, characters_of_pieces, shares_character
from glassbert.text.characters import is_chinese
from glassbert.text.windows import Window
from glassbert.text.wordpiece.tokenizer import Pieces, Tokenizer

IGNORED = -100
USUAL_MAX_PIECES = 30
"""Of the longest answer, unless more than a few training answers are longer."""
LONG_SHARE = 0.005
LOWEST = -1e4
"""Below every real logit; for places where no answer can begin or end."""
MAX_WINDOWS_TO_FIT = 2048


@dataclass(frozen=True, kw_only=True)
class Extract(Task[AnswerExample, AnswerPrediction]):
    """The task answer."""

    name: str = "answer"
    settings: AnswerSettings = field(default_factory=AnswerSettings)
    max_pieces: int = USUAL_MAX_PIECES
    """Of the longest answer."""
    has_whole_words: bool = True
    """Whether answers begin and end where words do, because all answers in training did."""
    can_be_none: bool = False
    """Whether a question may have no answer, because some in training had none."""
    threshold: float = 0.0
    """The no-answer score above which there is no answer."""

    saved = SavedAnswer

    @classmethod
    def for_training(
        cls,
        name: str,
        settings: AnswerSettings,
        tokenizer: Tokenizer,
        train: Sequence[AnswerExample],
        dev: Sequence[AnswerExample],
        *,
        max_length: int,
        kind: Kind | None = None,
    ) -> tuple[Self, list[str]]:
        num_impossible = sum(not right_answers(example) for example in train)
        if num_impossible == len(train):
            raise DataError(
                f"none of the {len(train)} training questions has an answer; nothing can be learned"
            )
        placement, lengths = survey(train, tokenizer)
        longest = settings.max_answer or max(
            USUAL_MAX_PIECES, int(np.quantile(lengths or [0], 1 - LONG_SHARE, method="higher"))
        )
        task = cls(
            tokenizer=tokenizer,
            max_length=settings.length_limit(max_length),
            settings=settings,
            max_pieces=longest,
            has_whole_words=placement.has_whole_words,
            can_be_none=num_impossible > 0,
            name=name,
        )
        return task, remarks(train, dev, longest) + placement.notes("answers")

    @classmethod
    def from_run(
        cls,
        name: str,
        run: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        max_length: int,
    ) -> Self:
        return cls(
            tokenizer=tokenizer,
            settings=AnswerSettings(
                stride=run.get("stride"),
                metric=run.get("metric"),
                n_best=run.get("n_best", AnswerSettings.n_best),
                measure=run.get("measure"),
            ),
            max_pieces=run.get("max_answer", USUAL_MAX_PIECES),
            has_whole_words=run.get("whole_words", True),
            # A foreign folder does not say whether its model has learned to give no answer.
            can_be_none=run.get("can_be_none", False),
            threshold=run.get("threshold", 0.0),
            name=name,
            **cls.saved_fields(run, max_length),
        )

    def to_run(self) -> dict[str, Any]:
        return {
            **super().to_run(),
            "n_best": self.settings.n_best,
            "measure": self.settings.measure,
            "max_answer": self.max_pieces,
            "whole_words": self.has_whole_words,
            "can_be_none": self.can_be_none,
            "threshold": self.threshold,
        }

    @property
    def contest(self) -> Contest:
        return "places"

    def head(self) -> HeadSpec:
        return HeadSpec("answer")

    def inputs(self, examples: Sequence[AnswerExample], *, with_targets: bool) -> list[list[Input]]:
        questions = self.tokenizer.ids_of_batch([example.question for example in examples])
        contexts = [example.context for example in examples]
        if not with_targets:
            rows = zip(examples, questions, self.tokenizer.ids_of_batch(contexts), strict=True)
            return [self._inputs_of(number, *row) for number, row in enumerate(rows)]
        pieces = self.tokenizer.stream_pieces(contexts)
        return [
            self._inputs_of(number, example, question, of_context.ids, of_context)
            for number, (example, question, of_context) in enumerate(
                zip(examples, questions, pieces, strict=True)
            )
        ]

    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        assert output.span is not None
        is_place = torch.from_numpy(np.concatenate([_is_place(one) for one in inputs]))
        lengths = [one.window.num_pieces + 1 for one in inputs]
        packed = output.span[is_place.to(output.span.device)].float()
        logits = unpack(packed, Layout(tuple(lengths)))  # (B, longest W + 1, 2)
        is_padding = torch.arange(logits.size(1)) >= torch.tensor(lengths)[:, None]
        logits = logits.masked_fill(is_padding[:, :, None].to(logits.device), LOWEST)
        targets = np.stack([one.target for one in inputs if one.target is not None])
        gold = torch.from_numpy(targets).to(logits.device)  # (B, 2)
        loss = F.cross_entropy(logits, gold, reduction="sum", ignore_index=IGNORED) / 2
        return {"loss": loss, "accuracy": (logits.argmax(dim=1) == gold).all(dim=1).sum()}

    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        known = sum(one.target is not None and int(one.target[0]) != IGNORED for one in inputs)
        return {"loss": known, "accuracy": known}

    def logits(self, output: Output, inputs: Sequence[Input]) -> list[Tensor]:
        assert output.span is not None
        by_input = output.span.float().split([len(one) for one in inputs])
        # (W + 1, 2): [CLS], which means no answer, then the pieces of the context.
        return [
            logits[torch.from_numpy(_is_place(one)).to(logits.device)]
            for logits, one in zip(by_input, inputs, strict=True)
        ]

    def predict(
        self, example: AnswerExample, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]
    ) -> AnswerPrediction:
        pieces = self.tokenizer.pieces_of(example.context)
        offsets = as_offsets(pieces.offsets)
        is_inside = np.append(shares_character(offsets), False)
        if self.has_whole_words:
            is_inside[:-1] |= ~self.tokenizer.vocabulary.starts_word[pieces.ids]
        found, none = self._best(inputs, raw, is_inside, 1.0)
        n_best = []
        for start, stop, score in found:
            first, end = characters_of_pieces(offsets, start, stop)
            n_best.append(FoundAnswer(example.context[first:end], first, end, float(np.exp(score))))
        margin = none - (found[0].score if found else LOWEST)
        num_tokens = len(pieces.ids) + len(inputs[0]) - inputs[0].window.num_pieces
        if not found or (self.can_be_none and margin > self.threshold):
            chosen: tuple[str, int | None, int | None, float] = ("", None, None, float(np.exp(none)))
        else:
            chosen = astuple(n_best[0])
        uncalibrated = chosen[3]
        if self.temperature != 1.0:
            before, none_before = self._best(inputs, raw, is_inside, 1 / self.temperature)
            uncalibrated = float(np.exp(before[0].score if chosen[0] else none_before))
        return AnswerPrediction(*chosen, tuple(n_best), margin, num_tokens, uncalibrated=uncalibrated)

    def searching(self, *, num_best: int | None = None, max_pieces: int | None = None) -> Self:
        """Return the task with another number of answers or another maximum length; None changes nothing.

        Args:
            max_pieces: Of the longest answer.
        """
        settings = replace(self.settings, n_best=max(num_best or 0, self.settings.n_best))
        return replace(self, settings=settings, max_pieces=max_pieces or self.max_pieces)

    def measure(
        self, examples: Sequence[AnswerExample], predictions: Sequence[AnswerPrediction]
    ) -> AnswerReport:
        scorer = {"squad": squad, "cmrc": cmrc}[self._measure_name(examples)]
        guess = {str(number): one.answer for number, one in enumerate(predictions)}
        return scorer(answers_by_number(examples), guess)

    def mistakes(
        self, examples: Sequence[AnswerExample], predictions: Sequence[AnswerPrediction]
    ) -> list[Mistake]:
        measure = measure_for(self._measure_name(examples), answers_by_number(examples))
        found = (mistake(*one, measure) for one in zip(examples, predictions, strict=True))
        return [one for one in found if one]

    def calibration(
        self, examples: Sequence[AnswerExample], predictions: Sequence[AnswerPrediction]
    ) -> Calibration | None:
        gold = answers_by_number(examples)
        measure = measure_for(self._measure_name(examples), gold)
        is_right = [
            measure.best(answers, one.answer)[0] == 1.0
            for answers, one in zip(gold.values(), predictions, strict=True)
        ]
        scores = np.array([one.score for one in predictions])
        before = np.array([one.uncalibrated for one in predictions])
        return score_calibration(scores, before, np.array(is_right, dtype=np.bool_), self.temperature)

    def tune(
        self,
        examples: Sequence[AnswerExample],
        inputs: Sequence[Sequence[Input]],
        raw: Sequence[Sequence[NDArray[Any]]],
    ) -> Tuning:
        temperature = _fitted_temperature(inputs, raw)
        if not self.can_be_none or all(example.answers for example in examples):
            return Tuning({}, temperature)
        # The best answer whatever the threshold, and the score of no answer.
        cooled = [[logits / temperature for logits in windows] for windows in raw]
        found = [self.predict(*one) for one in zip(examples, inputs, cooled, strict=True)]
        guess = {str(number): one.n_best[0].answer if one.n_best else "" for number, one in enumerate(found)}
        none = {str(number): one.no_answer_score for number, one in enumerate(found)}
        best = best_no_answer_threshold(
            answers_by_number(examples), guess, none, self._measure_name(examples)
        )
        threshold = best.exact_match_threshold if self.best_by == "exact_match" else best.f1_threshold
        return Tuning({"threshold": _halfway_up(threshold, none.values())}, temperature)

    def decision(self, prediction: AnswerPrediction) -> Hashable:
        return prediction.answer

    def alarm(self, examples: Sequence[AnswerExample], predictions: Sequence[AnswerPrediction]) -> str | None:
        if any(example.answers for example in examples) and not any(one.answer for one in predictions):
            return Sentence("no question is answered")
        return None

    def _inputs_of(
        self,
        number: int,
        example: AnswerExample,
        question: Sequence[int],
        context: Sequence[int],
        pieces: Pieces | None = None,
    ) -> list[Input]:
        overlapping = context_windows(
            len(question),
            len(context),
            max_length=self.max_length,
            stride=self.settings.stride,
            where=example.where,
        )
        targets: Sequence[NDArray[np.int64] | None] = [None] * len(overlapping)
        if pieces is not None:
            targets = self._targets(example, pieces, overlapping)
        found = []
        for window, target in zip(overlapping, targets, strict=True):
            ids, segments = with_specials(self.tokenizer, question, context[window.start : window.stop])
            found.append(Input(ids, segments, number, window, target=target))
        return found

    def _targets(
        self, example: AnswerExample, pieces: Pieces, overlapping: Sequence[Window]
    ) -> list[NDArray[np.int64]]:
        """Return where the first of the right answers starts and ends in each window: places as in `raw`."""
        placed, _ = placed_answer(example, pieces, self.tokenizer.vocabulary.starts_word)
        if right_answers(example) and not placed:
            return [np.array([IGNORED, IGNORED])] * len(overlapping)  # without a piece it cannot be learned
        run = (placed[0].start, placed[0].stop) if placed else None
        return [np.array(window_target(run, window), dtype=np.int64) for window in overlapping]

    def _best(
        self,
        inputs: Sequence[Input],
        raw: Sequence[NDArray[Any]],
        is_inside: NDArray[np.bool_],
        temperature: float,
    ) -> tuple[list[ScoredSpan], float]:
        """Return the best spans of all windows, and the score of no answer: that of the least sure window."""
        found, none = [], np.inf
        for one, logits in zip(inputs, raw, strict=True):
            scores = log_probabilities(logits, temperature)
            spans = best_spans(
                scores[1:, 0],
                scores[1:, 1],
                is_inside[one.window.start : one.window.stop + 1],
                max_pieces=self.max_pieces,
                num_best=self.settings.n_best,
            )
            found.append((one.window, spans))
            none = min(none, float(scores[0].sum()))
        return merge_spans(found, self.settings.n_best), none

    def _measure_name(self, examples: Sequence[AnswerExample]) -> MeasureName:
        if self.settings.measure is not None:
            return self.settings.measure
        answers = [answer.text for example in examples for answer in example.answers or ()]
        num_chinese = sum(any(map(is_chinese, text)) for text in answers)
        return "cmrc" if 2 * num_chinese > len(answers) else "squad"


def _is_place(one: Input) -> NDArray[np.bool_]:
    """Return at which tokens an answer can begin or end: the context's pieces, and [CLS] for no answer."""
    is_place = np.zeros(len(one), dtype=np.bool_)
    is_place[0] = True
    is_place[len(one) - 1 - one.window.num_pieces : -1] = True
    return is_place


def _halfway_up(threshold: float, scores: Iterable[float]) -> float:
    """Return a threshold that divides the scores in the same way, halfway between its neighbours."""
    return (threshold + min((score for score in scores if score > threshold), default=threshold)) / 2


def _fitted_temperature(inputs: Sequence[Sequence[Input]], raw: Sequence[Sequence[NDArray[Any]]]) -> float:
    """Return the temperature at which the right starts and ends are most likely."""
    flat = [
        (one.target, logits)
        for windows, of_windows in zip(inputs, raw, strict=True)
        for one, logits in zip(windows, of_windows, strict=True)
        if one.target is not None and one.target[0] != IGNORED
    ][:MAX_WINDOWS_TO_FIT]
    if not flat:
        return 1.0
    logits = np.full((len(flat), 2, max(len(logits) for _, logits in flat)), LOWEST)
    for row, (_, of_window) in zip(logits, flat, strict=True):
        row[:, : len(of_window)] = of_window.T
    return fit_temperature(logits.reshape(2 * len(flat), -1), np.concatenate([target for target, _ in flat]))

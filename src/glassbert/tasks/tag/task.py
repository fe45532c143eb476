"""Tag: find labelled spans in a text, such as names.

Every piece of a span is tagged, the best legal sequence of tags is decoded, and its spans are given back as
exact substrings of the text. A text of any length is read in windows; each piece is judged in the window that
shows most text around it.

Legend: T tokens of a batch, N pieces of a text, C tags.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.data.examples import Kind, Span, TagExample
from glassbert.errors import ModelError
from glassbert.metrics.calibration import Calibration, fit_temperature, probabilities, score_calibration
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.spans import SpanReport, span_f1
from glassbert.metrics.thresholds import threshold_for
from glassbert.model.bert import Output
from glassbert.model.crf import Chains, Crf
from glassbert.model.layout import Layout
from glassbert.sentence import Sentence
from glassbert.tasks.saved import SavedTag
from glassbert.tasks.tag.decode import Decoder, weakest_scores
from glassbert.tasks.tag.labels import check_labels, right_spans, survey
from glassbert.tasks.tag.mistakes import mistake
from glassbert.tasks.tag.most_frequent import FrequentTags
from glassbert.tasks.tag.predictions import TaggedSpan, TagPrediction
from glassbert.tasks.tag.scheme import PieceSpan, TagSet, place
from glassbert.tasks.tag.settings import TagSettings
from glassbert.tasks.task import HeadSpec, Input, Task, Tuning, with_specials
from glassbert.text.alignment import Offsets, as_offsets, characters_of_pieces, shares_character
from glassbert.text.windows import max_context, windows
from glassbert.text.wordpiece.tokenizer import Pieces, Tokenizer

IGNORED = -100
WANTED_PRECISIONS = (0.9, 0.95, 0.99)
"""For each, run.json keeps the score from which spans are right that often."""


@dataclass(frozen=True, kw_only=True)
class Tag(Task[TagExample, TagPrediction]):
    """The task tag."""

    name: str = "tag"
    tag_set: TagSet
    settings: TagSettings = field(default_factory=TagSettings)
    has_whole_words: bool = True
    """Whether spans begin and end where words do, because all spans in training did."""
    extra: Crf | None = None
    """Scores for tags that follow each other."""

    saved = SavedTag

    @classmethod
    def for_training(
        cls,
        name: str,
        settings: TagSettings,
        tokenizer: Tokenizer,
        train: Sequence[TagExample],
        dev: Sequence[TagExample],
        *,
        max_length: int,
        kind: Kind | None = None,
    ) -> tuple[Self, list[str]]:
        labels, notes = check_labels(train, dev)
        tag_set = TagSet.of(labels, settings.scheme)
        placement = survey(train, tokenizer)
        if placement.has_whole_words:
            notes.append("no training span begins or ends inside a word, so no predicted one will")
        task = cls(
            tag_set=tag_set,
            tokenizer=tokenizer,
            max_length=settings.length_limit(max_length),
            settings=settings,
            has_whole_words=placement.has_whole_words,
            extra=Crf(len(tag_set)) if settings.crf else None,
            name=name,
        )
        return task, [*notes, *placement.notes()]

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
        tag_set, has_crf = TagSet(config.labels), run.get("crf", False)
        return cls(
            tag_set=tag_set,
            tokenizer=tokenizer,
            settings=TagSettings(stride=run.get("stride"), metric=run.get("metric"), crf=has_crf),
            has_whole_words=run.get("whole_words", True),
            extra=Crf(len(tag_set)) if has_crf else None,
            name=name,
            **cls.saved_fields(run, max_length),
        )

    def to_run(self) -> dict[str, Any]:
        return {**super().to_run(), "crf": self.settings.crf, "whole_words": self.has_whole_words}

    def head(self) -> HeadSpec:
        return HeadSpec("tag", self.tag_set.names)

    def inputs(self, examples: Sequence[TagExample], *, with_targets: bool) -> list[list[Input]]:
        texts = [example.text for example in examples]
        if not with_targets:
            ids_of_texts = self.tokenizer.ids_of_batch(texts)
            return [self._inputs_of(number, ids, None) for number, ids in enumerate(ids_of_texts)]
        return [
            self._inputs_of(number, pieces.ids, self._target(examples[number], pieces))
            for number, pieces in enumerate(self.tokenizer.stream_pieces(texts))
        ]

    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        assert output.labels is not None
        targets = np.concatenate([one.target for one in inputs if one.target is not None])
        rows = np.flatnonzero(self._is_judged(targets))
        gold = torch.from_numpy(targets[rows]).to(output.labels.device)
        logits = output.labels[torch.from_numpy(rows).to(output.labels.device)].float()
        if self.extra is None:
            loss = F.cross_entropy(logits, gold, reduction="sum")
        elif len(rows):
            loss = self._chain_loss(output.labels, inputs)
        else:
            # With several processes, each waits for a gradient of every weight, even if it is zero.
            loss = 0.0 * (logits.sum() + self.extra.weight.sum())
        return {"loss": loss, "accuracy": (logits.argmax(dim=1) == gold).sum()}

    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        judged = sum(int(self._is_judged(one.target).sum()) for one in inputs if one.target is not None)
        return {"loss": judged, "accuracy": judged}

    def logits(self, output: Output, inputs: Sequence[Input]) -> list[Tensor]:
        assert output.labels is not None
        by_input = output.labels.float().split([len(one) for one in inputs])
        return [logits[1:-1] for logits in by_input]  # (pieces, C): without [CLS] and [SEP]

    def predict(
        self, example: TagExample, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]
    ) -> TagPrediction:
        pieces = self.tokenizer.pieces_of(example.text)
        offsets, logits = as_offsets(pieces.offsets), merged(inputs, raw)
        is_inside = self._is_inside(offsets, pieces)
        probs = probabilities(logits)
        scores = np.log(np.maximum(probs, np.finfo(np.float64).tiny))
        decoder = self._decoder()
        path = decoder.best_path(scores, is_inside)
        spans = self.tag_set.decode(path)
        if self.extra is None:
            likely = unscaled = weakest_scores(self.tag_set, probs, path, spans)
            if self.temperature != 1.0:
                before = probabilities(logits * self.temperature)
                unscaled = weakest_scores(self.tag_set, before, path, spans)
        else:
            likely = unscaled = decoder.span_scores(scores, is_inside, path, spans)
        found = [
            _tagged(example.text, offsets, *one)
            for one in zip(spans, likely.tolist(), unscaled.tolist(), strict=True)
        ]
        return TagPrediction(tuple(found), tokens=len(pieces.ids) + 2)

    def measure(self, examples: Sequence[TagExample], predictions: Sequence[TagPrediction]) -> SpanReport:
        return span_f1([right_spans(example) for example in examples], [_guess(one) for one in predictions])

    def mistakes(self, examples: Sequence[TagExample], predictions: Sequence[TagPrediction]) -> list[Mistake]:
        return [found for found in map(mistake, examples, predictions) if found]

    def calibration(
        self, examples: Sequence[TagExample], predictions: Sequence[TagPrediction]
    ) -> Calibration | None:
        return score_calibration(*_judged(examples, predictions), self.temperature)

    def tune(
        self,
        examples: Sequence[TagExample],
        inputs: Sequence[Sequence[Input]],
        raw: Sequence[Sequence[NDArray[Any]]],
    ) -> Tuning:
        temperature = 1.0
        if self.extra is None:
            targets = [one.target[1:-1] for windows in inputs for one in windows if one.target is not None]
            gold = np.concatenate(targets)
            logits = np.concatenate([logits for windows in raw for logits in windows])
            is_judged = self._is_judged(gold)
            temperature = fit_temperature(logits[is_judged], gold[is_judged])
        cooled = [[logits / temperature for logits in windows] for windows in raw]
        predictions = [self.predict(*one) for one in zip(examples, inputs, cooled, strict=True)]
        scores, _, is_right = _judged(examples, predictions)
        found = {wanted: threshold_for(scores, is_right, precision=wanted) for wanted in WANTED_PRECISIONS}
        thresholds = {str(wanted): asdict(one) for wanted, one in found.items() if one}
        return Tuning({"thresholds": thresholds}, temperature)

    def baselines(
        self,
        train: Sequence[TagExample],
        train_inputs: Sequence[Sequence[Input]],
        dev: Sequence[TagExample],
        dev_inputs: Sequence[Sequence[Input]],
    ) -> Mapping[str, list[list[NDArray[Any]]]]:
        tags = FrequentTags(self.tokenizer.vocabulary.starts_word, len(self.tag_set))
        tags.learn(train_inputs)
        return {"frequent_tags": [[tags.logits(one) for one in windows] for windows in dev_inputs]}

    def decision(self, prediction: TagPrediction) -> Hashable:
        return tuple(_guess(prediction))

    def alarm(self, examples: Sequence[TagExample], predictions: Sequence[TagPrediction]) -> str | None:
        has_spans = any(example.spans for example in examples)
        is_lost = has_spans and not any(one.spans for one in predictions)
        return Sentence("no span is found") if is_lost else None

    def _decoder(self) -> Decoder:
        transitions = None if self.extra is None else self.extra.transitions().detach().cpu().numpy()
        return Decoder.of(self.tag_set, transitions)

    def _inputs_of(
        self, number: int, all_ids: Sequence[int], target: NDArray[np.int64] | None
    ) -> list[Input]:
        room, num_pieces = self.max_length - 2, len(all_ids)
        overlapping = windows(num_pieces, room, self.settings.stride or max(1, room // 2))
        found = []
        for window, own in zip(overlapping, max_context(overlapping), strict=True):
            ids, segments = with_specials(self.tokenizer, all_ids[window.start : window.stop])
            own_target = None
            if target is not None:
                # The borders of the text lie at [CLS] and [SEP]: `target` has one more entry on each side.
                own_target = np.full(len(ids), IGNORED, dtype=np.int64)
                start = own.start + (window.start > 0)
                stop = own.stop + 2 - (window.stop < num_pieces)
                own_target[start - window.start : stop - window.start] = target[start:stop]
            found.append(Input(ids, segments, number, window, target=own_target))
        return found

    def _target(self, example: TagExample, pieces: Pieces) -> NDArray[np.int64]:
        """Return the tag of each piece between two borders, whose tag is C, (N + 2,)."""
        known = set(self.tag_set.labels)
        for span in right_spans(example):
            if span.label not in known:
                raise ModelError(
                    f"{example.where}: label {span.label!r} is not one of the model's: "
                    f"{', '.join(self.tag_set.labels)}"
                )
        spans, _ = place(
            right_spans(example),
            as_offsets(pieces.offsets),
            self.tokenizer.vocabulary.starts_word[pieces.ids],
        )
        return np.pad(self.tag_set.encode(spans, len(pieces.ids)), 1, constant_values=len(self.tag_set))

    def _is_judged(self, target: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which places of a target hold a tag: not those of another window, not the borders."""
        return (target >= 0) & (target < len(self.tag_set))

    def _is_inside(self, offsets: Offsets, pieces: Pieces) -> NDArray[np.bool_]:
        """Return before which pieces no span may begin or end, (N,)."""
        is_inside = shares_character(offsets)
        if self.has_whole_words:
            is_inside |= ~self.tokenizer.vocabulary.starts_word[pieces.ids]
        return is_inside

    def _chain_loss(self, logits: Tensor, inputs: Sequence[Input]) -> Tensor:
        """Return the loss of a CRF over the pieces that each input judges, longest first."""
        assert self.extra is not None
        border = len(self.tag_set)
        starts = np.cumsum([0, *(len(one) for one in inputs)])
        runs = []
        for start, one in zip(starts, inputs, strict=False):
            assert one.target is not None
            places = np.flatnonzero(self._is_judged(one.target))
            if len(places):
                runs.append((start + places, one.target[places], one.target[[0, -1]] == border))
        runs.sort(key=lambda run: -len(run[0]))
        rows, tags, borders = zip(*runs, strict=True)
        device = logits.device
        has_start, has_end = torch.from_numpy(np.stack(borders)).to(device).unbind(dim=1)
        chains = Chains(
            torch.from_numpy(np.concatenate(tags)).to(device),
            Layout(tuple(len(run) for run in rows)),
            has_start,
            has_end,
        )
        legal = torch.from_numpy(self.tag_set.legal).to(device)
        return self.extra(logits[torch.from_numpy(np.concatenate(rows)).to(device)], chains, legal)


def merged(inputs: Sequence[Input], raw: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the logits of a text's pieces, (N, C), each from the window that shows most text around it."""
    own = max_context([one.window for one in inputs])
    return np.concatenate(
        [
            logits[part.start - one.window.start : part.stop - one.window.start]
            for one, part, logits in zip(inputs, own, raw, strict=True)
        ]
    )


def _guess(prediction: TagPrediction) -> list[Span]:
    return [Span(span.start, span.end, span.label) for span in prediction.spans]


def _judged(
    examples: Sequence[TagExample], predictions: Sequence[TagPrediction]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return the score of each predicted span, its score before calibration, and whether it is right."""
    rows = [
        (span.score, span.uncalibrated, guess in gold)
        for example, prediction in zip(examples, predictions, strict=True)
        for gold in [set(right_spans(example))]
        for span, guess in zip(prediction.spans, _guess(prediction), strict=True)
    ]
    scores, before, is_right = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(scores, dtype=float), np.array(before, dtype=float), np.array(is_right, dtype=bool)


def _tagged(text: str, offsets: Offsets, span: PieceSpan, score: float, uncalibrated: float) -> TaggedSpan:
    start, end = characters_of_pieces(offsets, span.start, span.stop)
    return TaggedSpan(start, end, span.label, text[start:end], score, uncalibrated)

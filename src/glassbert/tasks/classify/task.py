"""Classify a text or a pair of texts: one label, any number of labels, or a number.

Legend: B inputs of a batch, C labels, N examples.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from glassbert.config import ModelConfig, ProblemType
from glassbert.data.examples import Kind, TextExample
from glassbert.errors import DataError, UserError
from glassbert.metrics.calibration import (
    Calibration,
    calibration,
    confidences,
    fit_temperature,
    probabilities,
)
from glassbert.metrics.classes import classification, multi_label
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.regression import regression
from glassbert.metrics.report import Report
from glassbert.metrics.thresholds import Acceptance, acceptance, threshold_for
from glassbert.model.bert import Output
from glassbert.sentence import Sentence
from glassbert.tasks.classify.bag_of_words import bag_of_words
from glassbert.tasks.classify.labels import check_labels, class_weights, kind_of, label_set
from glassbert.tasks.classify.mistakes import mistake
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.classify.rows import CLASSIFY, PAIR, SCHEMAS, TextSchema
from glassbert.tasks.classify.settings import ClassifySettings
from glassbert.tasks.long_text import text_inputs
from glassbert.tasks.saved import SavedClassify
from glassbert.tasks.task import Contest, HeadSpec, Input, Task, Tuning
from glassbert.text.wordpiece.tokenizer import Tokenizer

PROBLEM_TYPES: dict[Kind, ProblemType] = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
    "regression": "regression",
}
CONTESTS: dict[Kind, Contest] = {"single": "labels", "multi": "each", "regression": "number"}
USUAL_METRIC: dict[Kind, str] = {"single": "accuracy", "multi": "micro_f1", "regression": "spearman"}
WANTED_ACCURACIES = (0.9, 0.95, 0.99)
"""For each, run.json keeps the score from which the model is right that often."""
SCORE = "score"
"""The name of the one output of a regression."""


@dataclass(frozen=True, kw_only=True)
class Classify(Task[TextExample, ClassPrediction]):
    """The tasks classify and pair."""

    kind: Kind
    labels: tuple[str, ...]
    """In the order of the logits; a single one for a regression."""
    settings: ClassifySettings = field(default_factory=ClassifySettings)
    weights: NDArray[np.float32] | None = None
    """The weight of each label in the loss, (C,)."""
    threshold: float = 0.5
    """With any number of labels: the probability from which a label is given."""
    takes_any: bool = False
    """True for foreign checkpoints, whose config does not say whether inputs are texts or pairs."""

    saved = SavedClassify

    @classmethod
    def for_training(
        cls,
        name: str,
        settings: ClassifySettings,
        tokenizer: Tokenizer,
        train: Sequence[TextExample],
        dev: Sequence[TextExample],
        *,
        max_length: int,
        kind: Kind | None = None,
    ) -> tuple[Self, list[str]]:
        kind = kind or kind_of(train)
        labels = (SCORE,) if kind == "regression" else label_set(train)
        notes = check_labels(kind, labels, train, dev)
        task = cls(
            name=name,
            kind=kind,
            labels=labels,
            tokenizer=tokenizer,
            max_length=settings.length_limit(max_length),
            settings=settings,
            weights=class_weights(settings.class_weights, kind, labels, train),
        )
        return task, notes

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
        kinds = {problem_type: kind for kind, problem_type in PROBLEM_TYPES.items()}
        if config.problem_type is None:
            kind: Kind = "regression" if len(config.labels) == 1 else "single"
        else:
            kind = kinds[config.problem_type]
        return cls(
            name=name,
            kind=kind,
            labels=config.labels,
            tokenizer=tokenizer,
            settings=ClassifySettings(
                long_text=run.get("long_text", "head"), stride=run.get("stride"), metric=run.get("metric")
            ),
            threshold=run.get("threshold", 0.5),
            takes_any=not run,
            **cls.saved_fields(run, max_length),
        )

    def to_run(self) -> dict[str, Any]:
        threshold = {"threshold": self.threshold} if self.kind == "multi" else {}
        return {**super().to_run(), "kind": self.kind, **threshold}

    @property
    def schemas(self) -> Sequence[TextSchema]:
        return (CLASSIFY, PAIR) if self.takes_any else (SCHEMAS[self.name],)

    @property
    def best_by(self) -> str:
        return self.settings.metric or USUAL_METRIC[self.kind]

    def head(self) -> HeadSpec:
        return HeadSpec("classify", self.labels, PROBLEM_TYPES[self.kind])

    def inputs(self, examples: Sequence[TextExample], *, with_targets: bool) -> list[list[Input]]:
        self._check_shape(examples)
        return text_inputs(self, examples, list(self._gold(examples)) if with_targets else None)

    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        assert output.labels is not None
        logits = output.labels.float()  # (B, C)
        targets = np.stack([one.target for one in inputs if one.target is not None])
        gold = torch.from_numpy(targets).to(logits.device)
        shares = logits.new_tensor([one.share for one in inputs])
        if self.kind == "regression":
            return {"loss": (shares * (logits[:, 0] - gold[:, 0]).square()).sum()}
        if self.kind == "multi":
            right = ((logits > 0) == (gold > 0.5)).float().mean(dim=1)
            return {"loss": (shares * self._multi_losses(logits, gold)).sum(), "accuracy": right.sum()}
        right = logits.argmax(dim=1) == gold[:, 0]
        return {"loss": (shares * self._single_losses(logits, gold[:, 0])).sum(), "accuracy": right.sum()}

    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        return {"loss": len({one.example for one in inputs}), "accuracy": len(inputs)}

    @property
    def contest(self) -> Contest:
        return CONTESTS[self.kind]

    def logits(self, output: Output, inputs: Sequence[Input]) -> list[Tensor]:
        assert output.labels is not None
        return list(output.labels.float())

    def predict(
        self, example: TextExample, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]
    ) -> ClassPrediction:
        logits = pooled(raw)
        num_tokens = _num_tokens(inputs)
        truncated = inputs[0].num_cut > 0
        if self.kind == "regression":
            return ClassPrediction(None, float(logits[0]), {}, num_tokens, truncated)
        probs = probabilities(logits[None], is_multi_label=self.kind == "multi")[0]
        best = int(probs.argmax())
        return ClassPrediction(
            label=self.labels[best],
            score=float(probs[best]),
            scores=dict(zip(self.labels, probs.tolist(), strict=True)),
            tokens=num_tokens,
            truncated=truncated,
            labels=tuple(
                label for label, prob in zip(self.labels, probs, strict=True) if prob >= self.threshold
            )
            if self.kind == "multi"
            else None,
        )

    def measure(self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]) -> Report:
        gold = self._gold(examples)
        if self.kind == "regression":
            return regression(gold[:, 0], np.array([one.score for one in predictions]))
        if self.kind == "multi":
            given = np.zeros_like(gold, dtype=np.bool_)
            for row, one in zip(given, predictions, strict=True):
                row[:] = [label in (one.labels or ()) for label in self.labels]
            return multi_label(gold > 0.5, given, self.labels)
        return classification(gold[:, 0], self._guesses(predictions), self.labels)

    def is_labelled(self, example: TextExample) -> bool:
        if self.kind == "regression":
            return example.score is not None
        return self.kind == "multi" or bool(example.labels)

    def mistakes(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
    ) -> list[Mistake]:
        return [found for found in map(mistake, examples, predictions) if found]

    def acceptance(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
    ) -> Acceptance | None:
        if self.kind == "regression" or not examples:
            return None
        scores = np.array([[one.scores[label] for label in self.labels] for one in predictions])
        is_gold = np.array([[label in example.labels for label in self.labels] for example in examples])
        return acceptance(scores, is_gold, self.labels, has_one_label=self.kind == "single")

    def calibration(
        self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]
    ) -> Calibration | None:
        if self.kind == "regression" or not examples:
            return None
        gold = self._gold(examples)
        scores = np.array([[one.scores[label] for label in self.labels] for one in predictions])
        # Logarithms of probabilities are logits up to a constant, which softmax ignores.
        logits = np.log(np.clip(scores, 1e-300, 1.0))
        if self.kind == "multi":
            logits -= np.log(np.clip(1.0 - scores, 1e-300, 1.0))
            return calibration(logits * self.temperature, gold > 0.5, self.temperature)
        return calibration(logits * self.temperature, gold[:, 0], self.temperature)

    def tune(
        self,
        examples: Sequence[TextExample],
        inputs: Sequence[Sequence[Input]],
        raw: Sequence[Sequence[NDArray[Any]]],
    ) -> Tuning:
        if self.kind == "regression":
            return Tuning({})
        logits, gold = np.stack([pooled(windows) for windows in raw]), self._gold(examples)
        if self.kind == "multi":
            temperature = fit_temperature(logits, gold > 0.5)
            scores = probabilities(logits, temperature, is_multi_label=True)
            best = threshold_for(scores.ravel(), (gold > 0.5).ravel())
            return Tuning({"threshold": best.threshold if best else self.threshold}, temperature)
        temperature = fit_temperature(logits, gold[:, 0])
        confidence, is_right = confidences(logits, gold[:, 0], temperature)
        found = {
            wanted: threshold_for(confidence, is_right, precision=wanted) for wanted in WANTED_ACCURACIES
        }
        thresholds = {str(wanted): asdict(one) for wanted, one in found.items() if one}
        return Tuning({"thresholds": thresholds}, temperature)

    def baselines(
        self,
        train: Sequence[TextExample],
        train_inputs: Sequence[Sequence[Input]],
        dev: Sequence[TextExample],
        dev_inputs: Sequence[Sequence[Input]],
    ) -> Mapping[str, list[list[NDArray[Any]]]]:
        gold = self._gold(train).astype(np.float32)
        texts, unseen = ([" ".join(one.texts) for one in rows] for rows in (train, dev))
        found = {"bag_of_words": bag_of_words(texts, gold, unseen, self.kind, len(self.labels))}
        if self.kind == "single":
            counts = np.bincount(gold[:, 0].astype(np.int64), minlength=len(self.labels))
            found["majority"] = np.tile(np.log(counts), (len(dev), 1))
        return {name: [[row] for row in logits] for name, logits in found.items()}

    def decision(self, prediction: ClassPrediction) -> Hashable:
        return prediction.label if prediction.labels is None else prediction.labels

    def agreement(self, ours: Sequence[ClassPrediction], theirs: Sequence[ClassPrediction]) -> float:
        if self.kind != "regression":
            return super().agreement(ours, theirs)
        scores = np.array([[one.score for one in predictions] for predictions in (ours, theirs)])
        return regression(*scores).spearman

    def alarm(self, examples: Sequence[TextExample], predictions: Sequence[ClassPrediction]) -> str | None:
        if self.kind == "regression":
            values = {round(one.score, 4) for one in predictions}
            is_one = len(values) == 1 < len(predictions)
            return Sentence("every text gets the same number") if is_one else None
        if self.kind == "multi":
            has_any = any(one.labels for one in predictions)
            is_fine = has_any or not any(one.labels for one in examples)
            return None if is_fine else Sentence("no text gets a label")
        gold = Counter(example.labels[0] for example in examples)
        guessed = {one.label for one in predictions}
        if len(gold) > 1 and len(guessed) == 1:
            return Sentence("every text gets the label {label!r}", label=guessed.pop())
        num_right = sum(e.labels == (p.label,) for e, p in zip(examples, predictions, strict=True))
        label, most = gold.most_common(1)[0]
        if len(gold) > 1 and num_right < most:
            return Sentence(
                "worse than always guessing {label!r}, which is right for {share:.1%}",
                label=label,
                share=most / len(examples),
            )
        return None

    def _guesses(self, predictions: Sequence[ClassPrediction]) -> NDArray[np.int64]:
        ids = {label: index for index, label in enumerate(self.labels)}
        return np.array([ids[one.label or ""] for one in predictions], dtype=np.int64)

    def _check_shape(self, examples: Sequence[TextExample]) -> None:
        for example in examples:
            if not self.takes_any and (example.pair is not None) != (self.name == "pair"):
                got, expected = ("two", "one text") if self.name == "classify" else ("one", "two texts")
                raise UserError(f"{example.where}: expected {expected} for {self.name}, got {got}")

    def _gold(self, examples: Sequence[TextExample]) -> NDArray[Any]:
        """Return the labels of examples: (N, 1) class numbers or scores, or (N, C) zeros and ones."""
        if self.kind == "regression":
            return np.array([example.score for example in examples], dtype=np.float32)[:, None]
        ids = {label: index for index, label in enumerate(self.labels)}
        for example in examples:
            for label in example.labels:
                if label not in ids:
                    known = ", ".join(self.labels)
                    raise DataError(f"{example.where}: label {label!r} is not one of the model's: {known}")
        if self.kind == "single":
            return np.array([ids[example.labels[0]] for example in examples], dtype=np.int64)[:, None]
        gold = np.zeros((len(examples), len(self.labels)), dtype=np.float32)
        for row, example in zip(gold, examples, strict=True):
            row[[ids[label] for label in example.labels]] = 1.0
        return gold

    def _single_losses(self, logits: Tensor, gold: Tensor) -> Tensor:
        """Return the cross-entropy of each input, weighted by label and by the model's doubt, (B,)."""
        losses = F.cross_entropy(logits, gold, reduction="none")
        if self.settings.focal_gamma:
            losses = (1 - (-losses).exp()).clamp_min(0).pow(self.settings.focal_gamma) * losses
        return losses if self.weights is None else losses * logits.new_tensor(self.weights)[gold]

    def _multi_losses(self, logits: Tensor, gold: Tensor) -> Tensor:
        """Return the mean cross-entropy of each input over the labels, (B,)."""
        losses = F.binary_cross_entropy_with_logits(logits, gold, reduction="none")  # (B, C)
        if self.settings.focal_gamma:
            losses = (1 - (-losses).exp()).clamp_min(0).pow(self.settings.focal_gamma) * losses
        if self.weights is not None:
            losses = torch.where(gold > 0.5, losses * logits.new_tensor(self.weights), losses)
        return losses.mean(dim=1)


def _num_tokens(inputs: Sequence[Input]) -> int:
    """Return the tokens of an example that its inputs show; what windows share counts once."""
    beside = len(inputs[0]) - inputs[0].window.num_pieces
    return len(inputs[0]) if len(inputs) == 1 else inputs[-1].window.stop + beside


def pooled(raw: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Return the mean of the windows' logits, (C,)."""
    return np.mean(np.stack(raw), axis=0, dtype=np.float64)

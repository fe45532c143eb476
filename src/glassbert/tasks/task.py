"""What a task is: the base class of classify, tag and answer.

Legend: B inputs of a batch, T their tokens, N pieces of a text.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.config import Head, ModelConfig, ProblemType
from glassbert.data.examples import E, Kind
from glassbert.data.rows.schema import Schema
from glassbert.errors import UserError
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.report import Report
from glassbert.metrics.thresholds import Acceptance
from glassbert.model.bert import Output
from glassbert.tasks.registry import schema_of
from glassbert.tasks.saved import SavedTask
from glassbert.tasks.settings import TaskSettings
from glassbert.text.windows import Window
from glassbert.text.wordpiece.tokenizer import Tokenizer

P = TypeVar("P", bound="Prediction")

Contest = Literal["labels", "places", "each", "number"]
"""labels: the last dimension shares one probability; places: the first does; each: every logit has its own;
number: a logit is the answer itself, not a probability."""

LOWER_IS_BETTER = frozenset({"loss", "mse", "mae", "ece", "ece_uncalibrated", "hamming_loss"})


@dataclass(frozen=True, slots=True)
class Input:
    """What the model reads at once: a whole text, an excerpt of it, or a window of it."""

    ids: NDArray[np.int32]
    segments: NDArray[np.int8]
    """0 up to and with the first [SEP], 1 after it."""
    example: int
    """The number of its example."""
    window: Window
    """Its pieces of the text that is divided into windows."""
    num_cut: int = 0
    """Pieces of its example that no input holds."""
    share: float = 1.0
    """Its weight in the loss; the windows of an example together have 1."""
    target: NDArray[Any] | None = None
    """The label in the task's own encoding; None if unlabelled."""
    taught: NDArray[Any] | None = None
    """The teacher's answer to it, one row for each of the task's `logits`; None without a teacher."""

    def __len__(self) -> int:
        return len(self.ids)


class Prediction(Protocol):
    """What a model predicts for an example."""

    @property
    def truncated(self) -> bool:
        """Whether the model saw only a part of the example."""

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""


@dataclass(frozen=True)
class HeadSpec:
    """The head that sits on the encoder."""

    head: Head
    labels: tuple[str, ...] = ()
    problem_type: ProblemType | None = None


@dataclass(frozen=True)
class Tuning:
    """What is fitted to the dev rows after training."""

    run: Mapping[str, Any]
    """Fields of the task with their fitted values, such as thresholds; run.json keeps them, `from_run` reads
    them."""
    temperature: float = 1.0
    """What logits are divided by for honest scores. The weights of the head are divided, so that any loader
    gives the same scores; a field of the task, too."""


@dataclass(frozen=True, kw_only=True)
class Task(ABC, Generic[E, P]):
    """How an example becomes inputs, what its loss is, and how logits become a prediction.

    A task is made from examples before training (`for_training`), or from the run.json of a saved model
    (`from_run`). It holds no weights but those of ``extra``. Methods that are not abstract suit a task whose
    scores are not probabilities; `examples` and `predictions` are in the same order everywhere.
    """

    name: str
    """As in the registry."""
    tokenizer: Tokenizer
    max_length: int
    """Tokens of the longest input; longer text is cut or becomes several windows."""
    settings: TaskSettings = field(default_factory=TaskSettings)
    kind: Kind | None = None
    """How texts are labelled, where a file leaves it open; None for a task with one kind of label."""
    temperature: float = 1.0
    """What the weights of the head were divided by after training; scores need no further correction."""
    thresholds: Mapping[str, Any] = field(default_factory=dict)
    """The score from which predictions are right this often on dev rows, by that share as text."""
    extra: nn.Module | None = None
    """Weights beyond those of BERT, such as the transitions of a CRF; saved in a file of their own."""

    usual_metric: ClassVar[str] = "f1"
    saved: ClassVar[type[SavedTask]] = SavedTask
    """The types of what `to_run` returns: they are checked before `from_run` is called."""

    @classmethod
    @abstractmethod
    def for_training(
        cls,
        name: str,
        settings: Any,
        tokenizer: Tokenizer,
        train: Sequence[E],
        dev: Sequence[E],
        *,
        max_length: int,
        kind: Kind | None = None,
    ) -> tuple[Self, list[str]]:
        """Return the task for these examples, and remarks for the user; raise DataError if they do not suit.

        Args:
            max_length: Tokens that the model reads at most.
            kind: How the files are labelled, for a task whose schema leaves it open.
        """

    @classmethod
    @abstractmethod
    def from_run(
        cls,
        name: str,
        run: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        max_length: int,
    ) -> Self:
        """Return the task of a saved model.

        Args:
            run: What `to_run` returned; empty for a foreign folder.
            max_length: Tokens that the model reads at most.
        """

    @staticmethod
    def saved_fields(run: Mapping[str, Any], max_length: int) -> dict[str, Any]:
        """Return the fields of a task that `to_run` saves for every task."""
        return {
            "max_length": min(max_length, run.get("max_length") or max_length),
            "temperature": run.get("temperature", 1.0),
            "thresholds": run.get("thresholds", {}),
        }

    def to_run(self) -> dict[str, Any]:
        """Return what run.json must keep for the loaded model to predict the same."""
        return {
            "name": self.name,
            "max_length": self.max_length,
            "long_text": self.settings.long_text,
            "stride": self.settings.stride,
            "metric": self.best_by,
            "temperature": self.temperature,
            **({"thresholds": dict(self.thresholds)} if self.thresholds else {}),
        }

    @property
    def schemas(self) -> Sequence[Schema[E]]:
        """How rows are read: in one way, unless a foreign checkpoint does not say which."""
        return (schema_of(self.name),)

    @property
    def best_by(self) -> str:
        """The metric that chooses the best weights."""
        return self.settings.metric or self.usual_metric

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weight of each loss in the total."""
        return {"loss": 1.0}

    @property
    def contest(self) -> Contest:
        """What the `logits` of an input compete over."""
        return "labels"

    @abstractmethod
    def head(self) -> HeadSpec:
        """Return the head that the task needs."""

    @abstractmethod
    def inputs(self, examples: Sequence[E], *, with_targets: bool) -> list[list[Input]]:
        """Return the inputs of each example: one, or its windows."""

    @abstractmethod
    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        """Return the sums over ``inputs``, packed in this order, of each loss and of what else is counted."""

    @abstractmethod
    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        """Return what to divide each of those sums by."""

    def logits(self, output: Output, inputs: Sequence[Input]) -> list[Tensor]:
        """Return the logits of each input with their gradient: what a student learns from its teacher."""
        raise UserError(f"the task {self.name!r} does not learn from a teacher; leave the teacher out")

    def raw(self, output: Output, inputs: Sequence[Input]) -> list[NDArray[Any]]:
        """Return the logits of each input."""
        return [logits.detach().cpu().numpy() for logits in self.logits(output, inputs)]

    @abstractmethod
    def predict(self, example: E, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]) -> P:
        """Merge the windows of an example and decode their logits."""

    @abstractmethod
    def measure(self, examples: Sequence[E], predictions: Sequence[P]) -> Report:
        """Compare predictions with the labels of their examples."""

    def is_labelled(self, example: E) -> bool:
        """Return whether the right answer to an example is known."""
        return example.is_labelled

    def mistakes(self, examples: Sequence[E], predictions: Sequence[P]) -> list[Mistake]:
        """Return the wrong predictions, for reports."""
        return []

    def acceptance(self, examples: Sequence[E], predictions: Sequence[P]) -> Acceptance | None:
        """Return the scores from which guesses can be accepted; None for a task without classes."""
        return None

    def calibration(self, examples: Sequence[E], predictions: Sequence[P]) -> Calibration | None:
        """Return how far scores and success are apart; None for a task whose scores are not probabilities."""
        return None

    def tune(
        self,
        examples: Sequence[E],
        inputs: Sequence[Sequence[Input]],
        raw: Sequence[Sequence[NDArray[Any]]],
    ) -> Tuning:
        """Fit a temperature and thresholds to the dev rows."""
        return Tuning({})

    def baselines(
        self,
        train: Sequence[E],
        train_inputs: Sequence[Sequence[Input]],
        dev: Sequence[E],
        dev_inputs: Sequence[Sequence[Input]],
    ) -> "Mapping[str, list[list[NDArray[Any]]]]":
        """Return the logits that simple methods give to the dev rows, by the name of the method.

        They are in the form of the network's, so that they are tuned, decoded and measured in the same way.
        """
        return {}

    def without_extra(self) -> Self:
        """Return the task without weights beyond those of BERT, for logits that are not a network's."""
        return replace(self, extra=None, temperature=1.0, thresholds={})

    def decision(self, prediction: P) -> Hashable:
        """Return what a prediction decides, without its scores."""
        return repr(prediction.to_json())

    def agreement(self, ours: Sequence[P], theirs: Sequence[P]) -> float:
        """Return the share of equal decisions of two models on the same examples."""
        equal = [self.decision(one) == self.decision(other) for one, other in zip(ours, theirs, strict=True)]
        return float(np.mean(equal))

    def alarm(self, examples: Sequence[E], predictions: Sequence[P]) -> str | None:
        """Return why the run is degenerate, such as one class guessed for every text; None if it is not."""
        return None


def with_specials(
    tokenizer: Tokenizer, first: Sequence[int], second: Sequence[int] | None = None
) -> tuple[NDArray[np.int32], NDArray[np.int8]]:
    """Return ids and segments of [CLS] first [SEP], or of [CLS] first [SEP] second [SEP]."""
    cls_id, sep_id = tokenizer.vocabulary.cls_id, tokenizer.vocabulary.sep_id
    ids = [cls_id, *first, sep_id]
    num_first = len(ids)
    if second is not None:
        ids += [*second, sep_id]
    segments = np.zeros(len(ids), dtype=np.int8)
    segments[num_first:] = 1
    return np.array(ids, dtype=np.int32), segments

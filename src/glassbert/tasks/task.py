"""What sets a task apart from the others: the protocol that classify, tag and answer follow.

Legend: B inputs of a batch, T their tokens.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.config import Head, ModelConfig, ProblemType
from glassbert.data.examples import Kind, TaskName
from glassbert.data.rows.schema import Schema
from glassbert.errors import UserError
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.thresholds import Acceptance
from glassbert.model.bert import Output
from glassbert.text.windows import Window
from glassbert.text.wordpiece.tokenizer import Tokenizer

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
P = TypeVar("P", bound="Prediction")

LongText = Literal["head", "tail", "head+tail", "window"]
"""What becomes of a text that is too long: one or both of its ends are kept, or windows hold all of it."""

LOWER_IS_BETTER = frozenset({"loss", "mse", "mae", "ece", "ece_uncalibrated", "hamming_loss"})


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The `[task]` table: what every task can be told."""

    max_length: int | None = None
    """Tokens of the longest input, [CLS] and [SEP] included; the model's own limit when absent."""
    long_text: LongText = "head"
    """What is kept of a longer text: its head, its tail, head+tail, or all of it in overlapping windows."""
    stride: int | None = None
    """Pieces from one window to the next, at most; half of what a window can hold when absent."""
    freeze_encoder: bool = False
    """Train the head alone."""
    metric: str | None = None
    """The metric of the held-out rows that tells the best weights; the task's usual one when absent."""

    def __post_init__(self) -> None:
        if self.long_text not in get_args(LongText):
            raise UserError(
                f"task.long_text={self.long_text!r}; expected one of {', '.join(get_args(LongText))}"
            )
        if self.max_length is not None and self.max_length < 4:
            raise UserError(f"task.max_length={self.max_length}; expected at least 4")
        if self.stride is not None and self.stride < 1:
            raise UserError(f"task.stride={self.stride}; expected at least 1")


@dataclass(frozen=True, kw_only=True)
class WindowSettings(TaskSettings):
    """The `[task]` table of a task that always reads all of a text."""

    long_text: LongText = "window"
    """Only window: all of a text is read."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.long_text != "window":
            raise UserError(
                f"task.long_text={self.long_text}: the task reads all of a text, in windows; remove it"
            )


@dataclass(frozen=True, slots=True)
class Input:
    """What the model sees at once: a whole text, what is kept of it, or a window of it."""

    ids: NDArray[np.int32]
    segments: NDArray[np.int8]
    """0 up to and with the first [SEP], 1 after it."""
    example: int
    """Which of the examples it is of."""
    window: Window
    """The pieces it holds, of the text that is divided into windows."""
    num_cut: int = 0
    """Pieces of its example that no input holds."""
    share: float = 1.0
    """How much of its example's loss it bears: the windows of an example together bear 1."""
    target: NDArray[Any] | None = None
    """What the model has to say, as the task writes it; None when nobody knows."""

    def __len__(self) -> int:
        return len(self.ids)


class Prediction(Protocol):
    """What a model says of an example."""

    @property
    def truncated(self) -> bool:
        """Whether the model saw only a part of the example."""

    def to_json(self) -> dict[str, Any]:
        """Return what `predict` prints."""


class Report(Protocol):
    """How good predictions are: one of the reports of `metrics`."""

    def metrics(self) -> dict[str, float]:
        """Return the figures by the names that `evaluate` prints and `--min` reads."""

    def to_json(self) -> dict[str, Any]:
        """Return all of the report."""


@dataclass(frozen=True)
class HeadSpec:
    """What sits on the encoder."""

    head: Head
    labels: tuple[str, ...] = ()
    problem_type: ProblemType | None = None


@dataclass(frozen=True)
class Tuning:
    """What the held-out rows teach after training, without changing what is learnt."""

    run: Mapping[str, Any]
    """What run.json keeps beside what `to_run` says, such as thresholds; `from_run` is told it."""
    temperature: float = 1.0
    """What logits are to be divided by for honest scores. The head's weights are divided, so that any loader
    gives the same; `from_run` is told it as `temperature`."""


class Task(Protocol[E_contra, P]):
    """A task: how an example becomes input, what its loss is, how logits become a prediction.

    A form is made from examples before training (`for_training`), or from what a saved model says of itself
    (`from_run`). It holds no weights but those of `extra`.
    """

    @property
    def name(self) -> TaskName: ...

    @property
    def settings(self) -> TaskSettings: ...

    @property
    def kind(self) -> Kind | None:
        """How texts are labelled, where a file leaves it open; None for a task with one kind of label."""

    @property
    def schemas(self) -> Sequence[Schema[Any]]:
        """How rows are read: in one way, but for a foreign checkpoint that does not say what it takes."""

    @property
    def thresholds(self) -> Mapping[str, Any]:
        """From which score on the model is right as often as wanted, on dev rows, by that share as text."""

    @property
    def max_length(self) -> int:
        """Tokens of an input at most; longer text is cut or becomes several windows."""

    @property
    def extra(self) -> nn.Module | None:
        """Weights beyond those of BERT, such as the transitions of a CRF; kept in a file of their own."""

    @property
    def best_by(self) -> str:
        """The metric that tells the best weights."""

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """How much each loss counts in the total."""

    @classmethod
    def for_training(
        cls,
        name: TaskName,
        settings: Any,
        tokenizer: Tokenizer,
        train: Sequence[E_contra],
        dev: Sequence[E_contra],
        *,
        max_length: int,
        **known: Any,
    ) -> tuple[Self, list[str]]:
        """Return the form for these examples, and remarks for the user; examples that cannot do are refused.

        Args:
            max_length: Tokens that the model takes at most.
            known: What else the files say: for classify and pair, the `kind` of their labels.
        """

    @classmethod
    def from_run(
        cls,
        name: TaskName,
        run: Mapping[str, Any],
        tokenizer: Tokenizer,
        config: ModelConfig,
        *,
        max_length: int,
    ) -> Self:
        """Return the form of a saved model; ``run`` is what `to_run` gave, empty for a folder not of ours."""

    def to_run(self) -> dict[str, Any]:
        """Return what run.json must keep so that the loaded model predicts alike."""

    def head(self) -> HeadSpec:
        """Return the head that the task needs."""

    def inputs(self, examples: Sequence[E_contra], *, with_targets: bool) -> list[list[Input]]:
        """Return the inputs of each example: one, or its windows."""

    def losses(self, output: Output, inputs: Sequence[Input]) -> dict[str, Tensor]:
        """Return sums over ``inputs``, which are packed in their order, of the losses and what is counted."""

    def counts(self, inputs: Sequence[Input]) -> dict[str, int]:
        """Return what each of the sums is to be divided by."""

    def raw(self, output: Output, inputs: Sequence[Input]) -> list[NDArray[Any]]:
        """Return the logits of each input."""

    def predict(self, example: E_contra, inputs: Sequence[Input], raw: Sequence[NDArray[Any]]) -> P:
        """Merge the windows of an example and read its logits."""

    def measure(self, examples: Sequence[E_contra], predictions: Sequence[P]) -> Report:
        """Compare predictions with what the examples say."""

    def is_labelled(self, example: E_contra) -> bool:
        """Return whether an example says what is right, in the way that the task needs."""

    def mistakes(self, examples: Sequence[E_contra], predictions: Sequence[P]) -> list[Mistake]:
        """Return what is wrong among the predictions, in their order."""

    def acceptance(self, examples: Sequence[E_contra], predictions: Sequence[P]) -> Acceptance | None:
        """Return the scores from which guesses are good enough; None for a task without classes."""

    def calibration(self, examples: Sequence[E_contra], predictions: Sequence[P]) -> Calibration | None:
        """Tell how far scores and success are apart; None for a task whose scores promise nothing."""

    def tune(
        self,
        examples: Sequence[E_contra],
        inputs: Sequence[Sequence[Input]],
        raw: Sequence[Sequence[NDArray[Any]]],
    ) -> Tuning:
        """Fit a temperature and thresholds to held-out examples."""

    def alarm(self, examples: Sequence[E_contra], predictions: Sequence[P]) -> str | None:
        """Say why the run is degenerate, such as one class guessed for every text; None when it is not."""


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


def length_limit(settings: TaskSettings, max_length: int) -> int:
    """Return the tokens of the longest input; more than the model takes is refused."""
    if settings.max_length is None:
        return max_length
    if settings.max_length > max_length:
        raise UserError(
            f"task.max_length={settings.max_length} exceeds the {max_length} tokens that the model takes"
        )
    return settings.max_length

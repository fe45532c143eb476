"""Answers to a stream of rows: examples in, predictions or vectors out, in the same order."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from glassbert.data.examples import BadRow, Example
from glassbert.data.rows.schema import Item, Schema
from glassbert.errors import DataError, ModelError, UserError
from glassbert.inference.embeddings import EmbeddedText, each_text
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.task import Prediction, Task
from glassbert.text.portions import grouped
from glassbert.text.truncate import Keep

if TYPE_CHECKING:
    from glassbert.inference.model import Model

T = TypeVar("T")

# Examples that are read, sorted by length and answered together: memory does not depend on the input.
CHUNK_EXAMPLES = 1024
CHUNK_CHARACTERS = 1 << 20


def as_examples(task: Task[Any, Any], items: Sequence[Item]) -> list[Example]:
    """Return items of Python code as examples of the task."""
    schema = next((one for one in task.schemas if items and one.fits(items[0])), task.schemas[0])
    return [schema.from_item(item, f"item {number}") for number, item in enumerate(items)]


def schema_for(task: Task[Any, Any], asked: str | None) -> Schema[Any]:
    """Return how rows are read for a model.

    Args:
        asked: The task to read them for, where the model's folder leaves it open.
    """
    for schema in task.schemas:
        if asked in (None, schema.task):
            return schema
    raise UserError(f"task={asked}: the model does {task.name}; leave it out")


def predict_stream(
    model: "Model", examples: Iterable[Example | BadRow], *, abstain_below: float = 0.0
) -> Iterator[Prediction | BadRow]:
    """Yield a prediction for each example, in order and in bounded memory; pass bad rows through."""

    def answer(good: list[Example]) -> Sequence[Prediction]:
        return model.predict_examples(good, abstain_below=abstain_below)

    return _answered(examples, answer)


def embed_stream(
    model: "Model",
    examples: Iterable[Example | BadRow],
    *,
    keep: Keep = "head",
    prompt_name: str | None = None,
) -> Iterator[EmbeddedText | BadRow]:
    """Yield the vector of each example, in order and in bounded memory; pass bad rows through."""

    def answer(good: list[Example]) -> Sequence[EmbeddedText]:
        texts = [one.texts[0] for one in good]
        return each_text(model.embed(texts, keep=keep, prompt_name=prompt_name))

    return _answered(examples, answer)


def _answered(
    examples: Iterable[Example | BadRow], answer: Callable[[list[Example]], Sequence[T]]
) -> Iterator[T | BadRow]:
    """Yield what ``answer`` gives for each example, in order; it gets many at once."""
    for chunk in grouped(
        examples, max_items=CHUNK_EXAMPLES, max_characters=CHUNK_CHARACTERS, length=_num_characters
    ):
        good = [one for one in chunk if not isinstance(one, BadRow)]
        try:
            answers: Iterator[T | BadRow] = iter(answer(good))
        except DataError:
            # One of them cannot be answered, such as a question that is too long: the others can.
            answers = (_alone(one, answer) for one in good)
        for one in chunk:
            yield one if isinstance(one, BadRow) else next(answers)


def _alone(example: Example, answer: Callable[[list[Example]], Sequence[T]]) -> T | BadRow:
    try:
        return answer([example])[0]
    except DataError as error:
        return BadRow(example.where, str(error).removeprefix(f"{example.where}: "))


def _num_characters(one: Example | BadRow) -> int:
    return 0 if isinstance(one, BadRow) else sum(map(len, one.texts))


def with_abstention(predictions: Sequence[Prediction], below: float) -> list[Prediction]:
    """Remove the label of every prediction whose score is below ``below``."""
    if not below:
        return list(predictions)
    kept: list[Prediction] = []
    for one in predictions:
        if not isinstance(one, ClassPrediction) or one.label is None or one.labels is not None:
            raise UserError("only a model that gives one label can abstain; leave the threshold out")
        kept.append(replace(one, label=None) if one.score < below else one)
    return kept


def threshold_for_accuracy(model: "Model", accuracy: float) -> float:
    """Return the score from which the model was right that often on its dev rows."""
    known: Mapping[str, Mapping[str, float]] = model.task.thresholds
    found = [(float(share), row["threshold"]) for share, row in known.items() if float(share) >= accuracy]
    if not found:
        raise ModelError(
            f"no threshold for an accuracy of {accuracy:g}; run.json has {', '.join(known) or 'none'}"
        )
    return min(found)[1]

"""Predictions of a fine-tuned model: rows of any usual shape in, predictions in the same order out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassbert.data.examples import BadRow, Example
from glassbert.data.rows.schema import Item, Schema
from glassbert.errors import DataError, ModelError, UserError
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.task import Prediction, Task
from glassbert.text.portions import grouped

if TYPE_CHECKING:
    from glassbert.inference.model import Model

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
    for chunk in grouped(
        examples, max_items=CHUNK_EXAMPLES, max_characters=CHUNK_CHARACTERS, length=_num_characters
    ):
        good = [one for one in chunk if not isinstance(one, BadRow)]
        try:
            answers: Iterator[Prediction | BadRow] = iter(
                model.predict_examples(good, abstain_below=abstain_below)
            )
        except DataError:
            # One of them cannot be answered, such as a question that is too long: the others can.
            answers = (_alone(model, one, abstain_below) for one in good)
        for one in chunk:
            yield one if isinstance(one, BadRow) else next(answers)


def _alone(model: "Model", example: Example, abstain_below: float) -> Prediction | BadRow:
    try:
        return model.predict_examples([example], abstain_below=abstain_below)[0]
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
    """Return the score from which on the model was right that often on its dev rows."""
    known: Mapping[str, Mapping[str, float]] = model.task.thresholds
    found = [(float(share), row["threshold"]) for share, row in known.items() if float(share) >= accuracy]
    if not found:
        raise ModelError(
            f"no threshold for an accuracy of {accuracy:g}; run.json has {', '.join(known) or 'none'}"
        )
    return min(found)[1]

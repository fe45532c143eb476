"""What a fine-tuned model says of texts: items of any usual shape in, predictions in the same order out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from glassbert.data.examples import AnswerExample, BadRow, Example, TagExample, TaskName, TextExample
from glassbert.errors import DataError, ModelError, UserError
from glassbert.tasks.classify.task import ClassPrediction
from glassbert.tasks.task import Prediction

if TYPE_CHECKING:
    from glassbert.inference.model import Model

Item = str | Sequence[str] | Mapping[str, Any]
"""A text; two texts; or a mapping with "text", "text_a" and "text_b", or "question" and "context"."""

# Examples that are read, sorted by length and answered together: memory stays the same for any input.
CHUNK_EXAMPLES = 1024
CHUNK_CHARACTERS = 1 << 20

_KEYS: dict[TaskName, tuple[tuple[str, ...], ...]] = {
    "classify": (("text",),),
    "pair": (("text_a", "text_b"), ("text", "pair")),
    "tag": (("text",),),
    "answer": (("question", "context"),),
}


def as_example(task: TaskName, item: Item, where: str) -> Example:
    """Return an item as an example of the task, without labels."""
    texts = _texts(task, item, where)
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"{where}: a text must be a string; {type(text).__name__} came")
    if task == "tag":
        return TagExample(texts[0], None, where)
    if task == "answer":
        identity = str(item.get("id", where)) if isinstance(item, Mapping) else where
        return AnswerExample(identity, texts[0], texts[1], None, where)
    return TextExample(texts[0], texts[1] if task == "pair" else None, (), None, where)


def is_pair(item: Item) -> bool:
    """Whether an item holds two texts."""
    if isinstance(item, Mapping):
        return any(all(key in item for key in keys) for keys in _KEYS["pair"])
    return not isinstance(item, str)


def predict_stream(
    model: "Model", examples: Iterable[Example | BadRow], *, abstain_below: float = 0.0
) -> Iterator[Prediction | BadRow]:
    """Yield a prediction for each example, in order; bad rows pass through. Memory does not grow."""
    for chunk in _chunks(examples):
        good = [one for one in chunk if not isinstance(one, BadRow)]
        try:
            answers: Iterator[Prediction | BadRow] = iter(
                model.predict_examples(good, abstain_below=abstain_below)
            )
        except DataError:
            # One of them cannot be answered, such as a question that fills the model: the others can.
            answers = (_alone(model, one, abstain_below) for one in good)
        for one in chunk:
            yield one if isinstance(one, BadRow) else next(answers)


def _alone(model: "Model", example: Example, abstain_below: float) -> Prediction | BadRow:
    try:
        return model.predict_examples([example], abstain_below=abstain_below)[0]
    except DataError as error:
        return BadRow(example.where, str(error).removeprefix(f"{example.where}: "))


def _chunks(examples: Iterable[Example | BadRow]) -> Iterator[list[Example | BadRow]]:
    chunk: list[Example | BadRow] = []
    num_characters = 0
    for one in examples:
        chunk.append(one)
        num_characters += _num_characters(one)
        if len(chunk) >= CHUNK_EXAMPLES or num_characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, num_characters = [], 0
    if chunk:
        yield chunk


def _num_characters(example: Example | BadRow) -> int:
    names = ("text", "pair", "question", "context")
    return sum(len(getattr(example, name, None) or "") for name in names)


def with_abstention(predictions: Sequence[Prediction], below: float) -> list[Prediction]:
    """Take the label back from every prediction whose score does not reach ``below``."""
    if not below:
        return list(predictions)
    kept: list[Prediction] = []
    for one in predictions:
        if not isinstance(one, ClassPrediction) or one.label is None or one.labels is not None:
            raise UserError("only a model that gives one label can abstain; leave the threshold out")
        kept.append(replace(one, label=None) if one.score < below else one)
    return kept


def _texts(task: TaskName, item: Item, where: str) -> Sequence[str]:
    expected = len(_KEYS[task][0])
    if isinstance(item, str):
        texts: Sequence[str] = (item,)
    elif isinstance(item, Mapping):
        keys = next((keys for keys in _KEYS[task] if all(key in item for key in keys)), None)
        if keys is None:
            wanted = " and ".join(repr(key) for key in _KEYS[task][0])
            raise UserError(f"{where}: the keys {sorted(item)} came; a {task} model needs {wanted}")
        texts = [item[key] for key in keys]
    else:
        texts = tuple(item)
    if len(texts) != expected:
        raise UserError(
            f"{where}: {len(texts)} text{'s' * (len(texts) != 1)} came; a {task} model takes {expected}"
        )
    return texts


def threshold_for_accuracy(model: "Model", accuracy: float) -> float:
    """Return the score from which on the model was right that often, as its run.json says."""
    known: Mapping[str, Mapping[str, float]] = getattr(model.task, "thresholds", {})
    found = [(float(share), row["threshold"]) for share, row in known.items() if float(share) >= accuracy]
    if not found:
        raise ModelError(
            f"no threshold for an accuracy of {accuracy:g}; run.json knows {', '.join(known) or 'none'}"
        )
    return min(found)[1]

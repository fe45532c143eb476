"""The labels of classify and pair: checked before the first step, listed and weighted."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.data.examples import Kind, TextExample
from glassbert.data.rows.columns import is_number
from glassbert.data.rows.lines import open_lines
from glassbert.data.rows.record import Notes
from glassbert.errors import DataError, UserError
from glassbert.parsing import parse_json

MAX_LABELS = 1000
"""More distinct labels than this must be ids, or texts in the wrong column."""
_NAMED = 5


def kind_of(examples: Sequence[TextExample]) -> Kind:
    """Return how the examples are labelled."""
    if any(example.score is not None for example in examples):
        return "regression"
    return "multi" if any(len(example.labels) != 1 for example in examples) else "single"


def label_set(examples: Iterable[TextExample]) -> tuple[str, ...]:
    """Return the labels in the order of the logits: numbers by their value, others as text."""
    found = {label for example in examples for label in example.labels}
    # Not by `float` alone: the place of "nan" among numbers would depend on the order of the set.
    if all(map(is_number, found)):
        return tuple(sorted(found, key=lambda label: (float(label), label)))
    return tuple(sorted(found))


def check_labels(
    kind: Kind, labels: Sequence[str], train: Sequence[TextExample], dev: Sequence[TextExample]
) -> list[str]:
    """Return remarks for the user; raise DataError for examples that nothing can be learned from."""
    if kind == "regression":
        return _check_scores(train, dev)
    if kind_of(dev) == "regression":
        raise DataError(f"{dev[0].where}: expected a label, as the training rows have, got a score")
    if not labels:
        raise DataError("no training row has a label; name the column that holds it")
    if len(labels) < 2 and kind == "single":
        raise DataError(f"all {len(train)} training rows have the label {labels[0]!r}; expected at least two")
    if len(labels) > min(MAX_LABELS, len(train) - 1):
        raise DataError(
            f"{len(labels)} different labels in {len(train)} rows, such as {labels[0]!r}; "
            "is the label in another column? for numbers, set data.kind=regression"
        )
    known = set(labels)
    for example in dev:
        for label in example.labels:
            if label not in known:
                raise DataError(
                    f"{example.where}: label {label!r} is in no training row; the training rows have "
                    f"{_listed(labels)}"
                )
    if kind == "single" and kind_of(dev) == "multi":
        culprit = next(example for example in dev if len(example.labels) != 1)
        raise DataError(
            f"{culprit.where}: {len(culprit.labels)} labels; every training row has one. For rows with any "
            "number of labels set data.kind=multi"
        )
    return _notes(labels, train, dev)


def class_weights(
    wanted: str, kind: Kind, labels: Sequence[str], train: Sequence[TextExample]
) -> NDArray[np.float32] | None:
    """Return the weight of each label in the loss, (C,); None if all count the same.

    Args:
        wanted: none, balanced, or a file: JSON ({"label": weight}), or lines of a label, a tab, a weight.
    """
    if wanted == "none":
        return None
    if kind == "regression":
        raise UserError(f"task.class_weights={wanted}: a regression has no classes; remove it")
    counts = Counter(label for example in train for label in example.labels)
    numbers = np.array([counts[label] for label in labels], dtype=np.float64)
    if wanted == "balanced":
        if kind == "multi":  # as many times as there are rows without the label
            return ((len(train) - numbers) / numbers).clip(min=1.0).astype(np.float32)
        return (len(train) / (len(labels) * numbers)).astype(np.float32)
    weights = np.array(_read_weights(Path(wanted), labels))
    if kind == "single":
        # A mean of 1 over the training rows leaves the size of a step to the learning rate alone.
        weights *= numbers.sum() / (weights @ numbers)
    return weights.astype(np.float32)


def _check_scores(train: Sequence[TextExample], dev: Sequence[TextExample]) -> list[str]:
    for example in (*train, *dev):
        if example.score is None:
            raise DataError(
                f"{example.where}: no score, but other rows have one; add it or leave the row out"
            )
    scores = np.array([example.score for example in train])
    if scores.min() == scores.max():
        raise DataError(f"all {len(train)} training rows have the score {scores[0]:g}; expected several")
    return [f"scores from {scores.min():g} to {scores.max():g}, mean {scores.mean():.3g}"]


def _notes(labels: Sequence[str], train: Sequence[TextExample], dev: Sequence[TextExample]) -> list[str]:
    counts = Counter(label for example in train for label in example.labels)
    notes = [f"{len(labels)} labels: {_listed([f'{label} ({counts[label]:,})' for label in labels])}"]
    seen = {label for example in dev for label in example.labels}
    unseen = [label for label in labels if label not in seen]
    if dev and unseen:
        notes.append(f"no held-out row has the label {_listed(unseen)}: how well it is found stays unknown")
    return notes


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:_NAMED])
    return shown if len(labels) <= _NAMED else f"{shown} and {len(labels) - _NAMED} more"


def _read_weights(path: Path, labels: Sequence[str]) -> list[float]:
    if not path.is_file():
        raise UserError(
            f"task.class_weights={path}: expected none, balanced, or a file; there is no such file"
        )
    text = "\n".join(open_lines(path, Notes()))
    try:
        content = parse_json(text) if text.lstrip().startswith("{") else dict(_pairs(text))
        weights = {str(label): float(weight) for label, weight in content.items()}
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{path}: expected a label, a tab and a number on each line, or JSON ({error})"
        ) from None
    missing = [label for label in labels if label not in weights]
    if missing:
        raise DataError(f"{path}: no weight for the label {_listed(missing)}; add it")
    for label, weight in weights.items():
        if not 0 < weight < float("inf"):
            raise DataError(f"{path}: weight {weight} of {label!r}; expected a number above 0")
    return [weights[label] for label in labels]


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    for line in text.splitlines():
        if line.strip():
            label, _, weight = line.rpartition("\t")
            yield label, weight

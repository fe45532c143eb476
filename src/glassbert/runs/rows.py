"""The rows of a fine-tuning run: read, and some of them held out."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassbert.data.examples import Example, Kind, Table
from glassbert.data.random import Draw, permutation
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError
from glassbert.messages import Log
from glassbert.runs.describe import log_table
from glassbert.runs.finetune_tables import ExampleFiles
from glassbert.tasks.registry import schema_of

_SPLIT_SEED = 20_180_404
"""Every run holds out the same rows: otherwise two runs could not be compared."""


@dataclass(frozen=True)
class Rows:
    """The examples of a run."""

    train: Sequence[Example]
    dev: Sequence[Example]
    about: dict[str, Any]
    """Fingerprints of the files, for run.json."""
    kind: Kind | None = None
    """What the texts of classify and pair are labelled with."""
    unlabelled: Sequence[Example] = ()
    """More examples to learn from a teacher."""


def read_rows(name: str, files: ExampleFiles, log: Log, unlabelled: Path | None = None) -> Rows:
    """Read the rows to learn from and those to measure on; without a file of the latter, hold some out.

    Args:
        unlabelled: A file of more rows, whose labels are not read, if it has any.
    """
    rows = _read_labelled(name, files, log)
    if unlabelled is None:
        return rows
    table = read_examples(
        schema_of(name), unlabelled, replace(files, format=None, columns={}, kind=rows.kind)
    )
    log_table("unlabelled", table, log)
    _warn_of_shared(table.examples, rows.dev, log)
    about = {**rows.about, "unlabelled": _about(table)}
    return replace(rows, about=about, unlabelled=table.examples)


def _read_labelled(name: str, files: ExampleFiles, log: Log) -> Rows:
    schema = schema_of(name)
    table = read_examples(schema, files.train, files)
    log_table("train", table, log)
    if not table.examples:
        raise DataError(f"{files.train} holds no rows to learn from")
    _warn_of_contradictions(table.examples, log)
    about = {"train": _about(table)}
    if files.dev is None:
        train, dev, num_alone = held_out(table.examples, files.dev_share)
        log(
            f"no --dev file: {len(dev):,} of {len(table.examples):,} training rows are held out to measure on"
            if dev
            else "no --dev file and data.dev_share=0: the model's quality will not be measured"
        )
        if num_alone:
            log(f"{num_alone:,} rows were drawn but not held out: no other training row has their label")
        _warn_of_shared(train, dev, log)
        return Rows(train, dev, about | {"dev": {"held_out_of_train": len(dev)}}, table.kind)
    other = read_examples(schema, files.dev, replace(files, kind=files.kind or table.kind))
    log_table("dev", other, log)
    if not other.examples:
        raise DataError(f"{files.dev} holds no rows; leave --dev out to hold some of the training rows out")
    if table.kind is not None and other.kind is None:
        raise DataError(f"{files.dev}: no row has a label, but rows of {files.train} do")
    _warn_of_shared(table.examples, other.examples, log)
    return Rows(table.examples, other.examples, about | {"dev": _about(other)}, table.kind)


def held_out(rows: Sequence[Example], share: float) -> tuple[list[Example], list[Example], int]:
    """Split rows at random, the same way every time: rows to learn from, rows to measure on, both in order.

    The last row with a label is never held out; third, return how many rows were skipped for that reason.
    """
    num_dev = round(share * len(rows))
    if share and not 0 < num_dev < len(rows):
        raise DataError(f"{len(rows)} rows are too few to hold {share:.0%} of them out; give a --dev file")
    num_left = Counter(label for row in rows for label in set(row.labels))
    chosen, num_alone = set[int](), 0
    for index in permutation(len(rows), _SPLIT_SEED, Draw.ORDER, len(rows)).tolist():
        if len(chosen) == num_dev:
            break
        labels = set(rows[index].labels)
        if any(num_left[label] == 1 for label in labels):
            num_alone += 1
        else:
            num_left.subtract(labels)
            chosen.add(index)
    if num_dev and not chosen:
        raise DataError(
            f"each of the {len(rows)} rows has a label that no other has: none can be held out; is the label "
            "in another column? for numbers, set data.kind=regression; else give a --dev file"
        )
    return (
        [row for index, row in enumerate(rows) if index not in chosen],
        [row for index, row in enumerate(rows) if index in chosen],
        num_alone,
    )


def _about(table: Table[Any]) -> dict[str, Any]:
    return {
        "sha256": table.sha256,
        "examples": len(table.examples),
        "format": table.format,
        "left_out": len(table.bad),
    }


def _warn_of_shared(train: Sequence[Example], dev: Sequence[Example], log: Log) -> None:
    """Warn about dev rows that are training rows too."""
    seen = {row.texts for row in train}
    num_shared = sum(row.texts in seen for row in dev)
    if num_shared:
        log(f"{num_shared:,} of {len(dev):,} dev rows are training rows too: the metrics flatter the model")


def _warn_of_contradictions(rows: Sequence[Example], log: Log) -> None:
    """Warn about rows that label the same text differently: at most one of them can be learned."""
    by_content: dict[tuple[str, ...], list[Example]] = {}
    for row in rows:
        by_content.setdefault(row.texts, []).append(row)
    noisy = [same for same in by_content.values() if len({row.gold for row in same}) > 1]
    if noisy:
        first, *others = noisy[0]
        other = next(row for row in others if row.gold != first.gold)
        log(
            f"train: {sum(map(len, noisy)):,} rows have a text that another row labels differently, such as "
            f"{first.where} and {other.where}"
        )

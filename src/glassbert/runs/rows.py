"""The rows of a fine-tuning run: read, held out, and described before the first step."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from glassbert.data.examples import Example, Kind, Table
from glassbert.data.random import Draw, permutation
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError
from glassbert.runs.finetune_recipe import ExampleFiles
from glassbert.tasks.registry import schema_of
from glassbert.tasks.task import Input
from glassbert.text.wordpiece.tokenizer import Tokenizer

_SPLIT_SEED = 20_180_404
"""Rows are held out alike in every run, or two runs could not be compared."""


@dataclass(frozen=True)
class Rows:
    """The examples of a run."""

    train: Sequence[Example]
    dev: Sequence[Example]
    about: dict[str, Any]
    """Where they came from, for run.json."""
    kind: Kind | None = None
    """What texts are labelled with, for classify and pair."""


def read_rows(name: str, files: ExampleFiles, log: Callable[[str], None]) -> Rows:
    """Read the rows to learn from and those to measure on; without a file of these, hold some out."""
    schema = schema_of(name)
    table = read_examples(schema, files.train, files)
    _tell_table("train", table, log)
    if not table.examples:
        raise DataError(f"{files.train} holds no rows; nothing can be learnt")
    _tell_contradictions(table.examples, log)
    about = {"train": _about(table)}
    if files.dev is None:
        train, dev, num_alone = held_out(table.examples, files.dev_share)
        told = (
            f"no --dev file: {len(dev):,} of {len(table.examples):,} training rows are held out to measure on"
        )
        log(
            told
            if dev
            else "no --dev file and data.dev_share=0: nothing will be known of the model's quality"
        )
        if num_alone:
            log(f"{num_alone:,} rows were drawn but not held out: no other training row has their label")
        _tell_shared(train, dev, log)
        return Rows(train, dev, about | {"dev": {"held_out_of_train": len(dev)}}, table.kind)
    other = read_examples(schema, files.dev, replace(files, kind=files.kind or table.kind))
    _tell_table("dev", other, log)
    if not other.examples:
        raise DataError(f"{files.dev} holds no rows; leave --dev out to hold some of the training rows out")
    if table.kind is not None and other.kind is None:
        raise DataError(f"{files.dev}: no row has a label, though those of {files.train} do")
    _tell_shared(table.examples, other.examples, log)
    return Rows(table.examples, other.examples, about | {"dev": _about(other)}, table.kind)


def held_out(rows: Sequence[Example], share: float) -> tuple[list[Example], list[Example], int]:
    """Divide rows at random, yet alike every time: those to learn from and those to measure on, in order.

    The last row with a label is learnt from; the number of rows that were passed over for it comes third.
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


def describe(
    what: str, tokenizer: Tokenizer, inputs: Sequence[Sequence[Input]], max_length: int
) -> list[str]:
    """Say how long the texts are, how many are too long, and what the vocabulary does not know."""
    if not inputs:
        return []
    vocabulary = tokenizer.vocabulary
    ids = [np.concatenate([one.ids for one in windows]) for windows in inputs]
    lengths = np.array([len(of_row) for of_row in ids])
    num_pieces = np.array(
        [len(row) - np.isin(row, (vocabulary.cls_id, vocabulary.sep_id)).sum() for row in ids]
    )
    num_unknown = np.array([np.count_nonzero(row == vocabulary.unk_id) for row in ids])
    num_cut = sum(windows[0].num_cut > 0 for windows in inputs)
    num_windowed = sum(len(windows) > 1 for windows in inputs)
    lines = [
        f"{what}: {len(inputs):,} rows, {lengths.mean():.0f} tokens on average, {lengths.max():,} at most; "
        f"{num_cut:,} ({num_cut / len(inputs):.1%}) are cut at {max_length} tokens"
        + (f", {num_windowed:,} are read in windows" if num_windowed else "")
        + f"; {num_unknown.sum() / max(1, num_pieces.sum()):.2%} of the pieces are unknown"
    ]
    num_blank = np.count_nonzero(num_pieces == 0)
    num_unreadable = np.count_nonzero((num_unknown == num_pieces) & (num_pieces > 0))
    if num_unreadable:
        lines.append(
            f"{what}: {num_unreadable:,} rows consist of unknown characters alone; extend the vocabulary"
        )
    if num_blank:
        lines.append(f"{what}: {num_blank:,} rows have no text")
    return lines


def _about(table: Table[Any]) -> dict[str, Any]:
    return {
        "sha256": table.sha256,
        "examples": len(table.examples),
        "format": table.format,
        "left_out": len(table.bad),
    }


def _tell_table(what: str, table: Table[Any], log: Callable[[str], None]) -> None:
    for note in table.notes:
        log(f"{what}: {note}")
    for bad in table.bad[:3]:
        log(f"{what}: left out {bad.where}: {bad.reason}")
    if len(table.bad) > 3:
        log(f"{what}: {len(table.bad) - 3:,} more rows are left out")


def _tell_shared(train: Sequence[Example], dev: Sequence[Example], log: Callable[[str], None]) -> None:
    """Warn of rows to be measured on that are learnt from as well."""
    seen = {row.texts for row in train}
    num_shared = sum(row.texts in seen for row in dev)
    if num_shared:
        log(f"{num_shared:,} of {len(dev):,} dev rows are training rows too: the metrics flatter the model")


def _tell_contradictions(rows: Sequence[Example], log: Callable[[str], None]) -> None:
    """Warn of rows that say different things of the same text: at most one of them can be learnt."""
    by_content: dict[tuple[str, ...], list[Example]] = {}
    for row in rows:
        by_content.setdefault(row.texts, []).append(row)
    noisy = [same for same in by_content.values() if len({row.gold for row in same}) > 1]
    if noisy:
        first, *others = noisy[0]
        other = next(row for row in others if row.gold != first.gold)
        log(
            f"train: {sum(map(len, noisy)):,} rows have a text that another row labels otherwise, such as "
            f"{first.where} and {other.where}"
        )

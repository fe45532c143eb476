"""Lines on the data of a run, logged before its first step."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from glassbert.data.examples import BadRow, Table
from glassbert.data.pair_batches import EncodedPairs
from glassbert.messages import Log
from glassbert.tasks.task import Input
from glassbert.text.wordpiece.tokenizer import Tokenizer

_NUM_SHOWN = 3


def log_table(what: str, table: Table[Any], log: Log) -> None:
    """Log what the reader noted about a file of examples."""
    for line in (*(f"{what}: {note}" for note in table.notes), *left_out_lines(what, table.bad)):
        log(line)


def left_out_lines(what: str, bad: Sequence[BadRow]) -> Iterable[str]:
    """Yield the first of the rows that are left out, and the number of the others."""
    for row in bad[:_NUM_SHOWN]:
        yield f"{what}: left out {row.where}: {row.reason}"
    if len(bad) > _NUM_SHOWN:
        yield f"{what}: {len(bad) - _NUM_SHOWN:,} more rows are left out"


def describe_rows(
    what: str, tokenizer: Tokenizer, inputs: Sequence[Sequence[Input]], max_length: int
) -> list[str]:
    """Return lines on how long the rows are, how many are cut, and what the vocabulary does not know."""
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
            f"{what}: {num_unreadable:,} rows consist of unknown characters only; extend the vocabulary"
        )
    if num_blank:
        lines.append(f"{what}: {num_blank:,} rows have no text")
    return lines


def describe_pairs(what: str, pairs: EncodedPairs, limit: int, fate: str) -> list[str]:
    """Return lines on how many pairs there are, how long they are, and how many are too long.

    Args:
        fate: What happens to pairs with a side of more than ``limit`` tokens.
    """
    sources, targets = pairs.source_lengths, pairs.target_lengths
    lines = [
        f"{what}: {len(pairs):,} pairs, {sources.mean():.1f} and {targets.mean():.1f} tokens on average, "
        f"{max(sources.max(), targets.max())} at most"
    ]
    if pairs.num_too_long:
        lines.append(
            f"{what}: {pairs.num_too_long:,} pairs with a side of more than {limit} tokens are {fate}"
        )
    return lines

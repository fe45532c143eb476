from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from glassbert.data.examples import Span, TagExample, TextExample
from glassbert.errors import DataError
from glassbert.runs.finetune_tables import ExampleFiles
from glassbert.runs.rows import held_out, read_rows
from glassbert.tasks.classify import labels
from glassbert.tasks.tag import labels as tag_labels

NUM_ROWS, SHARE = 20, 0.2
DRAWN = [1, 4, 10, 17]
"""The rows that chance holds out of these; another split would spoil runs that were begun before."""


def single(number: int, label: str) -> TextExample:
    return TextExample(f"t{number}", None, (label,), None, f"train.tsv:{number}")


def several(number: int, label: str) -> TextExample:
    return TextExample(f"t{number}", None, (label, "text"), None, f"train.tsv:{number}")


def spanned(number: int, label: str) -> TagExample:
    return TagExample(f"t{number}", (Span(0, 1, label), Span(1, 2, "a")), f"train.tsv:{number}")


def check(train: Sequence[Any], dev: Sequence[Any]) -> None:
    """Refuse what training would refuse."""
    if isinstance(train[0], TagExample):
        tag_labels.check_labels(train, dev)
    else:
        kind = labels.kind_of(train)
        labels.check_labels(kind, labels.label_set(train), train, dev)


def rows_with(make: Callable[[int, str], Any], rare: Sequence[int]) -> list[Any]:
    """Return rows of two common labels; those at ``rare`` have another one."""
    return [make(number, "rare" if number in rare else "ab"[number % 2]) for number in range(NUM_ROWS)]


def test_the_split_is_the_same_for_ever_where_no_label_is_lost() -> None:
    for make in (single, several, spanned):
        rows = rows_with(make, [])
        train, dev, num_alone = held_out(rows, SHARE)
        assert dev == [rows[index] for index in DRAWN]
        assert train == [row for row in rows if row not in dev]
        assert num_alone == 0


@pytest.mark.parametrize("make", [single, several, spanned])
@pytest.mark.parametrize("num_rare", [1, 2, 3])
def test_a_rare_label_is_learned_whichever_rows_have_it(
    make: Callable[[int, str], Any], num_rare: int
) -> None:
    for rare in combinations(range(NUM_ROWS), num_rare):
        rows = rows_with(make, rare)
        train, dev, num_alone = held_out(rows, SHARE)
        check(train, dev)
        assert len(dev) == len(DRAWN), "another row takes the place of one that stays"
        assert sorted([*train, *dev], key=lambda row: int(row.text[1:])) == rows
        assert num_alone == (set(rare) <= set(DRAWN))


def test_rows_that_stay_and_rows_on_both_sides_are_reported(tmp_path: Path) -> None:
    rows = [f"t\t{'rare' if number == DRAWN[0] else 'ab'[number % 2]}" for number in range(20)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    reported: list[str] = []
    read = read_rows("classify", ExampleFiles(train=tmp_path / "train.tsv", dev_share=SHARE), reported.append)
    check(read.train, read.dev)
    assert reported[-3:] == [
        "no --dev file: 4 of 20 training rows are held out to measure on",
        "1 rows were drawn but not held out: no other training row has their label",
        "4 of 4 dev rows are training rows too: the metrics flatter the model",
    ]


def test_rows_of_which_each_has_its_own_label_cannot_be_held_out() -> None:
    rows = [single(number, str(number)) for number in range(NUM_ROWS)]
    with pytest.raises(DataError, match="^each of the 20 rows has a label that no other has: none can be"):
        held_out(rows, SHARE)
    assert held_out(rows, 0.0) == (rows, [], 0)


def test_dev_rows_without_labels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "a", "labels": ["x"]}\n{"text": "b", "labels": []}\n')
    (tmp_path / "dev.jsonl").write_text('{"text": "a", "genres": ["x"]}\n')
    files = ExampleFiles(train=tmp_path / "train.jsonl", dev=tmp_path / "dev.jsonl")
    with pytest.raises(DataError, match=r"dev\.jsonl: no row has a label, but rows of .*train\.jsonl do"):
        read_rows("classify", files, lambda line: None)

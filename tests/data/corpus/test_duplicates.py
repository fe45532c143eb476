from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from glassbert.data.corpus.duplicates import (
    DuplicateFilter,
    Repetition,
    RepetitionCounter,
    SeenHashes,
    text_hash,
)
from glassbert.text.documents import Part

LONG = "a line that is long enough"


def part(*lines: str) -> Part:
    return Part(0, Path("a"), 0, 1, lines, "sentences", True, sum(map(len, lines)))


def hashes(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=12))
def test_a_hash_is_new_once(batches: list[list[int]]) -> None:
    seen, before = SeenHashes(), set()
    for batch in batches:
        expected = []
        for value in batch:
            expected.append(value not in before)
            before.add(value)
        assert seen.add(hashes(batch)).tolist() == expected


def test_repeated_lines_become_blank_and_short_ones_stay() -> None:
    drop = DuplicateFilter()
    first = drop([part(LONG, "short", f"  {LONG} ", "short"), part(f"{LONG} too")])
    assert [one.lines for one in first] == [(LONG, "short", "", "short"), (f"{LONG} too",)]
    assert [one.lines for one in drop([part("new and long enough", LONG)])] == [("new and long enough", "")]
    assert drop.num_dropped == 2


def test_hashes_distinguish_texts_and_take_any_text() -> None:
    assert len({text_hash(text) for text in ("", "a", "b", "中", "\ud800", "a" * 10**6)}) == 6
    assert text_hash("a") == text_hash("a") < 1 << 64


@given(st.lists(st.integers(0, 200), max_size=60))
def test_repetitions_are_counted_exactly(values: list[int]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        counter = RepetitionCounter(Path(folder))
        for start in range(0, len(values), 7):
            batch = values[start : start + 7]
            places = np.arange(start, start + len(batch), dtype=np.uint64)
            counter.add(hashes(batch), places)
        found = counter.finish(2)
        assert not list(Path(folder).iterdir())
    assert (found.num_total, found.num_repeated) == (len(values), len(values) - len(set(values)))
    places_of = {value: [place for place, other in enumerate(values) if other == value] for value in values}
    repeated = [Repetition(len(at), at[0], at[1]) for at in places_of.values() if len(at) > 1]
    repeated.sort(key=lambda repetition: (-repetition.count, repetition.first_place))
    assert list(found.most_frequent) == repeated[:2]

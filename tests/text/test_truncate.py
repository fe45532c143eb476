from itertools import product

import pytest

from glassbert.text.truncate import cut_spans, kept_spans, share_room


def shares_by_taking_one_by_one(num_a: int, num_b: int, room: int) -> tuple[int, int]:
    """Return what `share_room` should, by its rule, one piece at a time."""
    was_a_longer = num_a > num_b
    while num_a + num_b > room:
        if num_a > num_b or (num_a == num_b and not was_a_longer):
            num_a -= 1
        else:
            num_b -= 1
    return num_a, num_b


def test_sharing_is_the_same_as_taking_pieces_one_by_one_from_the_longer_text() -> None:
    for lengths in product(range(12), range(12), range(20)):
        assert share_room(*lengths) == shares_by_taking_one_by_one(*lengths), lengths


@pytest.mark.parametrize(
    ("num_a", "num_b", "room", "shares"),
    [
        (3, 4, 7, (3, 4)),  # fits
        (100, 3, 10, (7, 3)),  # only the longer is cut
        (3, 100, 10, (3, 7)),
        (100, 90, 11, (6, 5)),  # the odd piece goes to the longer
        (90, 100, 11, (5, 6)),
        (100, 100, 11, (5, 6)),  # and to the second when none is longer
        (5, 5, 0, (0, 0)),
    ],
)
def test_each_case_of_sharing(num_a: int, num_b: int, room: int, shares: tuple[int, int]) -> None:
    assert share_room(num_a, num_b, room) == shares


@pytest.mark.parametrize(
    ("num_pieces", "room", "keep", "spans"),
    [
        (600, 510, "head", [(0, 510)]),
        (600, 510, "tail", [(90, 600)]),
        (511, 510, "head+tail", [(0, 128), (129, 511)]),
        (800, 510, "head+tail", [(0, 128), (418, 800)]),
        (801, 510, "head+tail", [(0, 256), (547, 801)]),
        (510, 510, "head+tail", [(0, 510)]),
        (197, 126, "head+tail", [(0, 31), (102, 197)]),  # 126/510 of 128 and of 800
        (198, 126, "head+tail", [(0, 63), (135, 198)]),
        (150, 51, "head+tail", [(0, 25), (124, 150)]),
        (5, 0, "head+tail", []),
    ],
)
def test_what_is_kept(num_pieces: int, room: int, keep: str, spans: list[tuple[int, int]]) -> None:
    assert [span for span in kept_spans(num_pieces, room, keep) if span[0] < span[1]] == spans


def test_kept_and_cut_pieces_together_are_all_pieces() -> None:
    for num_pieces, room, keep in product(range(30), range(30), ("head", "tail", "head+tail")):
        kept = kept_spans(num_pieces, room, keep)
        cut = cut_spans(num_pieces, kept)
        numbers = [number for span in kept + cut for number in range(*span)]
        assert sorted(numbers) == list(range(num_pieces))
        assert sum(stop - start for start, stop in kept) == min(room, num_pieces)
        assert all(start < stop for start, stop in cut)

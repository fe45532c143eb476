from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.errors import UserError
from glassbert.text.windows import Window, max_context, windows


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int, int]:
    """Return a number of pieces, a room and a stride."""
    room = draw(st.integers(1, 40))
    return draw(st.integers(0, 300)), room, draw(st.integers(1, room))


@pytest.mark.parametrize(
    ("num_pieces", "room", "stride", "expected"),
    [
        (0, 5, 2, [(0, 0)]),
        (5, 5, 2, [(0, 5)]),
        (6, 5, 2, [(0, 5), (1, 6)]),  # two that share three pieces need all of their room
        (7, 5, 2, [(0, 5), (2, 7)]),
        (6, 5, 4, [(0, 4), (2, 6)]),  # two that share one piece do not
        (10, 5, 5, [(0, 5), (5, 10)]),
        (11, 5, 5, [(0, 4), (3, 7), (7, 11)]),
        (0, 0, 1, [(0, 0)]),
    ],
)
def test_each_case(num_pieces: int, room: int, stride: int, expected: list[tuple[int, int]]) -> None:
    assert windows(num_pieces, room, stride) == expected


@given(shapes())
def test_windows_hold_every_piece_and_share_what_the_stride_asks_for(shape: tuple[int, int, int]) -> None:
    num_pieces, room, stride = shape
    found = windows(*shape)
    assert {piece for window in found for piece in range(*window)} == set(range(num_pieces))
    assert all(earlier.start < later.start for earlier, later in pairwise(found))
    assert all(earlier.stop - later.start >= room - stride for earlier, later in pairwise(found))


@given(shapes())
def test_windows_have_one_length_and_could_not_be_shorter(shape: tuple[int, int, int]) -> None:
    num_pieces, room, stride = shape
    found = windows(*shape)
    (length,) = {window.num_pieces for window in found}
    assert length <= room
    if len(found) > 1:
        reached = length - 1 + (len(found) - 1) * (length - 1 - (room - stride))
        assert reached < num_pieces


@given(shapes())
def test_no_window_could_be_left_out(shape: tuple[int, int, int]) -> None:
    num_pieces, room, stride = shape
    expected = 1 if num_pieces <= room else 1 - (room - num_pieces) // stride
    assert len(windows(*shape)) == expected


@given(shapes())
def test_each_piece_goes_to_the_window_that_shows_most_text_on_both_sides(
    shape: tuple[int, int, int],
) -> None:
    found = windows(*shape)
    best = max_context(found)
    assert [piece for window in best for piece in range(*window)] == list(range(shape[0]))
    for index, window in enumerate(best):
        for piece in range(*window):
            contexts = [
                min(piece - other.start, other.stop - 1 - piece) if piece in range(*other) else -1
                for other in found
            ]
            assert contexts.index(max(contexts)) == index


def test_an_empty_text_has_one_empty_best_window() -> None:
    assert max_context([Window(0, 0)]) == [Window(0, 0)]


@pytest.mark.parametrize("stride", [0, -1, 6])
def test_a_stride_that_leaves_pieces_out_is_refused(stride: int) -> None:
    with pytest.raises(UserError, match=rf"stride={stride} with room for 5 pieces; expected 1 to 5"):
        windows(9, 5, stride)


def test_no_room_is_refused() -> None:
    with pytest.raises(UserError, match="no room for 9 pieces"):
        windows(9, 0, 1)

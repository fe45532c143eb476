import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.errors import UserError
from glassbert.tasks.long_text import Excerpt, excerpts
from glassbert.tasks.settings import LongText

TEXT = list(range(100, 120))


def cut(
    long_text: LongText, first: list[int] = TEXT, second: list[int] | None = None, max_length: int = 12
) -> list[Excerpt]:
    return excerpts(first, second, max_length=max_length, long_text=long_text, stride=None)


def test_a_text_that_fits_is_left_alone() -> None:
    for long_text in ("head", "tail", "head+tail", "window"):
        (only,) = cut(long_text, max_length=22)
        assert (only.first, only.num_cut) == (TEXT, 0)


def test_head_and_tail_keep_their_ends_and_count_what_is_cut() -> None:
    (head,), (tail,) = cut("head"), cut("tail")
    assert (head.first, head.num_cut) == (TEXT[:10], 10)
    assert (tail.first, tail.num_cut) == (TEXT[10:], 10)
    (both,) = cut("head+tail")
    assert (both.first, both.num_cut) == (TEXT[:5] + TEXT[15:], 10)


def test_windows_hold_every_piece_and_cut_nothing() -> None:
    found = cut("window")
    assert [one.window for one in found] == [(0, 10), (5, 15), (10, 20)]
    assert [one.first for one in found] == [TEXT[0:10], TEXT[5:15], TEXT[10:20]]
    assert all(one.num_cut == 0 for one in found)


def test_of_a_pair_the_longer_text_is_cut() -> None:
    (only,) = cut("head", TEXT, [1, 2, 3])
    assert (only.first, only.second, only.num_cut) == (TEXT[:6], [1, 2, 3], 14)


@pytest.mark.parametrize("is_first_longer", [True, False])
def test_of_a_pair_the_longer_text_is_read_in_windows_beside_the_whole_shorter(is_first_longer: bool) -> None:
    pair = (TEXT, [1, 2, 3]) if is_first_longer else ([1, 2, 3], TEXT)
    found = cut("window", *pair)
    long_parts = [one.first if is_first_longer else one.second for one in found]
    short_parts = [one.second if is_first_longer else one.first for one in found]
    assert short_parts == [[1, 2, 3]] * len(found)
    assert {piece for part in long_parts for piece in part or ()} == set(TEXT)
    assert all(len(one.first) + len(one.second or ()) <= 9 and one.num_cut == 0 for one in found)


def test_windows_of_two_long_texts_count_what_is_cut_of_the_shorter() -> None:
    found = cut("window", TEXT, list(range(15)))
    assert {one.num_cut for one in found} == {15 - 4}
    assert all(one.second == [0, 1, 2, 3] for one in found)


def test_a_limit_without_room_for_text_is_refused() -> None:
    with pytest.raises(UserError, match="max_length=4 leaves no room"):
        cut("head", second=[1], max_length=4)


@given(
    num_first=st.integers(0, 40),
    num_second=st.none() | st.integers(0, 40),
    max_length=st.integers(5, 40),
    long_text=st.sampled_from(("head", "tail", "head+tail", "window")),
    stride=st.none() | st.integers(1, 4),
)
def test_what_is_counted_as_cut_is_exactly_what_no_input_shows(
    num_first: int, num_second: int | None, max_length: int, long_text: LongText, stride: int | None
) -> None:
    first = list(range(num_first))
    second = None if num_second is None else list(range(100, 100 + num_second))
    if stride is not None and stride > max_length - 2:
        stride = None
    found = excerpts(first, second, max_length=max_length, long_text=long_text, stride=stride)
    shown = {piece for one in found for piece in (*one.first, *(one.second or ()))}
    num_missing = len({*first, *(second or ())} - shown)
    assert {one.num_cut for one in found} == {num_missing}
    num_specials = 2 if second is None else 3
    is_too_long = len(first) + len(second or ()) + num_specials > max_length
    assert is_too_long or not num_missing
    if long_text != "window":
        assert is_too_long == (num_missing > 0)

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from glassbert.inference.threads import map_batches


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def who_works(_: int) -> tuple[int, int]:
    return threading.get_ident(), torch.get_num_threads()


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("number", [0, 1, 2, 3, 4, 7, 50])
def test_results_come_in_order_whatever_their_number(number: int) -> None:
    assert list(map_batches(lambda x: x * x, list(range(number)))) == [x * x for x in range(number)]


@pytest.mark.usefixtures("three_threads")
def test_full_rounds_have_a_thread_a_batch_and_what_is_left_has_all_threads() -> None:
    found = list(map_batches(who_works, range(8)))
    me = threading.get_ident()
    assert all(thread != me and count == 1 for thread, count in found[:6])
    assert found[6:] == [(me, 3), (me, 3)]


@pytest.mark.usefixtures("three_threads")
def test_other_threads_keep_their_setting() -> None:
    list(map_batches(who_works, range(3)))
    assert torch.get_num_threads() == 3
    with ThreadPoolExecutor(1) as later:
        assert later.submit(torch.get_num_threads).result() == 3


def test_one_thread_works_alone() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert {thread for thread, _ in map_batches(who_works, range(4))} == {threading.get_ident()}
    finally:
        torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
def test_a_failure_reaches_the_caller_and_the_threads_serve_the_next_call() -> None:
    def fail_at_two(x: int) -> int:
        if x == 2:
            raise ValueError("two")
        return x

    with pytest.raises(ValueError, match="two"):
        list(map_batches(fail_at_two, range(6)))
    assert list(map_batches(fail_at_two, [3, 4, 5])) == [3, 4, 5]


@pytest.mark.usefixtures("three_threads")
def test_several_callers_share_the_threads() -> None:
    with ThreadPoolExecutor(4) as callers:
        found = callers.map(lambda n: list(map_batches(lambda x: x + n, range(9))), range(4))
        assert list(found) == [[x + n for x in range(9)] for n in range(4)]

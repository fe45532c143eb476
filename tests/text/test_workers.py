import subprocess
import sys
from collections.abc import Iterator

import pytest

from glassbert.text.workers import map_in_order
from helpers.worker_functions import late_when_even, refuse_three


@pytest.mark.parametrize("processes", [1, 2])
def test_results_are_in_the_order_of_the_items(processes: int) -> None:
    assert list(map_in_order(late_when_even, iter(range(6)), processes)) == [0, 1, 4, 9, 16, 25]


def test_items_are_taken_no_faster_than_they_are_worked_on() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(20):
            taken.append(number)
            yield number

    results = map_in_order(late_when_even, items(), 2, max_under_way=4)
    assert next(results) == 0
    assert len(taken) == 5
    results.close()


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_worker_is_raised(processes: int) -> None:
    with pytest.raises(ValueError, match="three"):
        list(map_in_order(refuse_three, iter(range(6)), processes))


def test_workers_end_when_the_parent_is_killed() -> None:
    code = (
        "import time; from glassbert.text.workers import map_in_order\n"
        "for _ in map_in_order(time.sleep, iter([0, 0, 600]), 2, max_under_way=2): print('ready', flush=True)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"ready\n"
    parent.kill()
    # The workers hold the pipe too: it ends when they have.
    parent.communicate(timeout=60)

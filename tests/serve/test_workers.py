"""Compute threads: answers reach their tickets, a bad text fails alone, a dead thread is replaced."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from glassbert.serve.queue import Queue
from glassbert.serve.tickets import Ticket, Unanswerable, Unavailable
from glassbert.serve.workers import Hooks, Workers
from helpers.fake_work import Clock, Deadly, Echo, Held, Picky, rows, ticket

Start = Callable[..., Workers]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start compute threads over a new queue; they end with the test."""
    started: list[Workers] = []

    def start_workers(number: int = 1, hooks: Hooks | None = None, clock: Clock | None = None) -> Workers:
        workers = Workers(Queue(num_workers=number), number, hooks, **({"clock": clock} if clock else {}))
        started.append(workers)
        workers.start()
        return workers

    yield start_workers
    for workers in started:
        workers.stop(0.5)


def done(workers: Workers, *tickets: Ticket) -> None:
    """Submit tickets and wait until all have ended."""
    for one in tickets:
        one.ended = threading.Event()
        one.notify = lambda index, ended=one.ended: ended.set() if index is None else None
        workers.queue.submit(one)
    for one in tickets:
        assert one.ended.wait(60)


def test_every_text_gets_its_row_and_windows_are_put_together(start: Start) -> None:
    one = ticket(Echo(), "a", ("b", "c"), "d")
    done(start(), one)
    assert rows(one) == ["<a>", "<b><c>", "<d>"]
    assert one.error is None


def test_a_text_on_which_the_model_fails_does_not_harm_its_neighbours(start: Start) -> None:
    group, failures = Picky(), []
    good, bad, mixed = ticket(group, "a", "b"), ticket(group, "bad"), ticket(group, "c", stops_at_error=False)
    mixed_bad = ticket(group, "d", "bad", "e", stops_at_error=False)
    done(start(hooks=Hooks(on_failure=failures.append)), good, bad, mixed, mixed_bad)
    assert rows(good) == ["<a>", "<b>"]
    assert rows(mixed) == ["<c>"]
    assert isinstance(bad.error, Unanswerable)
    assert rows(mixed_bad) == ["<d>", None, "<e>"]
    assert [part.error is not None for part in mixed_bad.parts] == [False, True, False]
    assert len(failures) == 2


def test_a_row_that_cannot_be_made_fails_its_text_alone(start: Start) -> None:
    one = ticket(Echo(), "a", "b", stops_at_error=False)
    one.parts[0].finish = lambda outputs: 1 / 0
    done(start(), one)
    assert isinstance(one.parts[0].error, ZeroDivisionError)
    assert one.parts[1].row == "<b>"


def test_a_thread_that_dies_is_replaced_and_its_batch_is_told(start: Start) -> None:
    deaths: list[BaseException] = []
    restarts: list[bool] = []
    workers = start(hooks=Hooks(on_death=deaths.append, on_restart=lambda: restarts.append(True)))
    victim, next_one = ticket(Deadly(), "x"), ticket(Echo(), "y")
    done(workers, victim)
    done(workers, next_one)
    assert isinstance(victim.error, Unavailable)
    assert rows(next_one) == ["<y>"]
    assert len(restarts) == 1
    assert workers.problem() is None
    assert isinstance(deaths[0], SystemExit)


def test_threads_that_die_again_and_again_are_given_up(start: Start) -> None:
    workers = start()
    for _ in range(3):
        done(workers, ticket(Deadly(), "x"))
    ends_at = time.monotonic() + 60
    while not workers.have_given_up() and time.monotonic() < ends_at:
        time.sleep(0.005)
    assert workers.have_given_up()
    assert "died 3 times" in (workers.problem() or "")


def test_a_batch_that_hangs_is_noticed_while_the_other_thread_works(start: Start) -> None:
    clock, held = Clock(), Held()
    workers = start(2)
    stuck = ticket(held, "stuck")
    workers.queue.submit(stuck)
    assert held.has_started.wait(60)
    assert workers.problem() is None
    workers.clock = lambda: stuck.taken_at + 61
    assert "running for more than 60 s" in (workers.problem() or "")
    assert not workers.have_given_up()
    workers.clock = lambda: stuck.taken_at + 181
    assert workers.have_given_up()
    other = ticket(Echo(), "x")
    done(workers, other)
    assert rows(other) == ["<x>"]
    held.may_end.set()
    assert clock() == 100.0


def test_a_lone_batch_uses_all_cores_if_it_is_long_and_others_one(start: Start) -> None:
    used: list[int] = []
    workers = start(2, Hooks(use_cores=used.append))
    workers.queue.set_model("m", tokens_per_s=1000, budget=512)
    done(workers, ticket(Echo(), "x", tokens=90))
    assert used == []
    workers.queue.set_model("m", tokens_per_s=1000, budget=512)
    done(workers, ticket(Echo(), "x", tokens=110))
    assert used == [2, 1]


def test_what_is_cancelled_while_it_runs_is_dropped(start: Start) -> None:
    held = Held()
    workers = start()
    one = ticket(held, "x")
    workers.queue.submit(one)
    assert held.has_started.wait(60)
    workers.queue.cancel(one)
    held.may_end.set()
    other = ticket(Echo(), "y")
    done(workers, other)
    assert rows(one) == [None]
    assert rows(other) == ["<y>"]

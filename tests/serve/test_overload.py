"""More requests than the server can answer, on simulated time: what it accepts it answers, and soon."""

from functools import cache

import pytest

from helpers.simulated_server import TEXTS_PER_REQUEST, Outcome, SimulatedServer, flood, saturation

SECONDS = 20.0
LEAVES_AFTER_S = 3.0
"""Clients do not say so: the server learns it when they leave."""


@pytest.fixture(scope="module")
def usual() -> float:
    """Requests per second that the server can answer."""
    return saturation(SimulatedServer(), SECONDS)


@cache
def flooded(rate: float, slowness: float = 1.0) -> SimulatedServer:
    """Return a server after some seconds of requests, ``rate`` a second."""
    server = SimulatedServer(slowness=slowness)
    flood(server, rate, SECONDS, LEAVES_AFTER_S)
    return server


def good_per_s(server: SimulatedServer) -> float:
    """Return the requests per second that were answered within a second."""
    good = [one for one in server.outcomes if one.status == "answered" and one.latency_s <= 1]
    return len(good) / SECONDS


@pytest.mark.parametrize("times", [1.5, 3, 10])
def test_under_overload_as_many_are_answered_within_a_second_as_the_server_can(
    times: float, usual: float
) -> None:
    assert good_per_s(flooded(times * usual)) >= 0.9 * usual


def test_a_machine_that_turns_three_times_slower_still_answers_in_time(usual: float) -> None:
    assert good_per_s(flooded(3 * usual, slowness=3)) >= 0.9 * usual / 3


@pytest.mark.parametrize("times", [3, 10])
def test_small_requests_that_are_accepted_are_answered_before_their_clients_leave(
    times: float, usual: float
) -> None:
    small = [one for one in flooded(times * usual).outcomes if one.num_texts == 1]
    assert {one.status for one in small} == {"answered", "refused"}


def test_little_work_is_lost_to_clients_that_have_left(usual: float) -> None:
    answered = [one for one in flooded(3 * usual).outcomes if one.status == "answered"]
    assert sum(one.num_texts for one in answered) / SECONDS >= 0.85 * usual * TEXTS_PER_REQUEST
    assert max(one.num_texts for one in answered) > 1


def test_below_saturation_nothing_is_refused(usual: float) -> None:
    assert {one.status for one in flooded(0.8 * usual).outcomes} == {"answered"}


def test_a_burst_may_wait_longer_than_what_follows_it() -> None:
    server = SimulatedServer()
    for _ in range(100):  # a second of work
        server.ask(1)
    assert {one.status for one in server.outcomes} == set()
    flood(server, 300, 5, LEAVES_AFTER_S)
    before = len(server.outcomes)
    flood(server, 300, 5, LEAVES_AFTER_S)
    small = [one for one in server.outcomes[before:] if one.status == "answered" and one.num_texts == 1]
    assert max(one.latency_s for one in small) <= 1.2


def test_once_the_load_has_gone_the_next_request_is_answered_at_once(usual: float) -> None:
    server = SimulatedServer()
    flood(server, 3 * usual, 5, LEAVES_AFTER_S)
    server.run(6)
    found: list[Outcome] = []
    server.ask(1, on_end=found.append)
    server.run(7)
    assert found[0].status == "answered"
    assert found[0].latency_s < 0.2

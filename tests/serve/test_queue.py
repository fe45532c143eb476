"""The queue: who comes when, who is refused, what is dropped. A fake clock, no threads."""

from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.serve.queue import Batch, Limits, Overloaded, Queue, Speed
from glassbert.serve.tickets import Abandoned, Expired, Unavailable
from helpers.fake_work import Clock, Echo, ticket

ECHO = Echo()


def make_queue(*, workers: int = 1, speed: float = 100.0, budget: int = 40, **limits: float) -> Queue:
    queue = Queue(Limits(**limits), num_workers=workers, clock=Clock())
    queue.set_model("m", tokens_per_s=speed, budget=budget)
    return queue


def payloads(batch: Batch | None) -> list[object]:
    assert batch is not None
    return [unit.payload for unit in batch.units]


def all_batches(queue: Queue, seconds_per_batch: float = 0.1) -> Iterator[list[object]]:
    """Yield what one compute thread would take, batch by batch."""
    while batch := queue.take(0):
        yield payloads(batch)
        queue.clock.now += seconds_per_batch
        queue.finish(batch)


def test_a_free_thread_takes_what_waits_and_never_waits_for_more() -> None:
    queue = make_queue()
    queue.submit(ticket(ECHO, "alone"))
    assert payloads(queue.take(0)) == ["alone"]
    assert queue.take(0) is None


def test_a_batch_is_formed_when_a_thread_is_free_and_holds_what_arrived_until_then() -> None:
    queue = make_queue()
    for name in "abc":
        queue.submit(ticket(ECHO, name))
    assert payloads(queue.take(0)) == ["a", "b", "c"]


def test_a_batch_holds_no_more_than_the_budget_but_always_something() -> None:
    queue = make_queue(budget=25)
    queue.submit(ticket(ECHO, *"abcd", tokens=10))
    queue.submit(ticket(ECHO, "huge", tokens=90))
    assert list(all_batches(queue)) == [["a", "b"], ["c", "d"], ["huge"]]


def test_a_batch_is_sorted_by_length_and_holds_one_group() -> None:
    queue, other = make_queue(budget=100), Echo()
    queue.submit(ticket(ECHO, "long", tokens=9))
    queue.submit(ticket(ECHO, "short", tokens=2, client="b"))
    queue.submit(ticket(other, "other", client="c"))
    queue.submit(ticket(ECHO, "middle", tokens=5, client="d"))
    assert list(all_batches(queue)) == [["short", "middle", "long"], ["other"]]


def test_two_clients_share_evenly_whatever_one_of_them_sends() -> None:
    queue = make_queue(budget=10, timeout_s=1e6, max_timeout_s=1e6, max_wait_s=1e6)
    for _ in range(20):
        queue.submit(ticket(ECHO, "greedy", client="greedy"))
    for _ in range(5):
        queue.submit(ticket(ECHO, "modest", client="modest"))
    taken = [name for batch in all_batches(queue) for name in batch]
    assert taken[:10].count("modest") == 5


def test_turns_are_counted_in_work_not_in_texts() -> None:
    queue = make_queue(budget=10, timeout_s=1e6, max_timeout_s=1e6, max_wait_s=1e6)
    for _ in range(8):
        queue.submit(ticket(ECHO, "long", tokens=40, client="long"))
        queue.submit(ticket(ECHO, *["short"] * 4, tokens=10, client="short"))
    taken = [name for batch in all_batches(queue) for name in batch][:20]
    assert taken.count("short") == pytest.approx(4 * taken.count("long"), abs=4)


def test_small_requests_go_first_and_large_ones_are_not_starved() -> None:
    queue = make_queue(budget=10, timeout_s=1e6, max_timeout_s=1e6, max_wait_s=1e6)
    queue.submit(ticket(ECHO, *["large"] * 10, client="bulk"))
    for _ in range(10):
        queue.submit(ticket(ECHO, "small"))
    taken = [batch[0] for batch in all_batches(queue)]
    assert taken[0] == "small"
    assert taken[:8].count("large") == 2


def test_speed_follows_recent_work_and_long_batches_count_more() -> None:
    speed = Speed(1000)
    for _ in range(100):
        speed.note(100, 0.5)  # 200 a second
    assert speed.tokens_per_s == pytest.approx(200, rel=0.01)
    speed.note(1, 0.001)
    assert speed.tokens_per_s == pytest.approx(200, rel=0.01)


def test_a_request_is_refused_when_its_wait_exceeds_its_patience_and_says_when_to_return() -> None:
    queue = make_queue(speed=100, max_wait_s=1e6)
    queue.submit(ticket(ECHO, *["x"] * 3, tokens=200))  # 6 seconds
    queue.submit(ticket(ECHO, "patient", tokens=100, patience_s=8.0))
    with pytest.raises(Overloaded) as refused:
        queue.submit(ticket(ECHO, "hasty", tokens=100, patience_s=4.0))
    assert (refused.value.wait_s, refused.value.longest_s) == pytest.approx((7.0, 3.0))
    assert refused.value.retry_after_s == 6
    assert queue.state().num_units == 4


def test_the_same_tokens_wait_longer_on_a_slow_machine() -> None:
    queue = make_queue(speed=1000)
    queue.submit(ticket(ECHO, "x", tokens=1000))
    before = queue.state().wait_s
    batch = queue.take(0)
    assert batch
    queue.clock.now += 10  # ten times slower than expected
    queue.finish(batch)
    queue.submit(ticket(ECHO, "x", tokens=100))
    assert queue.state().wait_s > before / 2


def test_a_small_request_is_refused_early_even_if_it_could_wait() -> None:
    queue = make_queue(speed=100, max_wait_s=2.0)
    queue.submit(ticket(ECHO, *["x"] * 3, tokens=100))
    with pytest.raises(Overloaded):
        queue.submit(ticket(ECHO, "y"))


def test_a_burst_after_a_pause_may_wait_however_long_the_pause_was() -> None:
    queue = make_queue(speed=100, max_wait_s=0.5)
    assert queue.take(0) is None
    queue.clock.now += 10
    queue.submit(ticket(ECHO, "x", tokens=30))
    assert payloads(queue.take(0)) == ["x"]
    queue.submit(ticket(ECHO, "y"))  # it waits 0.3 seconds


def test_a_large_request_may_wait_as_long_as_it_says_or_works() -> None:
    queue = make_queue(speed=100, max_wait_s=0.5)
    queue.submit(ticket(ECHO, *["x"] * 10, tokens=20))  # 2 seconds
    with pytest.raises(Overloaded) as refused:
        queue.submit(ticket(ECHO, *["y"] * 10, tokens=10))
    assert refused.value.longest_s == pytest.approx(1.5)
    queue.submit(ticket(ECHO, *["y"] * 10, tokens=10, patience_s=5.0))
    queue.submit(ticket(ECHO, *["z"] * 10, tokens=30))


def test_the_wait_of_large_requests_counts_the_small_ones_that_will_come_first() -> None:
    queue = make_queue(speed=100, budget=10)
    for _ in range(100):  # 10 seconds of nothing but small requests
        queue.submit(ticket(ECHO, "small"))
        list(all_batches(queue))
    queue.submit(ticket(ECHO, *["x"] * 10, tokens=1))
    with pytest.raises(Overloaded) as refused:
        queue.submit(ticket(ECHO, *["y"] * 10, tokens=1, patience_s=0.2))
    # Every fourth batch is theirs: 0.1 s of work takes four times that.
    assert refused.value.wait_s == pytest.approx(0.4)
    queue.clock.now += 100
    queue.submit(ticket(ECHO, *["y"] * 10, tokens=1, patience_s=0.2))


def test_large_requests_of_before_come_before_no_other() -> None:
    queue = make_queue(speed=100, budget=10)
    for _ in range(100):  # 10 seconds of nothing but large requests
        queue.submit(ticket(ECHO, *["x"] * 10, tokens=1))
        list(all_batches(queue))
    queue.submit(ticket(ECHO, *["x"] * 10, tokens=1))
    queue.submit(ticket(ECHO, *["y"] * 10, tokens=1, patience_s=0.3))


def test_a_new_client_is_accepted_though_another_has_filled_the_queue() -> None:
    queue = make_queue(speed=100, max_wait_s=2.0)
    queue.submit(ticket(ECHO, *["x"] * 100, tokens=9, client="bulk"))
    queue.submit(ticket(ECHO, "y", client="new"))
    assert payloads(queue.take(0)) == ["y"]


def test_the_patience_of_a_large_request_grows_with_its_work_up_to_a_limit() -> None:
    queue = make_queue(speed=100, timeout_s=10.0, max_timeout_s=60.0)
    bulk = ticket(ECHO, *["x"] * 40, tokens=100)  # 40 seconds
    queue.submit(bulk)
    assert bulk.expires_at == pytest.approx(queue.clock() + 50)
    with pytest.raises(Overloaded):
        make_queue(speed=100, max_timeout_s=60.0).submit(ticket(ECHO, *["x"] * 70, tokens=100))


def test_an_idle_server_takes_any_request_that_fits_the_longest_patience() -> None:
    queue = make_queue(speed=100)
    queue.submit(ticket(ECHO, "x", tokens=1000, patience_s=1.0))
    assert payloads(queue.take(0)) == ["x"]


def test_what_runs_counts_until_it_should_be_done() -> None:
    queue = make_queue(speed=100)
    queue.submit(ticket(ECHO, "x", tokens=100))
    queue.take(0)
    assert queue.state().wait_s == pytest.approx(1.0)
    queue.clock.now += 0.75
    assert queue.state().wait_s == pytest.approx(0.25)


def test_a_ticket_whose_time_is_up_ends_when_its_turn_comes_and_is_not_computed() -> None:
    queue = make_queue()
    late, ended = ticket(ECHO, "late", patience_s=1.0), []
    late.notify = ended.append
    queue.submit(late)
    queue.submit(ticket(ECHO, "fresh"))
    queue.clock.now += 1.5
    assert payloads(queue.take(0)) == ["fresh"]
    assert isinstance(late.error, Expired)
    assert ended == [None]


def test_what_nobody_waits_for_is_not_computed_and_no_longer_counts() -> None:
    queue = make_queue()
    gone, stays = ticket(ECHO, *["gone"] * 3), ticket(ECHO, "stays")
    queue.submit(gone)
    queue.submit(stays)
    queue.cancel(gone)
    assert queue.state().num_tokens == 10
    assert queue.state().num_units == 1
    assert isinstance(gone.error, Abandoned)
    assert list(all_batches(queue)) == [["stays"]]


def test_a_closed_queue_ends_what_waits_and_accepts_nothing() -> None:
    queue = make_queue()
    waiting = ticket(ECHO, "x")
    queue.submit(waiting)
    queue.close()
    assert isinstance(waiting.error, Unavailable)
    with pytest.raises(Unavailable):
        queue.submit(ticket(ECHO, "y"))
    assert queue.take(0) is None


def test_a_batch_is_alone_only_if_nothing_else_waits_or_runs() -> None:
    queue = make_queue(budget=10)
    for name in "abc":
        queue.submit(ticket(ECHO, name))
    first, second = queue.take(0), queue.take(0)
    assert first
    assert second
    assert not first.is_alone
    assert not second.is_alone
    queue.finish(first)
    queue.finish(second)
    last = queue.take(0)
    assert last
    assert last.is_alone


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),  # client
            st.integers(1, 7),  # texts
            st.integers(1, 60),  # tokens
            st.sampled_from(["stay", "stay", "cancel"]),
        ),
        max_size=30,
    )
)
def test_every_unit_is_taken_once_or_cancelled_and_the_counters_return_to_zero(
    requests: list[tuple[str, int, int, str]],
) -> None:
    queue = make_queue(timeout_s=1e9, max_timeout_s=1e9, max_wait_s=1e9)
    expected: Counter[object] = Counter()
    for number, (client, texts, tokens, fate) in enumerate(requests):
        one = ticket(ECHO, *[number] * texts, tokens=tokens, client=client)
        queue.submit(one)
        if fate == "cancel":
            queue.cancel(one)
        else:
            expected[number] = texts
    taken = Counter(payload for batch in all_batches(queue) for payload in batch)
    assert taken == expected
    state = queue.state()
    assert (state.num_units, state.num_tokens, state.num_running) == (0, 0, 0)
    assert queue.is_idle()

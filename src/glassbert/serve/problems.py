"""The refusals that a client gets when the queue, or the model, has no answer."""

from glassbert.serve.http.problems import Problem, unavailable
from glassbert.serve.queue import Overloaded
from glassbert.serve.tickets import Abandoned, Expired, Failure, Unanswerable


def problem_of(failure: Failure, field: str = "inputs") -> Problem:
    """Return the refusal for a failure.

    Args:
        field: Of the request, where the texts were.
    """
    if isinstance(failure, Overloaded):
        seconds = failure.retry_after_s
        message = (
            f"overloaded: the request would wait about {failure.wait_s:.1f} s, and may wait "
            f"{failure.longest_s:.1f} s; try again in {seconds} s"
        )
        headers = {"retry-after": str(seconds), "retry-after-ms": str(1000 * seconds)}
        return Problem(429, "Overloaded", message, code="overloaded", headers=headers)
    if isinstance(failure, Expired):
        # A client that tries again by itself would only make the load worse.
        message = "the deadline passed before the answer was there; send less at once, or allow more time"
        return Problem(504, "Overloaded", message, code="deadline", headers={"x-should-retry": "false"})
    if isinstance(failure, Unanswerable):
        where = f"$.{field}[{failure.args[0]}]" if failure.args else None
        return Problem(424, "Backend", "the model has no answer for this text", where, code="model_failed")
    assert not isinstance(failure, Abandoned)
    return unavailable("the server is stopping, or lost a compute thread; try again")

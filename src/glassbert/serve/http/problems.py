"""Why a request gets no answer, and how each dialect words it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["Validation", "Tokenizer", "Empty", "Backend", "Overloaded", "Unhealthy", "Unauthorized"]
"""The names are those of text-embeddings-inference, whose clients read them."""

RETRY_SECONDS = 5
"""When to ask again while the server loads, drains or is unwell."""


@dataclass(eq=False)
class Problem(Exception):
    """A refusal. Every message is written by us: no text of a request, no path, no foreign exception."""

    status: int
    kind: Kind
    message: str
    where: str | None = None
    """The field of the request, such as $.inputs[3]."""
    code: str | None = None
    """A word for programs, such as model_not_found."""
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def invalid(message: str, where: str | None = None, *, kind: Kind = "Validation") -> Problem:
    """Return the refusal of a request whose JSON is right but whose values are not."""
    return Problem(422, kind, message, where)


def empty(where: str) -> Problem:
    """Return the refusal of an empty text or list."""
    return Problem(400, "Empty", "expected at least one text that is not empty", where)


def unavailable(message: str, seconds: int = RETRY_SECONDS) -> Problem:
    """Return the refusal of a server that will soon be able to answer."""
    return Problem(503, "Unhealthy", message, headers={"retry-after": str(seconds)})


@dataclass(frozen=True)
class Dialect:
    """A dialect: what an error looks like."""

    name: str
    error: Callable[[Problem, str], Any]
    """Makes the JSON of an error from the problem and the id of the request."""
    wrong_task_status: int = 424
    """For a request that the model has no head for."""


def _plain(problem: Problem, request_id: str) -> Any:
    return {"error": str(problem), "error_type": problem.kind}


def _nested(problem: Problem, request_id: str) -> Any:
    kinds = {400: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error"}
    kind = kinds.get(problem.status, "server_error" if problem.status >= 500 else "invalid_request_error")
    body = {"message": str(problem), "type": kind, "param": problem.where, "code": problem.code}
    return {"error": body}


TEI = Dialect("tei", _plain)
HUGGING_FACE = Dialect("hf", _plain)
OPENAI = Dialect("openai", _nested, wrong_task_status=400)
COHERE = Dialect(
    "cohere", lambda problem, request_id: {"id": request_id, "message": str(problem)}, wrong_task_status=400
)
KSERVE = Dialect("kserve", lambda problem, request_id: {"error": str(problem)}, wrong_task_status=400)
NATIVE = Dialect(
    "native",
    lambda problem, request_id: {**_plain(problem, request_id), "id": request_id},
    wrong_task_status=400,
)

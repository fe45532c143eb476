"""How the page refuses: one line in English, and a code if the page can say it in both languages."""

from typing import Any

from glassbert.errors import UserError
from glassbert.sentence import in_both, said_by
from glassbert.serve.http.problems import Dialect, Problem


class Refusal(UserError):
    """A refusal that the page says in its reader's language."""

    status = 422

    def __init__(self, code: str, message: str) -> None:
        """Make a refusal.

        Args:
            code: The page's message is called `error.` and this.
        """
        super().__init__(message)
        self.code = code


class GoneError(Refusal):
    """A trace that is no longer kept; the page asks again by itself."""

    status = 410


def problem_of(error: UserError) -> Problem:
    """Return the answer to a request that ended in an error of its user."""
    if isinstance(error, Refusal):
        return Problem(error.status, "Validation", str(error), code=error.code)
    return Problem(422, "Validation", said_by(error))


def as_json(problem: Problem) -> dict[str, Any]:
    """Return what the page reads of a refusal."""
    words = in_both(problem.message)  # English only, if nobody has written it in Chinese
    return {
        "status": problem.status,
        "error": str(problem),
        "words": words if isinstance(words, dict) else None,
        "code": problem.code,
    }


PAGE = Dialect("page", lambda problem, request_id: {**as_json(problem), "id": request_id})

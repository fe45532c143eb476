"""Errors a user can cause. Each carries the exit code that the command line ends with.

A message says what we got, what was expected and what to do, in one line. Our own mistakes are `assert`s
and keep their traceback.
"""

from glassbert.messages import one_line


class UserError(ValueError):
    """A wrong argument or setting."""

    exit_code = 2

    def __str__(self) -> str:
        return one_line(super().__str__())


class RunFailed(UserError):
    """A run that cannot continue, for example because its loss is no longer a number."""

    exit_code = 1


class DataError(UserError):
    """Text or rows that cannot be used."""

    exit_code = 3


class ModelError(UserError):
    """A model that is missing, damaged or does not fit."""

    exit_code = 4


class GateError(UserError):
    """A quality gate that was not met."""

    exit_code = 5


class Interrupted(UserError):
    """A run that was asked to stop and has saved its state."""

    exit_code = 130

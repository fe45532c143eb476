"""Which tasks there are; each is imported when it is asked for."""

from importlib import import_module
from typing import Any, get_args

from glassbert.config import Head
from glassbert.data.examples import TaskName
from glassbert.errors import UserError
from glassbert.tasks.task import Task, TaskSettings

TASKS: tuple[TaskName, ...] = get_args(TaskName)
# Task -> module, form, settings.
_HOMES: dict[TaskName, tuple[str, str, str]] = {
    "classify": ("classify.task", "Classify", "ClassifySettings"),
    "pair": ("classify.task", "Classify", "ClassifySettings"),
    "tag": ("tag.task", "Tag", "TagSettings"),
    "answer": ("answer.task", "Extract", "AnswerSettings"),
}
TASK_OF_HEAD: dict[Head, TaskName] = {"classify": "classify", "tag": "tag", "answer": "answer"}
"""What a model folder that is not of ours can do."""


def task_class(name: str) -> type[Task[Any, Any]]:
    """Return the form of a task."""
    module, task, _ = _home(name)
    return getattr(import_module(f"glassbert.tasks.{module}"), task)


def settings_class(name: str) -> type[TaskSettings]:
    """Return what a task can be told."""
    module, _, settings = _home(name)
    return getattr(import_module(f"glassbert.tasks.{module}"), settings)


def _home(name: str) -> tuple[str, str, str]:
    for task, home in _HOMES.items():
        if task == name:
            return home
    raise UserError(f"no task {name!r}; expected one of {', '.join(TASKS)}")

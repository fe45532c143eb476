"""The tasks that a model can be fine-tuned for. Everything that asks which tasks exist asks here.

Nothing is imported before it is needed: the command line lists the tasks without loading torch.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from glassbert.arguments import checked
from glassbert.errors import UserError

if TYPE_CHECKING:
    from glassbert.config import Head
    from glassbert.data.rows.schema import Schema
    from glassbert.tasks.settings import TaskSettings
    from glassbert.tasks.task import Task


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """A task by name. Its parts are given as they are, or as "module:name" to be imported on first use."""

    name: str
    """As in `glassbert train NAME`."""
    help: str
    """What `glassbert train NAME --help` says: one sentence."""
    task: "type[Task[Any, Any]] | str"
    settings: "type[TaskSettings] | str"
    """The `[task]` table of a recipe."""
    schema: "Schema[Any] | str"
    """How rows are read."""
    head: "Head | None" = None
    """The head that shows this task in a foreign model folder, which does not name its task."""


TASKS: dict[str, TaskEntry] = {
    entry.name: entry
    for entry in (
        TaskEntry(
            name="classify",
            help="Train on texts with one label, with any number of labels, or with a number.",
            task="glassbert.tasks.classify.task:Classify",
            settings="glassbert.tasks.classify.settings:ClassifySettings",
            schema="glassbert.tasks.classify.rows:CLASSIFY",
            head="classify",
        ),
        TaskEntry(
            name="pair",
            help="Train on pairs of texts with one label, with any number of labels, or with a number.",
            task="glassbert.tasks.classify.task:Classify",
            settings="glassbert.tasks.classify.settings:ClassifySettings",
            schema="glassbert.tasks.classify.rows:PAIR",
        ),
        TaskEntry(
            name="tag",
            help="Train on texts with labelled spans, such as names.",
            task="glassbert.tasks.tag.task:Tag",
            settings="glassbert.tasks.tag.settings:TagSettings",
            schema="glassbert.tasks.tag.rows:TAG",
            head="tag",
        ),
        TaskEntry(
            name="answer",
            help="Train on questions whose answers are parts of a text.",
            task="glassbert.tasks.answer.task:Extract",
            settings="glassbert.tasks.answer.settings:AnswerSettings",
            schema="glassbert.tasks.answer.rows:ANSWER",
            head="answer",
        ),
    )
}
"""By name."""


@checked
def register(entry: TaskEntry) -> None:
    """Make a task known to `train`, `evaluate` and `predict`, in Python and on the command line."""
    if entry.name in TASKS:
        raise UserError(f"there is a task {entry.name!r} already; choose another name")
    TASKS[entry.name] = entry


def task_class(name: str) -> "type[Task[Any, Any]]":
    """Return the class of a task."""
    return _loaded(_entry(name).task)


def settings_class(name: str) -> "type[TaskSettings]":
    """Return the class of a task's settings."""
    return _loaded(_entry(name).settings)


def schema_of(name: str) -> "Schema[Any]":
    """Return how the rows of a task are read."""
    return _loaded(_entry(name).schema)


def task_of_head(head: str) -> str | None:
    """Return the task of a foreign model with this head; None if the head has no task."""
    return next((entry.name for entry in TASKS.values() if entry.head == head), None)


def _entry(name: str) -> TaskEntry:
    if name not in TASKS:
        raise UserError(f"no task {name!r}; expected one of {', '.join(TASKS)}")
    return TASKS[name]


def _loaded(part: Any) -> Any:
    if not isinstance(part, str):
        return part
    module, _, name = part.partition(":")
    return getattr(import_module(module), name)

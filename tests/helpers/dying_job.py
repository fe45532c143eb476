"""A job that ends its process at one of the files, as a full memory does."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassbert.bulk.jobs import EmbedJob
from glassbert.bulk.plan import FileResult, FileTask, plan
from glassbert.data.examples import ReadOptions
from glassbert.data.rows.record import Notes
from helpers.many_files import write_text


@dataclass(frozen=True, kw_only=True)
class DyingJob(EmbedJob):
    """Embeds all files but `deadly.txt`."""

    def answers(self, model: Any, path: Path, notes: Notes) -> Iterator[Any]:
        if path.name == "deadly.txt":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().answers(model, path, notes)


def errors_of(
    run: Callable[[DyingJob, list[FileTask], int], Iterable[int | FileResult]], model: Path, folder: Path
) -> dict[str, str | None]:
    """Let an engine do a good file and a deadly one in ``folder``; return what it says of each."""
    for name in ("a.txt", "deadly.txt"):
        write_text(folder / "in" / name, ["a b"])
    (folder / "out").mkdir()
    place: Any = {"device": "cpu", "precision": "float32"}
    job = DyingJob(model=str(model), place=place, options=ReadOptions(), keep="head")
    events = run(job, plan(folder / "in", folder / "out", "jsonl"), 2)
    return {event.input: event.error for event in events if not isinstance(event, int)}


GIVEN_UP = {
    "a.txt": None,
    "deadly.txt": "deadly.txt: the process that worked on it ended, 3 times; is the memory full?",
}

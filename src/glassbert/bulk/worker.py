"""One file after another through one model: what every process of every engine does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from glassbert.bulk.jobs import Job
from glassbert.bulk.plan import FileResult, FileTask
from glassbert.bulk.writers import writer_to
from glassbert.data.examples import BadRow
from glassbert.data.rows.record import Notes
from glassbert.errors import ModelError, UserError
from glassbert.storage import is_disk_full, new_file, sha256_of

if TYPE_CHECKING:
    from glassbert.bulk.jobs import Answer

_REPORT_EVERY_ROWS = 256

Event = int | FileResult
"""A number of rows that are done, or the result of a file."""


class Worker:
    """A model at work on files."""

    def __init__(self, job: Job, num_threads: int | None = None) -> None:
        """Load the model.

        Args:
            num_threads: Threads to compute on; torch's default when not given.
        """
        if num_threads is not None:
            torch.set_num_threads(num_threads)
        self.job, self.model = job, job.load()

    def work(self, task: FileTask) -> Iterator[Event]:
        """Write the output of a file, whole or not at all; yield how many rows are done, then the result.

        A file that cannot be read has a result with an error. A model that fails, or a full disk, is raised.
        """
        try:
            yield from self._work(task)
        except (UserError, OSError) as error:
            if isinstance(error, ModelError) or is_disk_full(error):
                raise
            yield FileResult(task.name, task.output, 0, 0, error=task.relative(str(error)))

    def _work(self, task: FileTask) -> Iterator[Event]:
        source, output = Path(task.source), task.output_path
        before = source.stat()  # a file that grows while it is read is read again next time
        notes, counts = Notes(), _Counts()
        output.parent.mkdir(parents=True, exist_ok=True)
        size = self.model.embedding_size
        with new_file(output) as file, writer_to(file, self.job.to, size) as writer:
            for row in self.job.answers(self.model, source, notes):
                if isinstance(row, BadRow):
                    row = replace(row, where=task.relative(row.where))
                writer.add(row)
                counts.add(row)
                if counts.rows % _REPORT_EVERY_ROWS == 0:
                    yield _REPORT_EVERY_ROWS
        result = FileResult(
            input=task.name,
            output=task.output,
            input_bytes=before.st_size,
            input_mtime_ns=before.st_mtime_ns,
            output_bytes=output.stat().st_size,
            sha256=sha256_of(output),
            notes=tuple(notes.lines()),
            **vars(counts),
        )
        task.record_as_done(result)
        yield counts.rows % _REPORT_EVERY_ROWS
        yield result


@dataclass
class _Counts:
    rows: int = 0
    bad_rows: int = 0
    first_bad: str | None = None
    truncated: int = 0

    def add(self, row: "Answer | BadRow") -> None:
        self.rows += 1
        if isinstance(row, BadRow):
            self.bad_rows += 1
            self.first_bad = self.first_bad or f"{row.where}: {row.reason}"
        else:
            self.truncated += row.truncated

"""Folders of files: the options that `embed` and `predict` share for them, and what is reported."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.input import num_processes
from glassbert.cli.output import messages, print_json, print_lines, progress_bar, remark
from glassbert.errors import DataError, Interrupted, UserError
from glassbert.ranges import PROCESSES

if TYPE_CHECKING:
    from glassbert.bulk.api import FilesProgress, FilesResult, OnProgress

_REPORT_EVERY_S = 10.0
_SHOWN_FAILURES = 5


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FilesOptions:
    """How the files of a folder are worked on."""

    processes: Annotated[int | None, Parameter(validator=PROCESSES)] = None
    """For a folder: processes, each with a model of its own; one for each core of the machine, or with Ray
    of the cluster; on a GPU one."""
    engine: Literal["ray"] | None = None
    """For a folder: run on a Ray cluster instead of processes of this machine."""

    def check_unused(self) -> None:
        """Refuse options that mean nothing without a folder of files."""
        for name in ("processes", "engine"):
            if getattr(self, name) is not None:
                raise UserError(f"--{name} is for a folder of files; give one, and --out for the results")

    def engine_settings(self, where: DeviceOptions | None) -> dict[str, Any]:
        """Return how and where the work is done, as `embed_files` and `predict_files` take it."""
        engine = self.engine or "processes"
        return {"processes": self._num_processes(where), "engine": engine, "log": remark, **place_of(where)}

    def _num_processes(self, where: DeviceOptions | None) -> int:
        if self.processes is not None:
            return self.processes
        if self.engine == "ray":
            return int(PROCESSES.high)  # Ray starts as many as the cluster has room for
        from glassbert.inference.prepare import choose_device

        is_on_cpu = choose_device(place_of(where)["device"]).type == "cpu"
        return num_processes(None) if is_on_cpu else 1


@contextmanager
def shown_progress(verb: str) -> "Iterator[OnProgress]":
    """Yield what draws a bar on a terminal, or logs a line now and then where there is none."""
    started_at = reported_at = time.monotonic()
    with progress_bar() as bar:
        task = bar.add_task(verb, total=None)

        def on_progress(progress: "FilesProgress") -> None:
            nonlocal reported_at
            bar.update(task, completed=progress.files_done, total=progress.num_files)
            now = time.monotonic()
            if not messages.is_terminal and now - reported_at >= _REPORT_EVERY_S:
                reported_at = now
                remark(_described(progress, now - started_at))

        try:
            yield on_progress
        except KeyboardInterrupt:
            raise Interrupted("interrupted; files that are done are kept: the same command resumes") from None


def _described(progress: "FilesProgress", elapsed_s: float) -> str:
    speed = progress.num_rows / max(elapsed_s, 1e-9)
    files = f"{progress.files_done:,} of {progress.num_files:,} files"
    return f"{files}, {progress.num_rows:,} rows, {speed:,.0f} rows/s"


def report_files(result: "FilesResult", skip_bad: int, *, json: bool) -> None:
    """Print where the results are; raise for files that failed, and for more bad rows than are allowed."""
    for note in sorted({f"{file.input}: {note}" for file in result.files for note in file.notes}):
        remark(note)
    if result.truncated:
        remark(f"{result.truncated:,} of {result.rows:,} texts were too long and were cut")
    if json:
        counts = {"files": len(result.files), "failed": len(result.failed), "rows": result.rows}
        print_json({"out": str(result.out), **counts, "bad_rows": result.bad_rows})
    else:
        print_lines([result.out])
    remark(f"{len(result.files) - len(result.failed):,} files, {result.rows:,} rows in {result.out}")
    for file in result.failed[:_SHOWN_FAILURES]:
        remark(f"not done: {file.error}")
    if result.failed:
        raise DataError(
            f"{len(result.failed):,} of {len(result.files):,} files could not be read; the first: "
            f"{result.failed[0].error}; correct them, and the same command does only those"
        )
    first_bad = next((file.first_bad for file in result.files if file.first_bad), None)
    if result.bad_rows > skip_bad:
        raise DataError(
            f"{result.bad_rows:,} of {result.rows:,} rows could not be used; the first: {first_bad}; "
            f"they are in their places with the reason; allow them with --skip-bad {result.bad_rows}"
        )

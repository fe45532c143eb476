"""`embed_files` and `predict_files`: folders of rows in, folders of answers out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from glassbert.arguments import checked
from glassbert.bulk.jobs import EmbedJob, Job, OutputFormat, PredictJob
from glassbert.bulk.plan import (
    FileResult,
    FileTask,
    check_places,
    open_folder,
    plan,
    stale_outputs,
    swept,
    write_manifest,
)
from glassbert.data.examples import ReadOptions
from glassbert.inference.devices import Device, PrecisionName
from glassbert.messages import Log, say_nothing
from glassbert.model_names import model_folder
from glassbert.ranges import PROCESSES
from glassbert.storage import locked
from glassbert.text.truncate import Keep
from glassbert.typed import typed

EngineName = Literal["processes", "ray"]
"""What runs the work: processes of this machine, or Ray."""


@dataclass(frozen=True)
class FilesProgress:
    """How far a job is."""

    files_done: int
    num_files: int
    num_rows: int
    """Rows that this run has answered."""


OnProgress = Callable[[FilesProgress], None]


@dataclass(frozen=True)
class FilesResult:
    """The result for all files."""

    out: Path
    files: tuple[FileResult, ...]
    num_before: int
    """Files that an earlier run had done already."""

    @property
    def rows(self) -> int:
        """Rows of all outputs."""
        return sum(file.rows for file in self.files)

    @property
    def bad_rows(self) -> int:
        """Rows that could not be answered; each is in its place, with the reason."""
        return sum(file.bad_rows for file in self.files)

    @property
    def truncated(self) -> int:
        """Texts that were longer than the model takes."""
        return sum(file.truncated for file in self.files)

    @property
    def failed(self) -> tuple[FileResult, ...]:
        """Files without an output; the next run tries them again."""
        return tuple(file for file in self.files if file.error is not None)


@checked
def embed_files(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    keep: Keep = "head",
    prompt_name: str | None = None,
    to: OutputFormat = "jsonl",
    options: ReadOptions | None = None,
    processes: int = 1,
    engine: EngineName = "processes",
    device: Device = "auto",
    precision: PrecisionName = "float32",
    on_progress: OnProgress | None = None,
    log: Log = say_nothing,
) -> FilesResult:
    """Write the vector of each row of a folder of files: one output for each file, one row for each row.

    A run that was stopped or killed is resumed by the same call: files that are done are left alone.

    Args:
        source: A folder, or one file: parquet, JSON lines, CSV, TSV or plain text; packed ones too.
        out: The folder of the outputs and of manifest.json.
        keep: Which part of a text that is too long is kept.
        prompt_name: Which prompt of the model's folder to put before each text; its default when not given.
        to: jsonl, or parquet, which needs pyarrow and takes a third of the space.
        options: How the files are read.
        processes: Processes, each with a model of its own; with Ray, at most this many.
        engine: processes of this machine, or ray, which uses a cluster.
        log: Receives remarks, such as how many files were done before.
    """
    job = EmbedJob(
        model=str(model_folder(model).absolute()),
        place={"device": device, "precision": precision},
        options=options or ReadOptions(),
        to=to,
        keep=keep,
        prompt_name=prompt_name,
    )
    return _carry_out(job, source, out, processes, engine, on_progress, log)


@checked
def predict_files(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    abstain_below: float = 0.0,
    accuracy: float | None = None,
    options: ReadOptions | None = None,
    processes: int = 1,
    engine: EngineName = "processes",
    device: Device = "auto",
    precision: PrecisionName = "float32",
    on_progress: OnProgress | None = None,
    log: Log = say_nothing,
) -> FilesResult:
    """Write the prediction for each row of a folder of files, as JSON lines; see `embed_files`.

    Args:
        task: What the model does, if its folder does not name its task.
        abstain_below: Give no label whose score is lower.
        accuracy: Give no label below the score from which the model was right this often on its dev rows.
    """
    job = PredictJob(
        model=str(model_folder(model).absolute()),
        place={"device": device, "precision": precision},
        options=options or ReadOptions(),
        task=task,
        abstain_below=abstain_below,
        accuracy=accuracy,
    )
    return _carry_out(job, source, out, processes, engine, on_progress, log)


def _carry_out(
    job: Job,
    source: str | Path,
    out: str | Path,
    processes: int,
    engine: EngineName,
    on_progress: OnProgress | None,
    log: Log,
) -> FilesResult:
    typed(processes, Annotated[int, PROCESSES], "processes")
    typed(engine, EngineName, "engine")
    source, out = Path(source), Path(out)
    tasks = plan(source.absolute(), out.absolute(), job.to)
    check_places(source, out, job.model)
    job.check()
    out.mkdir(parents=True, exist_ok=True)
    with locked(out, "another run"), swept(out):
        identity = job.identity()
        open_folder(out, identity)
        results = {task: found for task in tasks if (found := task.found()) is not None}
        num_before, num_rows = len(results), 0
        if num_before:
            log(f"{num_before:,} of {len(tasks):,} files were done before")
        for stale in stale_outputs(out.absolute(), tasks):
            log(f"{stale}: its input no longer exists; remove it if you do not need it")
        todo = [task for task in tasks if task not in results]
        by_name = {task.name: task for task in todo}
        for event in _events(job, todo, processes, engine):
            if isinstance(event, FileResult):
                results[by_name[event.input]] = event
            else:
                num_rows += event
            if on_progress is not None:
                on_progress(FilesProgress(len(results), len(tasks), num_rows))
        files = tuple(results[task] for task in tasks)
        result = FilesResult(out, files, num_before)
        write_manifest(out, identity, files, is_complete=not result.failed)
    return result


def _events(
    job: Job, tasks: Sequence[FileTask], processes: int, engine: EngineName
) -> "Iterator[int | FileResult]":
    """Run the tasks; a single process needs no engine."""
    num_processes = min(processes, len(tasks))
    if not tasks:
        return
    if engine == "ray":
        from glassbert.bulk.on_ray import run_on_ray

        yield from run_on_ray(job, tasks, num_processes)
    elif num_processes == 1:
        from glassbert.bulk.worker import Worker

        worker = Worker(job)
        for task in tasks:
            yield from worker.work(task)
    else:
        from glassbert.bulk.processes import run_in_processes

        yield from run_in_processes(job, tasks, num_processes)

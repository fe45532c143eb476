"""Files on the processes and machines of a Ray cluster, by Ray Data; the folders must be seen by all of them.

Ray starts the processes, gives each file to one, and begins a file again whose process or machine was lost.
What is done with a file is the same as without Ray.
"""

import importlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from glassbert.bulk.jobs import Job
from glassbert.bulk.plan import TRIES, FileResult, FileTask, given_up
from glassbert.errors import DataError, ModelError, RunFailed, UserError
from glassbert.parsing import json_text, parse_json
from glassbert.typed import record_from


def run_on_ray(job: Job, tasks: Sequence[FileTask], processes: int) -> "Iterator[int | FileResult]":
    """Yield the rows and the result of each file as it is done, in any order.

    The cluster is the one that runs already, or that RAY_ADDRESS names; otherwise one is started here.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no network access unless asked for
    try:
        ray: Any = importlib.import_module("ray")
        data: Any = importlib.import_module("ray.data")
    except ImportError:
        raise UserError("engine=ray needs Ray; install it: pip install 'glassbert[scale]'") from None
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    logging.getLogger("ray.data").setLevel(logging.WARNING)  # we report progress ourselves
    for task in tasks:
        _tries(task).unlink(missing_ok=True)  # of an earlier run
    files = data.from_items([asdict(task) for task in tasks], override_num_blocks=len(tasks))
    done = files.map(
        RayWorker,
        fn_constructor_args=(job,),
        compute=data.ActorPoolStrategy(min_size=1, max_size=processes),
        num_cpus=1,
        num_gpus=int(job.place["device"] == "cuda"),
    )
    try:
        for row in done.iter_rows():
            yield from _events(row)
    except ray.exceptions.RayError as error:
        last_line = str(error).strip().splitlines()[-1]
        raise RunFailed(
            f"Ray gave up ({type(error).__name__}: {last_line}); files that are done are kept: "
            "the same command resumes"
        ) from None


def _events(row: Mapping[str, Any]) -> "Iterator[int | FileResult]":
    if row["problem"]:
        raise ModelError(row["problem"])
    result = record_from(FileResult, parse_json(row["result"]), "a result", error=DataError)
    yield result.rows
    yield result


class RayWorker:
    """What Ray runs in each of its processes."""

    def __init__(self, job: Job) -> None:
        from glassbert.bulk.worker import Worker

        self._worker = Worker(job, num_threads=1)

    def __call__(self, row: dict[str, str]) -> dict[str, str]:
        """Do one file; return its result as JSON, or what is wrong with the model."""
        try:
            result = self._result(FileTask(**row))
        except ModelError as error:
            return {"result": "", "problem": str(error)}
        return {"result": json_text(asdict(result)), "problem": ""}

    def _result(self, task: FileTask) -> FileResult:
        tries = _tries(task)
        tries.parent.mkdir(parents=True, exist_ok=True)
        with tries.open("ab") as file:
            file.write(b".")
        if tries.stat().st_size > TRIES:
            return given_up(task)
        *_, result = self._worker.work(task)
        tries.unlink()
        assert isinstance(result, FileResult)
        return result


def _tries(task: FileTask) -> Path:
    """Return the file that has a byte for each time that a file was begun and not finished."""
    return task.record_path.with_suffix(".tries")

"""Which files a job reads and writes, and which of them are done.

A file that is done has a record in the hidden folder `.done` of the output folder: it is written after the
output and says which input it was made of. So a run that was killed at any moment can be repeated, and files
that are done and have not changed are left alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from glassbert.bulk.jobs import OutputFormat
from glassbert.errors import DataError, ModelError, UserError
from glassbert.open_files import read_regular, real_path
from glassbert.outputs import check_folder
from glassbert.parsing import FormatError, parse_json
from glassbert.storage import sweep, write_json
from glassbert.text.files import input_files, unpacked_name
from glassbert.typed import record_from
from glassbert.version import __version__

MANIFEST = "manifest.json"
RECORDS = ".done"
TRIES = 3
"""How often a file may kill the process that works on it, for example because the memory is full."""


@dataclass(frozen=True)
class FileResult:
    """The result for one file."""

    input: str
    """Its name, relative to the folder that was read."""
    output: str
    """Relative to the folder that was written."""
    input_bytes: int
    input_mtime_ns: int
    output_bytes: int = 0
    sha256: str = ""
    """Of the output."""
    rows: int = 0
    """Rows of the output: one for each row of the input, bad ones included."""
    bad_rows: int = 0
    first_bad: str | None = None
    truncated: int = 0
    """Texts that were longer than the model takes."""
    notes: tuple[str, ...] = ()
    """How the rows were read."""
    error: str | None = None
    """Why there is no output."""


@dataclass(frozen=True)
class FileTask:
    """A file that is to be read, and where its results go; as text, so that any engine can carry it."""

    name: str
    """Relative to the folder that is read."""
    source: str
    """The file itself."""
    out: str
    """The folder that is written."""
    output: str
    """Relative to that folder."""

    @property
    def output_path(self) -> Path:
        """The file that is written."""
        return Path(self.out, self.output)

    @property
    def record_path(self) -> Path:
        """The file that says that the output is complete."""
        return Path(self.out, RECORDS, f"{self.output}.json")

    def relative(self, message: str) -> str:
        """Return a message with the name of the file instead of its whole path."""
        return message.replace(self.source, self.name)

    def found(self) -> FileResult | None:
        """Return the record of a file that is done and has not changed since; None otherwise."""
        try:
            content = parse_json(read_regular(self.record_path))
            result = record_from(FileResult, content, str(self.record_path), error=DataError)
            now, written = Path(self.source).stat(), self.output_path.stat()
        except (OSError, FormatError, UserError):
            return None
        is_same = (now.st_size, now.st_mtime_ns) == (result.input_bytes, result.input_mtime_ns)
        return result if is_same and written.st_size == result.output_bytes else None

    def record_as_done(self, result: FileResult) -> None:
        """Write the record of a file whose output is complete."""
        self.record_path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self.record_path, asdict(result))


def given_up(task: FileTask) -> FileResult:
    """Return the result of a file that kills every process that works on it."""
    reason = f"the process that worked on it ended, {TRIES} times; is the memory full?"
    return FileResult(task.name, task.output, 0, 0, error=f"{task.name}: {reason}")


def plan(source: Path, out: Path, to: OutputFormat) -> list[FileTask]:
    """Return the tasks for a file, or for all files below a folder."""
    root = source if source.is_dir() else source.parent
    tasks: dict[str, FileTask] = {}
    for path in input_files(source):
        name = path.relative_to(root)
        output = name.with_name(f"{Path(unpacked_name(name)).stem}.{to}").as_posix()
        if output in tasks or output == MANIFEST:
            other = tasks[output].source if output in tasks else f"the list of all files, {MANIFEST}"
            raise UserError(f"{path} would have the same output as {other}: {output}; rename one of them")
        tasks[output] = FileTask(name.as_posix(), str(path), str(out), output)
    return list(tasks.values())


def check_places(source: Path, out: Path, model: str) -> None:
    """Refuse an output folder that holds what is read, or lies within it."""
    check_folder(out, [model, source], is_replaced=False)
    if source.is_dir() and real_path(out).is_relative_to(real_path(source)):
        raise UserError(f"{out} lies within {source}, whose files are all read; name a folder outside of it")


def open_folder(out: Path, identity: dict[str, Any]) -> None:
    """Make the output folder ready for a job; refuse one with the results of another job."""
    if (out / MANIFEST).is_file():
        _check_same(out, identity)
    elif any(path.name != RECORDS and not path.name.endswith(".part") for path in out.iterdir()):
        raise UserError(f"{out} is not empty, and holds no such run; name a new folder")
    write_manifest(out, identity, [], is_complete=False)


@contextmanager
def swept(out: Path) -> Iterator[None]:
    """Remove what killed processes left half-written: those of an earlier run now, ours at the end."""
    try:
        _sweep(out)
        yield
    finally:
        _sweep(out)


def write_manifest(
    out: Path, identity: dict[str, Any], results: Sequence[FileResult], *, is_complete: bool
) -> None:
    """Write the list of all files with what was counted."""
    files = [asdict(result) for result in results]
    sums = {key: sum(file[key] for file in files) for key in ("rows", "bad_rows", "truncated")}
    about = {"glassbert": __version__, "job": identity, "is_complete": is_complete}
    write_json(out / MANIFEST, {**about, **sums, "files": files})


def stale_outputs(out: Path, tasks: Sequence[FileTask]) -> list[str]:
    """Return the outputs of earlier runs whose inputs no longer exist."""
    records = out / RECORDS
    known = {task.record_path for task in tasks}
    found = (path for path in records.rglob("*.json") if path not in known)
    return sorted(path.relative_to(records).as_posix().removesuffix(".json") for path in found)


def _check_same(out: Path, identity: dict[str, Any]) -> None:
    try:
        before = parse_json(read_regular(out / MANIFEST))["job"]
        changed = [key for key in {**before, **identity} if before.get(key) != identity.get(key)]
    except (FormatError, ModelError, KeyError, TypeError, AttributeError):
        raise UserError(f"{out / MANIFEST} is not ours, or is damaged; name another folder") from None
    if changed and _has_results(out):
        raise UserError(
            f"{out} holds results of another job (it differs in: {', '.join(changed)}); name another folder, "
            "or remove this one"
        )


def _has_results(out: Path) -> bool:
    """Return whether anything was done in a folder; a job that was refused at its start leaves nothing."""
    return any(path.is_file() and path != out / MANIFEST for path in out.rglob("*"))


def _sweep(out: Path) -> None:
    for folder in (out, *(path for path in out.rglob("*") if path.is_dir())):
        sweep(folder)

"""Files and folders that are either whole or absent, and the JSON of model folders."""

import errno
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from glassbert.errors import DataError, ModelError, UserError
from glassbert.open_files import CONFIG, Limit, check_regular, read_regular, real_path
from glassbert.outputs import check_folder, check_replaceable, keep_others, list_more
from glassbert.parsing import MAX_PARTS, FormatError, json_text, parse_json
from glassbert.signals import held, writing
from glassbert.typed import fits

LogRow = dict[str, float | None | dict[str, float | None]]
"""What a run logs at a step: numbers, and the table of an evaluation."""
# The hidden files that a kill in the middle of a write leaves behind.
_LEFT_OVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.(?P<ending>part|old)")


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``; neither a reader nor a crash ever sees a part of it."""
    with new_file(path) as file:
        file.write(data)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Yield a file to write into; it becomes ``path`` on success and is removed on failure."""
    check_replaceable(path)
    path = real_path(path)  # a link stays a link; its target is replaced
    if not path.parent.is_dir():
        raise UserError(f"{path}: {path.parent} is not a folder; create it first")
    aside = _aside(path, "part")
    try:
        with writing(), aside.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename in (None, str(aside)):
            error.filename = str(path)  # the error of a full disk names only the number of the file
        with held():
            aside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def parents_of(path: Path) -> Iterator[None]:
    """Create the folders that ``path`` lies in; those that are new are removed on failure."""
    missing = [parent for parent in path.absolute().parents if not parent.exists()]  # the innermost first
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with held():
            for parent in missing:
                with suppress(OSError):  # another process may have put something there
                    parent.rmdir()
        raise


@contextmanager
def new_files(folder: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty folder to write into; its files move into ``folder`` when all of them are complete."""
    check_folder(folder, is_replaced=False)
    aside = _aside(folder / "files", "part")
    with parents_of(aside):
        try:
            aside.mkdir()
            with writing():
                yield aside
            old = [path.name for path in aside.iterdir() if (folder / path.name).exists()]
            list_more(aside, folder)
            if old and not overwrite:
                raise UserError(
                    f"{folder} holds {old[0]}; name another folder, or replace it: overwrite=True"
                )
            _sync_files(aside)
            with held():  # a half-replaced vocabulary is worse than none
                for path in sorted(aside.iterdir()):  # the list first: a kill leaves no file without it
                    os.replace(path, folder / path.name)
        finally:
            with held():
                shutil.rmtree(aside, ignore_errors=True)
    sync_folder(folder)


@contextmanager
def new_folder(out: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield a folder to write into; it becomes ``out`` on success and is removed on failure."""
    check_folder(out)
    out = real_path(out)  # a link stays a link; its target is replaced
    if out.is_dir() and any(out.iterdir()) and not overwrite:
        raise UserError(f"{out} is not empty; name another folder, or replace it: --force, overwrite=True")
    with parents_of(out):
        aside = _aside(out, "part")
        try:
            aside.mkdir()
            with writing():
                yield aside
            put_in_place(aside, out)
        except BaseException:
            with held():
                shutil.rmtree(aside, ignore_errors=True)
            raise


@contextmanager
def locked(folder: Path, other: str) -> Iterator[None]:
    """Keep other processes out of ``folder``; the lock ends with this process, however it ends.

    Args:
        other: What uses the folder if it is locked already, for the message.
    """
    if os.name != "posix":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"{folder} is in use by {other}; wait until it ends") from None
        yield
    finally:
        os.close(descriptor)


def sweep(folder: Path) -> None:
    """Remove what a killed write left in a folder; move back what it had moved aside."""
    for path in list(folder.glob(".*")):
        found = _LEFT_OVER.fullmatch(path.name)
        if found is None:
            continue
        if found["ending"] == "old" and not (folder / found["name"]).exists():
            # Killed between the two renames of a replacement: this is the only complete folder.
            os.replace(path, folder / found["name"])
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_disk_full(error: BaseException) -> bool:
    """Return whether a write failed because the disk, a quota or a limit on file sizes is full."""
    # safetensors wraps the system's error in one of its own, which has the number only in its text.
    wrapped = re.search(r"\(os error (\d+)\)", str(error))
    number = int(wrapped[1]) if wrapped else getattr(error, "errno", None)
    return number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def read_json(path: Path, *, limit: Limit = CONFIG) -> dict[str, Any]:
    """Return the object in a JSON file of a model folder."""
    content = read_json_value(path, limit=limit)
    if not isinstance(content, dict):
        raise ModelError(f"{path}: expected a JSON object, got a {type(content).__name__}")
    return content


def read_json_value(path: Path, *, limit: Limit = CONFIG) -> Any:
    """Return what a JSON file of a model folder holds.

    Args:
        limit: `DOCUMENT` for a file that holds more than a description, such as a vocabulary.
    """
    try:
        content = read_regular(path, limit=limit)
        return parse_json(content, max_parts=MAX_PARTS if limit is CONFIG else None)
    except FileNotFoundError:
        raise ModelError(f"no {path.name} in {path.parent}; is it a model folder?") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); fetch it again") from None
    except FormatError as error:
        raise ModelError(f"{path}: not JSON ({error}); the file is damaged, fetch it again") from None


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write ``value`` as JSON that people can read."""
    write_atomically(path, (json_text(value, indent=2) + "\n").encode("utf-8"))


def read_log(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    """Return each line of a .jsonl log of a run with the object in it.

    A line that a kill or a full disk cut off, that has no step, or that holds anything but numbers, some of
    them in a table, is left out.
    """
    found = []
    for line in path.read_bytes().splitlines(keepends=True) if path.is_file() else ():
        try:
            row = parse_json(line) if line.endswith(b"\n") else None
        except FormatError:
            continue
        if isinstance(row, dict) and fits(row, LogRow) and fits(row.get("step"), int):
            found.append((line, row))
    return found


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex; a pipe or a device, which may have no end, is refused."""
    check_regular(path, error=DataError)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Make new names in ``folder`` durable; only POSIX systems can open a folder for that."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _aside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.{ending}")


def put_in_place(aside: Path, out: Path) -> None:
    """Rename ``aside`` to ``out``; files of an old ``out`` that glassbert did not write are kept.

    The old folder is deleted only after the new one has its name.
    """
    keep_others(aside, out)
    _sync_files(aside)
    if not out.exists():
        os.replace(aside, out)
    else:
        old = _aside(out, "old")
        with held():
            os.replace(out, old)
            os.replace(aside, out)
            shutil.rmtree(old)
    sync_folder(out.parent)


def _sync_files(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                os.fsync(file.fileno())

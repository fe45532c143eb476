"""What an unfinished build leaves behind, so that the same command resumes it and any other is refused."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from glassbert.data.corpus.manifest import HELD_OUT, MANIFEST, Amount, Manifest, ShardInfo
from glassbert.errors import RunFailed, UserError
from glassbert.open_files import DOCUMENT
from glassbert.outputs import VOCABULARY_FILES, WRITTEN
from glassbert.storage import is_disk_full, locked, put_in_place, read_json, sync_folder, write_json
from glassbert.typed import typed

_PROGRESS = "progress.json"
_OURS = (_PROGRESS, MANIFEST, HELD_OUT, WRITTEN, *VOCABULARY_FILES, "shard-*", ".*.part")
"""What may lie in the folder of an unfinished build."""


@dataclass(frozen=True)
class Progress:
    """The state of an unfinished build."""

    plan: Manifest
    """The manifest, without the shards."""
    shards: tuple[ShardInfo, ...] = ()
    next_document: int = 0
    """The first document that is not in the shards."""

    def save(self, folder: Path) -> None:
        plan = replace(self.plan, shards=self.shards).to_json()
        write_json(folder / _PROGRESS, {"next_document": self.next_document, "plan": plan})

    @staticmethod
    def load(folder: Path) -> "Progress | None":
        path = folder / _PROGRESS
        try:
            content = read_json(path, limit=DOCUMENT)
            plan = Manifest.from_json(content.get("plan"), str(path))
            next_document = typed(content.get("next_document"), Amount, "next_document")
            return Progress(replace(plan, shards=()), plan.shards, next_document)
        except UserError:
            return None  # killed before the first save, or written by another version of this program


def find_built(out: Path, plan: Manifest, *, overwrite: bool) -> Manifest | None:
    """Return the manifest of ``out`` if it is what the plan would give; refuse to replace anything else."""
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / MANIFEST).exists():
        raise UserError(f"{out} holds files that are not a corpus; name another folder")
    if overwrite:
        return None
    found = Manifest.load(out)
    difference = _difference(found, plan)
    if difference is None:
        return found
    raise UserError(
        f"{out} holds another corpus ({difference}); name another folder, or replace it: --force, "
        "overwrite=True"
    )


def resume(folder: Path, plan: Manifest, *, overwrite: bool) -> Progress:
    """Return the progress of a build of the same plan in ``folder``, and remove what it did not finish."""
    folder.mkdir(exist_ok=True)
    progress = Progress.load(folder)
    if progress is not None:
        difference = _difference(progress.plan, plan)
        if difference is not None and progress.shards and not overwrite:
            raise UserError(
                f"{folder} holds an unfinished build with {difference}; resume it with the settings that it "
                "was started with, or start again: --force, overwrite=True"
            )
        if difference is not None:
            progress = None
    progress = progress or Progress(plan)
    kept = {_PROGRESS, *(shard.name for shard in progress.shards)}
    if plan.held_out_share and not plan.is_held_out:
        kept.add(HELD_OUT)
    for path in folder.iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path)
        elif not kept & {path.name, path.stem}:
            path.unlink()
    return progress


def _check_ours(folder: Path) -> None:
    """Refuse a folder that holds what no build writes: it would be deleted."""
    for path in folder.iterdir():
        if not any(fnmatch(path.name, pattern) for pattern in _OURS):
            raise UserError(f"{path} is not a file that glassbert wrote there; move it")


@contextmanager
def work_folder(out: Path) -> Iterator[Path]:
    """Give the folder in which ``out`` is built; it is removed if no shard was finished in it."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.with_name(f".{out.name}.building")
    folder.mkdir(exist_ok=True)
    _check_ours(folder)
    with locked(folder, "another build"):
        try:
            yield folder
        except BaseException:
            if not _num_finished(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def disk_full_explained(out: Path, folder: Path) -> Iterator[None]:
    """Say what to do if the disk is full."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise RunFailed(
            f"{out}: no space left on its disk; {_num_finished(folder)} finished shards are kept: free some "
            "space and run the same command again to resume"
        ) from None


def publish(folder: Path, out: Path) -> None:
    """Give the finished folder its name; only then is its progress no longer needed."""
    put_in_place(folder, out)
    for finished in (out, out / HELD_OUT):
        (finished / _PROGRESS).unlink(missing_ok=True)
    sync_folder(out.parent)


def _difference(found: Manifest, plan: Manifest) -> str | None:
    """Return how a corpus differs from what the plan would give."""
    names = {
        "vocab_sha256": "another vocabulary",
        "tokenizer": "other tokenizer settings",
        "segmenter": f"segmenter {found.segmenter}",
        "shard_tokens": f"shards of {found.shard_tokens} tokens",
        "held_out_share": f"a share of {found.held_out_share} held out",
        "sources": "other files or another form of them",
    }
    for name, words in names.items():
        if getattr(found, name) != getattr(plan, name):
            return words
    if (found.num_duplicate_lines_dropped is None) != (plan.num_duplicate_lines_dropped is None):
        return f"duplicates {'kept' if found.num_duplicate_lines_dropped is None else 'dropped'}"
    return None


def _num_finished(folder: Path) -> int:
    found = (Progress.load(folder), Progress.load(folder / HELD_OUT))
    return sum(len(progress.shards) for progress in found if progress)

"""Check what a write may replace: never an input, never a file that glassbert did not write.

Every function that writes for a user calls `check_folder`, `check_files`, `check_new` or `check_ours` before
it starts to work. A file that may be replaced is one of ours: each kind has a mark at its beginning. A folder
that is replaced keeps the files in it that glassbert did not write: `.glassbert-files.json` lists those that
it did.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from glassbert.errors import ModelError, UserError
from glassbert.open_files import check_regular, read_regular, real_path
from glassbert.parsing import FormatError, json_text, parse_json

WRITTEN = ".glassbert-files.json"
"""The files of a folder that we wrote."""
VOCABULARY_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin", "bert_model.ckpt.*", "model.bin")
# Where a new folder has the file named first, leftovers of these names would be read as part of it.
_OF_ONE_KIND = {
    "config.json": (
        *VOCABULARY_FILES,
        *_WEIGHTS,
        "*.index.json",
        "added_tokens.json",
        "run.json",
        "task.safetensors",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "training.safetensors",
        "progress.json",
        "manifest.json",
    ),
    "vocab.txt": VOCABULARY_FILES,
    "manifest.json": ("shard-*", "held-out/*", "progress.json"),
}

GENERATOR = "glassbert"
"""The mark of origin in the pages, plots and JSON files that we write."""
ARRAY_HEADER = 1974
"""Bytes of the header of an array. Numpy's format has no place for a mark, but room for spaces: we write this
many, which nobody else does."""
ARRAY_START = b"\x93NUMPY\x01\x00" + ARRAY_HEADER.to_bytes(2, "little")


@dataclass(frozen=True)
class Kind:
    """A kind of file that we write, which may replace another one of the same kind and nothing else."""

    name: str
    beginning: re.Pattern[bytes]
    """What only our files begin with."""


HTML = Kind(
    "a page",
    re.compile(
        rb'<!doctype html>\n<html lang="\w+"><head><meta charset="utf-8">'
        rb'<meta name="generator" content="glassbert">'
    ),
)
SVG = Kind("a plot", re.compile(rb"<svg [^>]*><metadata>glassbert</metadata>"))
JSON = Kind("a JSON file", re.compile(rb'\{\s*"generator": "glassbert"'))
TRACE = Kind("a trace", re.compile(rb'.{8}\{"__metadata__": \{"format": "np", "glassbert\.trace"', re.DOTALL))
ARRAY = Kind("an array", re.compile(re.escape(ARRAY_START)))
_LONGEST = 1024
"""Bytes; no mark is longer."""

Paths = Iterable[str | Path]


def check_folder(out: str | Path, reads: Paths = (), *, is_replaced: bool = True) -> None:
    """Refuse an output folder that cannot be created, or that holds an input.

    Args:
        is_replaced: Whether the folder is written as a whole; then it cannot be the current one.
    """
    out = Path(out)
    _check_place(out)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    if not is_replaced and out.is_symlink() and not out.exists():
        raise UserError(f"{out} is a link to nowhere; create {os.readlink(out)}, or name another folder")
    whole = real_path(out)
    if is_replaced and Path.cwd().is_relative_to(whole):
        raise UserError(f"{out} is or contains the current folder, which would be replaced; name another one")
    if is_replaced and _listed(out) is None:  # written by another program, or by an older version
        check_unlisted(out, _fitting(out, chain(_OF_ONE_KIND, *_OF_ONE_KIND.values())))
    for path in _all(reads):
        if real_path(path).is_relative_to(whole):
            raise UserError(f"{out} contains {path}, which is read; name another folder to write to")


def check_files(files: Paths, reads: Paths = ()) -> None:
    """Refuse output files that cannot be created, name the same file twice, or are inputs, also by links."""
    reads, seen = list(reads), set[Path]()
    for file in map(Path, files):
        check_replaceable(file)
        if real_path(file) in seen:
            raise UserError(f"{file} would be written twice; name a file for each output")
        seen.add(real_path(file))
        if not file.exists():
            continue
        for path in _all(reads):
            if path.exists() and path.samefile(file):
                raise UserError(f"{file} would replace {path}, which is read; name another file")


def check_new(file: str | Path, kind: Kind | None = None, *, overwrite: bool = False) -> None:
    """Refuse a file as `check_ours` does, and one in a folder that does not exist.

    Args:
        kind: None for a format without a place for a mark: no file is replaced.
    """
    file = Path(file)
    check_replaceable(file)
    if kind is not None:
        check_ours(file, kind, overwrite=overwrite)
    elif os.path.lexists(file):
        raise UserError(f"{file} exists; name another file, or remove it")
    if not file.parent.is_dir():
        raise UserError(f"{file}: {file.parent} is not a folder; create it first")


def check_replaceable(file: str | Path) -> None:
    """Refuse to write a file where a folder, a pipe or a device is: a rename would replace them."""
    file = Path(file)
    _check_place(file)
    if file.is_dir():
        raise UserError(f"{file} is a folder; name a file to write to")
    with suppress(FileNotFoundError):
        check_regular(file, error=UserError)


def check_ours(file: str | Path, kind: Kind, *, overwrite: bool) -> None:
    """Refuse to replace a file, unless ``overwrite`` allows it and the file has our mark or is empty."""
    file = Path(file)
    if not file.is_file():
        return
    with file.open("rb") as stream:
        found = stream.read(_LONGEST)
    if found and not kind.beginning.match(found):
        raise UserError(
            f"{file} exists and is not {kind.name} that glassbert wrote; name another file, or remove it"
        )
    if not overwrite:
        raise UserError(f"{file} exists; name another file, or replace it: --force, overwrite=True")


def keep_others(aside: Path, out: Path) -> None:
    """List the files of ``aside``, which will replace ``out``, and add those of ``out`` that are not ours."""
    new, old = set(_names(aside)) - {WRITTEN}, set(_names(out)) - {WRITTEN}
    others = old - (_listed(out) or set())
    of_one_kind = (one for first, kind in _OF_ONE_KIND.items() if first in new for one in kind)
    check_unlisted(out, [*new, *_fitting(out, of_one_kind)])
    _write_list(aside, new)
    for name in sorted(others):
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        _link(out / name, aside / name)


def list_more(aside: Path, folder: Path) -> None:
    """List the files of ``aside``, which will be moved into ``folder``, beside those listed there."""
    new = set(os.listdir(aside))
    check_unlisted(folder, new)
    _write_list(aside, new | (_listed(folder) or set()))


def remove_ours(folder: Path) -> None:
    """Delete a folder that we wrote; one in which somebody else has put a file stays as it is."""
    if set(_names(folder)) <= {WRITTEN, *(_listed(folder) or ())}:
        shutil.rmtree(folder, ignore_errors=True)


def check_unlisted(folder: Path, names: Iterable[str]) -> None:
    """Refuse to write into a folder that has files of these names which are not ours."""
    listed = _listed(folder) or set()
    for name in sorted(names):
        if name not in listed and os.path.lexists(folder / name):
            raise UserError(
                f"{folder / name} is not a file that glassbert wrote there; move it, or name another folder"
            )


def _fitting(folder: Path, patterns: Iterable[str]) -> list[str]:
    """Return the names of the files in a folder that fit one of the patterns."""
    return [path.relative_to(folder).as_posix() for one in patterns for path in folder.glob(one)]


def _write_list(folder: Path, names: Iterable[str]) -> None:
    text = json_text({"files": sorted(names)}, indent=0) + "\n"
    (folder / WRITTEN).write_text(text, encoding="utf-8")


def _link(path: Path, to: Path) -> None:
    """Give a file a second name, which takes no space; copy it where the file system has no hard links."""
    if path.is_dir() and not path.is_symlink():
        to.mkdir()
        return
    try:
        os.link(path, to, follow_symlinks=False)
    except OSError:
        shutil.copy2(path, to, follow_symlinks=False)


def _listed(folder: Path) -> set[str] | None:
    """Return the names that the list of a folder holds; None if there is no list that can be read."""
    try:
        content = parse_json(read_regular(folder / WRITTEN))
    except (OSError, FormatError, ModelError):
        return None
    names = content.get("files") if isinstance(content, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return set(names)


def _names(folder: Path) -> Iterator[str]:
    """Yield the names of all files, links and empty folders below a folder, relative to it."""
    for parent, folders, files in os.walk(folder):
        here = Path(parent)
        links = [name for name in folders if (here / name).is_symlink()]
        for name in (*files, *links):
            yield (here / name).relative_to(folder).as_posix()
        if here != folder and not files and not folders:
            yield here.relative_to(folder).as_posix()


def _all(paths: Paths) -> Iterator[Path]:
    """Yield the paths and, of folders, all files in them."""
    for path in map(Path, paths):
        yield path
        for parent, _, files in os.walk(path):
            yield from (Path(parent, name) for name in files)


def _check_place(path: Path) -> None:
    """Refuse a path below something that is not a folder."""
    place = next((parent for parent in path.absolute().parents if os.path.lexists(parent)), path)
    if not place.is_dir():
        raise UserError(f"{path}: {place} is not a folder; name another place")

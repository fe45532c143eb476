"""What a write may touch: never what is read, never a file that is not ours.

Every function that writes for a user calls `check_folder`, `check_files` or `check_kind` before it starts to
work. A folder that is replaced keeps the files in it that glassbert did not write: `.glassbert-files.json`
lists those that it did.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from glassbert.errors import ModelError, UserError
from glassbert.open_files import check_regular, read_regular, real_path
from glassbert.parsing import FormatError, json_text, parse_json

WRITTEN = ".glassbert-files.json"
"""The files of a folder that we wrote."""
_VOCABULARY = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin", "bert_model.ckpt.*", "model.bin")
# Folders without a list are those of other programs and of older versions. If a new folder has the file named
# first, these of the old one are of the same kind, and would be read together with it: they are replaced.
_OF_ONE_KIND = {
    "config.json": (
        *_VOCABULARY,
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
    "vocab.txt": _VOCABULARY,
    "manifest.json": ("shard-*", "held-out/*", "progress.json"),
}

HTML, SVG, JSON = b"<!doctype html>", b"<svg", b"{"
"""How the files of these kinds begin that we write."""

Paths = Iterable[str | Path]


def check_folder(out: str | Path, reads: Paths = (), *, is_replaced: bool = True) -> None:
    """Refuse a folder to write that cannot be made, or that holds what is read.

    Args:
        is_replaced: Whether the folder is written as a whole; then it cannot be the current one.
    """
    out = Path(out)
    _check_place(out)
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    whole = real_path(out)
    if is_replaced and Path.cwd().is_relative_to(whole):
        raise UserError(f"{out} is or contains the current folder, which would be replaced; name another one")
    for path in _all(reads):
        if real_path(path).is_relative_to(whole):
            raise UserError(f"{out} contains {path}, which is read; name another folder to write to")


def check_files(files: Paths, reads: Paths = ()) -> None:
    """Refuse files to write that cannot be made, that are one, or are read: under this name, or by a link."""
    reads, seen = list(reads), set[Path]()
    for file in map(Path, files):
        _check_place(file)
        check_replaceable(file)
        if real_path(file) in seen:
            raise UserError(f"{file} would be written twice; name a file for each output")
        seen.add(real_path(file))
        if not file.exists():
            continue
        for path in _all(reads):
            if path.exists() and path.samefile(file):
                raise UserError(f"{file} would replace {path}, which is read; name another file")


def check_new(file: str | Path, *, overwrite: bool, beginning: bytes = b"") -> None:
    """Refuse to write over a file unless ``overwrite`` allows it, or into a folder that is not there.

    Args:
        beginning: How a file begins that may be overwritten; any may if not given.
    """
    file = Path(file)
    check_replaceable(file)
    if file.exists() and not overwrite:
        raise UserError(f"{file} exists; name another file, or replace it: --force, overwrite=True")
    if not file.parent.is_dir():
        raise UserError(f"{file}: {file.parent} is not a folder; create it first")
    if beginning:
        check_kind(file, beginning, f"a file that begins with {beginning.decode()}")


def check_replaceable(file: str | Path) -> None:
    """Refuse to write a file where a folder, a pipe or a device is: a rename would put it in their place."""
    file = Path(file)
    if file.is_dir():
        raise UserError(f"{file} is a folder; name a file to write to")
    with suppress(FileNotFoundError):
        check_regular(file, error=UserError)


def check_kind(file: str | Path, beginning: bytes, kind: str) -> None:
    """Refuse to replace a file that does not begin as those that we write there.

    Args:
        kind: What such a file is called, for the message.
    """
    file = Path(file)
    if not file.is_file():
        return
    with file.open("rb") as stream:
        found = stream.read(len(beginning))
    if found and found != beginning:
        raise UserError(f"{file} is there and is not {kind}; name another file, or remove it")


def keep_others(aside: Path, out: Path) -> None:
    """List the files of ``aside``, which will replace ``out``, and add those of ``out`` that are not ours."""
    new, old = set(_names(aside)) - {WRITTEN}, set(_names(out)) - {WRITTEN}
    (aside / WRITTEN).write_text(json_text({"files": sorted(new)}, indent=0) + "\n", encoding="utf-8")
    ours = _listed(out)
    if ours is None:
        patterns = [one for first, kind in _OF_ONE_KIND.items() if first in new for one in kind]
        ours = {name for name in old if any(fnmatch(name, pattern) for pattern in patterns)}
        ours |= old & new if ours else set()
    for name in sorted(old - ours):
        if (aside / name).exists():
            raise UserError(f"{out / name} is not a file that glassbert wrote there; move it, then try again")
        (aside / name).parent.mkdir(parents=True, exist_ok=True)
        _link(out / name, aside / name)


def _link(path: Path, to: Path) -> None:
    """Give a file a second name, which needs no room; copy it where the disk has no such links."""
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

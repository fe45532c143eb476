"""Text files to a corpus folder: streamed, on any number of processes, always the same bytes.

The shards are written into a folder beside the one asked for, which takes its name when all is there. After
each shard the folder says how far it is, so that a build that was stopped goes on from there.

Documents that are held out make a corpus of their own in a folder within. Which ones they are depends on
their numbers alone.
"""

import importlib.metadata
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from glassbert.data.corpus.duplicates import DuplicateFilter
from glassbert.data.corpus.encode import BlockEncoder, DocumentEncoder, Encoded
from glassbert.data.corpus.manifest import MANIFEST, Manifest, ShardInfo, Source
from glassbert.data.corpus.shards import DEFAULT_SHARD_TOKENS, CorpusWriter, ids_dtype, tokenizer_rules
from glassbert.data.corpus.stream import OnRead, Sources, read_blocks
from glassbert.data.random import Draw, uniform
from glassbert.errors import DataError, RunFailed, UserError
from glassbert.storage import is_disk_full, locked, sha256_of, sync_folder, write_json
from glassbert.text.documents import Part
from glassbert.text.segment import segmenter
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.workers import map_in_order

HELD_OUT = "held-out"
"""The folder within a corpus that holds the corpus of the documents that are not to be trained on."""

_PROGRESS = "progress.json"
# Of the choice of documents: the same for every corpus, so that one more file moves no document.
_HELD_OUT_SEED = 0


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """How a corpus is built."""

    segmenter: str | None = None
    """What finds Chinese words: a name, or the path of a word list."""
    shard_tokens: int = DEFAULT_SHARD_TOKENS
    """A shard ends with the first document that brings it to this size."""
    drop_duplicates: bool = False
    """Whether a line that came before is left out."""
    held_out: float = 0.0
    """The share of documents that go into a corpus of their own."""
    processes: int = 1

    def __post_init__(self) -> None:
        for name in ("shard_tokens", "processes"):
            if getattr(self, name) < 1:
                raise UserError(f"{name}={getattr(self, name)}; 1 or more is expected")
        if not 0 <= self.held_out < 1:
            raise UserError(f"held_out={self.held_out}; a share from 0 to below 1 is expected, such as 0.01")


@dataclass(frozen=True)
class Built:
    """What a build came to."""

    manifest: Manifest
    num_shards_before: int
    """How many of its shards were there already."""
    held_out: Manifest | None = None
    """Of the documents that were held out, if any were to be."""


def build_corpus(
    sources: Sources,
    tokenizer: Tokenizer,
    out: Path,
    settings: BuildSettings,
    *,
    may_replace: bool = False,
    on_read: OnRead | None = None,
) -> Built:
    """Build the corpus folder ``out``, or what of it is not yet built.

    Args:
        may_replace: whether another corpus at ``out``, and another build that was not finished, may go.
    """
    _check_words(tokenizer, settings)
    plan = _plan(sources, tokenizer, settings)
    found = _check_out(out, plan, may_replace)
    if found is not None:
        return Built(found, len(found.shards), Manifest.load(out / HELD_OUT) if settings.held_out else None)
    with _work_folder(out) as folder, _space_told(out, folder):
        sides = [_start(folder, plan, tokenizer, may_replace)]
        if settings.held_out:
            held_out_plan = replace(plan, is_held_out=True)
            sides.append(_start(folder / HELD_OUT, held_out_plan, tokenizer, may_replace))
        num_shards_before = len(sides[0].writer.shards)
        manifests = _write_shards(sides, sources, settings, on_read)
        for side, manifest in zip(sides, manifests, strict=True):
            manifest.save(side.folder)
            sync_folder(side.folder)
        _publish(folder, out)
    return Built(manifests[0], num_shards_before, *manifests[1:])


@dataclass(frozen=True)
class _Progress:
    """How far a build is."""

    plan: Manifest
    """The manifest without what is not known yet."""
    shards: tuple[ShardInfo, ...] = ()
    next_document: int = 0
    """The first document that is not in the shards."""

    def save(self, folder: Path) -> None:
        plan = replace(self.plan, shards=self.shards).to_json()
        write_json(folder / _PROGRESS, {"next_document": self.next_document, "plan": plan})

    @staticmethod
    def load(folder: Path) -> "_Progress | None":
        try:
            content: dict[str, Any] = json.loads((folder / _PROGRESS).read_bytes())
            plan = Manifest.from_json(content["plan"])
            return _Progress(replace(plan, shards=()), plan.shards, content["next_document"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # killed before the first save, or by another version of this program


class _Side:
    """One of the corpora that a build writes: what is trained on, or what is held out."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, progress: _Progress) -> None:
        self.folder = folder
        self.plan, self.first_document = progress.plan, progress.next_document
        self.writer = CorpusWriter(folder, tokenizer.vocabulary, self.plan.shard_tokens, progress.shards)

    def chosen(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return the parts that belong here and are not yet written."""
        numbers = np.array([part.number for part in parts], dtype=np.int64)
        is_held_out = uniform(_HELD_OUT_SEED, Draw.HELD_OUT, numbers) < self.plan.held_out_share
        belongs = (is_held_out == self.plan.is_held_out) & (numbers >= self.first_document)
        return tuple(part for part, is_here in zip(parts, belongs.tolist(), strict=True) if is_here)

    def add(self, encoded: Encoded) -> None:
        """Write documents; after each shard, note how far this is."""
        for num_documents in self.writer.add(encoded.tokens):
            next_document = int(encoded.document_numbers[num_documents - 1]) + 1
            _Progress(self.plan, tuple(self.writer.shards), next_document).save(self.folder)


@dataclass(frozen=True)
class _SideEncoder:
    """Encodes a block and remembers for which side it is."""

    encoder: BlockEncoder

    def __call__(self, work: tuple[int, tuple[Part, ...]]) -> tuple[int, Encoded]:
        side, parts = work
        return side, self.encoder(parts)


def _write_shards(
    sides: Sequence[_Side], sources: Sources, settings: BuildSettings, on_read: OnRead | None
) -> list[Manifest]:
    """Write the shards that are missing and return the manifest of each side."""
    duplicates = DuplicateFilter() if settings.drop_duplicates else None
    blocks = _blocks(sources, duplicates, sides, on_read)
    encoder = _SideEncoder(BlockEncoder(sides[0].folder, settings.segmenter))
    try:
        encoded_blocks = map_in_order(
            encoder, blocks, settings.processes, max_under_way=2 * settings.processes
        )
        for index, encoded in encoded_blocks:
            sides[index].add(encoded)
        for side in sides:
            side.writer.finish_shard()
    except BaseException:
        for side in sides:
            side.writer.remove_unfinished()
        raise
    _check_not_empty(sides, sources)
    dropped = duplicates.num_dropped if duplicates else None
    return [
        replace(side.plan, shards=tuple(side.writer.shards), num_duplicate_lines_dropped=dropped)
        for side in sides
    ]


def _blocks(
    sources: Sources, duplicates: DuplicateFilter | None, sides: Sequence[_Side], on_read: OnRead | None
) -> Iterator[tuple[int, tuple[Part, ...]]]:
    """Yield what is not yet written, for each side; all is read, for duplicates of what is written count."""
    for block in read_blocks(sources.texts, on_read):
        parts = duplicates(block) if duplicates else block
        for index, side in enumerate(sides):
            if chosen := side.chosen(parts):
                yield index, chosen


def _check_not_empty(sides: Sequence[_Side], sources: Sources) -> None:
    """Refuse a corpus without a token."""
    empty = [side.plan for side in sides if not side.writer.shards]
    if len(empty) == len(sides):
        names = ", ".join(str(text.path) for text in sources.texts)
        raise DataError(f"{names}: no token in it; is it text?")
    for plan in empty:
        what = "of all documents is none" if plan.is_held_out else "is every document"
        raise DataError(
            f"held_out={plan.held_out_share} {what}: there are too few of them; change the share, or build "
            "another corpus from other files"
        )


def _plan(sources: Sources, tokenizer: Tokenizer, settings: BuildSettings) -> Manifest:
    return Manifest(
        vocab_sha256=tokenizer.vocabulary.sha256,
        vocab_size=len(tokenizer.vocabulary),
        tokenizer=tokenizer_rules(tokenizer),
        dtype=ids_dtype(len(tokenizer.vocabulary)).str,
        segmenter=_segmenter_identity(settings.segmenter),
        shard_tokens=settings.shard_tokens,
        held_out_share=settings.held_out,
        num_duplicate_lines_dropped=0 if settings.drop_duplicates else None,
        sources=tuple(
            Source(text.path.name, text.path.stat().st_size, sha256_of(text.path), text.form)
            for text in sources.texts
        ),
        shards=(),
    )


def _segmenter_identity(name: str | None) -> str | None:
    """Return what decides where Chinese words begin: a package and its version, or the bytes of a list."""
    if name is None:
        return None
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return f"{Path(name).name} sha256 {sha256_of(Path(name))}"


def _check_words(tokenizer: Tokenizer, settings: BuildSettings) -> None:
    """Refuse a segmenter that is missing or does not fit, before any process meets it."""
    if settings.segmenter is not None:
        DocumentEncoder(tokenizer, segmenter(settings.segmenter))


def _check_out(out: Path, plan: Manifest, may_replace: bool) -> Manifest | None:
    """Return the manifest of ``out`` when it is what the plan would give; refuse what must not go."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    if not out.exists() or not any(out.iterdir()):
        return None
    if not (out / MANIFEST).exists():
        raise UserError(f"{out} holds files that are no corpus; name another folder")
    if may_replace:
        return None
    found = Manifest.load(out)
    difference = _difference(found, plan)
    if difference is None:
        return found
    raise UserError(
        f"{out} holds another corpus ({difference}); name another folder, or add --force to replace it"
    )


def _difference(found: Manifest, plan: Manifest) -> str | None:
    """Return in which point a corpus is not what the plan would give."""
    names = {
        "vocab_sha256": "another vocabulary",
        "tokenizer": "other rules of the tokenizer",
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


def _start(folder: Path, plan: Manifest, tokenizer: Tokenizer, may_replace: bool) -> _Side:
    """Go on with a build in ``folder`` that does the same, and sweep what it did not finish."""
    folder.mkdir(exist_ok=True)
    progress = _Progress.load(folder)
    if progress is not None:
        difference = _difference(progress.plan, plan)
        if difference is not None and progress.shards and not may_replace:
            raise UserError(
                f"{folder} holds a build that was not finished, with {difference}; go on with what it was "
                "begun with, or add --force to begin anew"
            )
        if difference is not None:
            progress = None
    progress = progress or _Progress(plan)
    kept = {_PROGRESS, *(shard.name for shard in progress.shards)}
    if plan.held_out_share and not plan.is_held_out:
        kept.add(HELD_OUT)
    for path in folder.iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path)
        elif not kept & {path.name, path.stem}:
            path.unlink()
    tokenizer.save(folder)
    progress.save(folder)
    return _Side(folder, tokenizer, progress)


@contextmanager
def _work_folder(out: Path) -> Iterator[Path]:
    """Give the folder in which ``out`` is built; when nothing was finished in it, it leaves no trace."""
    out.parent.mkdir(parents=True, exist_ok=True)
    folder = out.with_name(f".{out.name}.building")
    folder.mkdir(exist_ok=True)
    with locked(folder, "another build"):
        try:
            yield folder
        except BaseException:
            if not _num_finished(folder):
                shutil.rmtree(folder, ignore_errors=True)
            raise


@contextmanager
def _space_told(out: Path, folder: Path) -> Iterator[None]:
    """Tell what to do when the disk is full."""
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        raise RunFailed(
            f"{out}: no space left on its disk; {_num_finished(folder)} finished shards are kept: free some "
            "space and run the same command again to go on"
        ) from None


def _num_finished(folder: Path) -> int:
    found = (_Progress.load(folder), _Progress.load(folder / HELD_OUT))
    return sum(len(progress.shards) for progress in found if progress)


def _publish(folder: Path, out: Path) -> None:
    """Give the finished folder its name; what stood there goes only after that."""
    old = out.with_name(f".{out.name}.{secrets.token_hex(4)}.old")
    if out.exists():
        os.replace(out, old)
    os.replace(folder, out)
    for finished in (out, out / HELD_OUT):
        (finished / _PROGRESS).unlink(missing_ok=True)
    sync_folder(out.parent)
    with suppress(FileNotFoundError):
        shutil.rmtree(old)

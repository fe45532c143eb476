"""Text files to a corpus folder: streamed, on any number of processes, with the same bytes each time.

The shards are written into a folder beside the one asked for, which takes its name when it is complete. After
each shard the folder records its progress, so that an interrupted build resumes there.

Documents that are held out make a corpus of their own in a folder within. Which ones they are depends on
their numbers alone.
"""

import importlib.metadata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np

from glassbert.arguments import checked
from glassbert.data.corpus.duplicates import DuplicateFilter
from glassbert.data.corpus.encode import BlockEncoder, DocumentEncoder, Encoded
from glassbert.data.corpus.manifest import HELD_OUT, Manifest, Source
from glassbert.data.corpus.resume import (
    Progress,
    disk_full_explained,
    find_built,
    publish,
    resume,
    work_folder,
)
from glassbert.data.corpus.shards import DEFAULT_SHARD_TOKENS, CorpusWriter, ids_dtype
from glassbert.data.random import Draw, uniform
from glassbert.errors import DataError
from glassbert.messages import Log, to_stderr
from glassbert.model_names import model_folder
from glassbert.open_files import real_path
from glassbert.outputs import check_folder
from glassbert.ranges import PROCESSES, Count, ShareBelowOne
from glassbert.storage import sha256_of, sync_folder
from glassbert.text.documents import FORMS, Form, Part, TextSource
from glassbert.text.segment import segmenter as find_segmenter
from glassbert.text.sources import OnRead, find_sources, read_blocks
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.workers import map_in_order
from glassbert.typed import check_fields

# Decides which documents are held out: the same for every corpus, so that one more file moves no document.
_HELD_OUT_SEED = 0


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """Settings of a build."""

    segmenter: str | None = None
    """What finds Chinese words: a name, or the path of a word list."""
    shard_tokens: Count = DEFAULT_SHARD_TOKENS
    """A shard ends with the first document that brings it to this size."""
    drop_duplicates: bool = False
    """Whether repeated lines are left out."""
    held_out: ShareBelowOne = 0.0
    """The share of documents that go into a corpus of their own."""
    processes: Annotated[int, PROCESSES] = 1

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    manifest: Manifest
    num_shards_before: int
    """How many of its shards existed already."""
    held_out: Manifest | None = None
    """Of the documents that were held out, if asked for."""


@checked
def build_corpus(
    files: str | Path | Sequence[str | Path],
    *,
    tokenizer: Tokenizer | str | Path,
    out: str | Path,
    form: Form | None = None,
    segmenter: str | Path | None = None,
    shard_tokens: int = DEFAULT_SHARD_TOKENS,
    drop_duplicates: bool = False,
    held_out: float = 0.0,
    processes: int = 1,
    overwrite: bool = False,
    log: Log = to_stderr,
    on_read: OnRead | None = None,
) -> Built:
    """Build the corpus folder ``out``, or what it lacks: resumes an interrupted build.

    Args:
        files: Text files, plain or packed, or folders of them.
        tokenizer: A tokenizer, or a folder with one.
        form: sentences, paragraphs, documents, jsonl or wikitext; detected if not given.
        segmenter: What finds Chinese words: rjieba, jieba, or the path of a word list.
        shard_tokens: A shard ends with the first document that brings it to this size.
        drop_duplicates: Whether repeated lines are left out.
        held_out: The share of documents that go into a corpus of their own, in ``out``/held-out.
        processes: Any number gives the same bytes. With two or more, a script needs
            `if __name__ == "__main__"`.
        overwrite: Whether another corpus at ``out``, finished or not, may be replaced.
        log: Receives lines for the user.
    """
    settings = BuildSettings(
        segmenter=None if segmenter is None else str(segmenter),
        shard_tokens=shard_tokens,
        drop_duplicates=drop_duplicates,
        held_out=held_out,
        processes=processes,
    )
    reads = [files] if isinstance(files, str | Path) else [*files]
    named = [model_folder(tokenizer)] if not isinstance(tokenizer, Tokenizer) else []
    check_folder(out, [*reads, *named, *([] if segmenter is None else [segmenter])])
    if not isinstance(tokenizer, Tokenizer):
        tokenizer = Tokenizer.load(model_folder(tokenizer))
        for assumption in tokenizer.assumptions:
            log(f"assumed: {assumption}")
    sources = find_sources(files, form)
    sources.describe(() if form else FORMS, log)
    out = Path(out)
    out = real_path(out) if out.is_symlink() else out  # a link stays a link; its target is replaced
    return _build(sources.texts, tokenizer, out, settings, overwrite, log, on_read)


def _build(
    texts: Sequence[TextSource],
    tokenizer: Tokenizer,
    out: Path,
    settings: BuildSettings,
    overwrite: bool,
    log: Log,
    on_read: OnRead | None,
) -> Built:
    _check_segmenter(tokenizer, settings)
    plan = _plan(texts, tokenizer, settings)
    found = find_built(out, plan, overwrite=overwrite)
    if found is not None:
        return Built(found, len(found.shards), Manifest.load(out / HELD_OUT) if settings.held_out else None)
    with work_folder(out) as folder, disk_full_explained(out, folder):
        sides = [_start(folder, plan, tokenizer, overwrite)]
        if settings.held_out:
            held_out_plan = replace(plan, is_held_out=True)
            sides.append(_start(folder / HELD_OUT, held_out_plan, tokenizer, overwrite))
        num_shards_before = len(sides[0].writer.shards)
        duplicates = DuplicateFilter() if settings.drop_duplicates else None
        blocks = _blocks(read_blocks(texts, log=log, on_read=on_read), duplicates, sides)
        _write_shards(sides, blocks, settings)
        _check_not_empty(sides, texts)
        manifests = [side.manifest(duplicates) for side in sides]
        for side, manifest in zip(sides, manifests, strict=True):
            manifest.save(side.folder)
            sync_folder(side.folder)
        publish(folder, out)
    return Built(manifests[0], num_shards_before, *manifests[1:])


def _start(folder: Path, plan: Manifest, tokenizer: Tokenizer, overwrite: bool) -> "_Side":
    progress = resume(folder, plan, overwrite=overwrite)
    tokenizer.save(folder, overwrite=True)  # exists if the build is resumed
    progress.save(folder)
    return _Side(folder, tokenizer, progress)


class _Side:
    """One of the two corpora that a build writes: the training one, or the one that is held out."""

    def __init__(self, folder: Path, tokenizer: Tokenizer, progress: Progress) -> None:
        self.folder = folder
        self.plan, self.first_document = progress.plan, progress.next_document
        self.writer = CorpusWriter(folder, tokenizer.vocabulary, self.plan.shard_tokens, progress.shards)

    def chosen(self, parts: Sequence[Part]) -> tuple[Part, ...]:
        """Return the parts that belong here and are not yet written."""
        numbers = np.array([part.number for part in parts], dtype=np.int64)
        is_held_out = uniform(_HELD_OUT_SEED, Draw.HELD_OUT, numbers) < self.plan.held_out_share
        belongs = (is_held_out == self.plan.is_held_out) & (numbers >= self.first_document)
        return tuple(part for part, is_here in zip(parts, belongs.tolist(), strict=True) if is_here)

    def manifest(self, duplicates: DuplicateFilter | None) -> Manifest:
        """Return the manifest of what was written."""
        dropped = duplicates.num_dropped if duplicates else None
        return replace(self.plan, shards=tuple(self.writer.shards), num_duplicate_lines_dropped=dropped)

    def add(self, encoded: Encoded) -> None:
        """Write documents; after each shard, record the progress."""
        for num_documents in self.writer.add(encoded.tokens):
            next_document = int(encoded.document_numbers[num_documents - 1]) + 1
            Progress(self.plan, tuple(self.writer.shards), next_document).save(self.folder)


@dataclass(frozen=True)
class _SideEncoder:
    """Encodes a block and remembers which side it is for."""

    encoder: BlockEncoder

    def __call__(self, work: tuple[int, tuple[Part, ...]]) -> tuple[int, Encoded]:
        side, parts = work
        return side, self.encoder(parts)


def _write_shards(
    sides: Sequence[_Side], blocks: Iterator[tuple[int, tuple[Part, ...]]], settings: BuildSettings
) -> None:
    """Encode the blocks and write the shards that are missing."""
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


def _blocks(
    blocks: Iterator[tuple[Part, ...]], duplicates: DuplicateFilter | None, sides: Sequence[_Side]
) -> Iterator[tuple[int, tuple[Part, ...]]]:
    """Yield what is not yet written, for each side; duplicates of what is written count too."""
    for block in blocks:
        parts = duplicates(block) if duplicates else block
        for index, side in enumerate(sides):
            if chosen := side.chosen(parts):
                yield index, chosen


def _check_not_empty(sides: Sequence[_Side], texts: Sequence[TextSource]) -> None:
    """Refuse a corpus without a token."""
    empty = [side.plan for side in sides if not side.writer.shards]
    if len(empty) == len(sides):
        names = ", ".join(str(text.path) for text in texts)
        raise DataError(f"{names}: no token in it; is it text?")
    for plan in empty:
        what = "of all documents is none" if plan.is_held_out else "is every document"
        raise DataError(
            f"held_out={plan.held_out_share} {what}: there are too few of them; change the share, or build "
            "another corpus from other files"
        )


def _plan(texts: Sequence[TextSource], tokenizer: Tokenizer, settings: BuildSettings) -> Manifest:
    return Manifest(
        vocab_sha256=tokenizer.vocabulary.sha256,
        vocab_size=len(tokenizer.vocabulary),
        tokenizer=tokenizer.settings.rules,
        dtype=ids_dtype(len(tokenizer.vocabulary)).str,
        segmenter=_segmenter_identity(settings.segmenter),
        shard_tokens=settings.shard_tokens,
        held_out_share=settings.held_out,
        num_duplicate_lines_dropped=0 if settings.drop_duplicates else None,
        sources=tuple(
            Source(text.path.name, text.path.stat().st_size, sha256_of(text.path), text.form)
            for text in texts
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


def _check_segmenter(tokenizer: Tokenizer, settings: BuildSettings) -> None:
    """Refuse a segmenter that is missing or does not fit, before any process is started."""
    if settings.segmenter is not None:
        DocumentEncoder(tokenizer, find_segmenter(settings.segmenter))

"""Read a built corpus, whose shards `shards.py` wrote.

Ids are read on demand; a batch needs some hundred reads of a few microseconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.arguments import checked
from glassbert.data.corpus.manifest import MANIFEST, Manifest
from glassbert.data.corpus.shards import BITS_PER_BYTE, DOCUMENTS, IDS, OFFSET, SENTENCES, WORDS, ids_dtype
from glassbert.errors import DataError, ModelError
from glassbert.open_files import PartsFile, check_regular
from glassbert.storage import sha256_of
from glassbert.text.wordpiece.tokenizer import Tokenizer

# A system allows some hundred open files; a corpus may have more.
_MAX_OPEN_FILES = 128


@dataclass(frozen=True)
class Corpus:
    """A built corpus. Offsets are global: they run through all shards."""

    folder: Path
    manifest: Manifest

    @classmethod
    @checked
    def open(cls, folder: str | Path, *, verify: bool = False) -> Self:
        """Check the files of a corpus folder.

        Args:
            verify: read every byte and compare it with the manifest, instead of the sizes only.
        """
        folder = Path(folder)
        manifest = Manifest.load(folder)
        _check_shards(folder, manifest, verify)
        return cls(folder, manifest)

    @property
    def vocab_sha256(self) -> str:
        return self.manifest.vocab_sha256

    @property
    def vocab_size(self) -> int:
        return self.manifest.vocab_size

    @property
    def num_documents(self) -> int:
        return self.manifest.num_documents

    @property
    def num_sentences(self) -> int:
        return self.manifest.num_sentences

    @property
    def num_tokens(self) -> int:
        return self.manifest.num_tokens

    @cached_property
    def sentence_ends(self) -> NDArray[np.int64]:
        """Where each sentence ends, in tokens; (num_sentences,)."""
        return self._ends(SENTENCES, [(s.num_sentences, s.num_tokens) for s in self.manifest.shards])

    @cached_property
    def document_ends(self) -> NDArray[np.int64]:
        """Where each document ends, in sentences; (num_documents,)."""
        return self._ends(DOCUMENTS, [(s.num_documents, s.num_sentences) for s in self.manifest.shards])

    @cached_property
    def source_ends(self) -> NDArray[np.int64] | None:
        """Where the documents of each source end, in documents, (sources,); None if it was not recorded."""
        found = [shard.documents_of_sources for shard in self.manifest.shards]
        recorded = [counts for counts in found if counts is not None]
        if len(recorded) < len(found):
            return None
        sources = range(len(self.manifest.sources))
        sizes = [sum(counts.get(str(source), 0) for counts in recorded) for source in sources]
        return np.cumsum(sizes, dtype=np.int64) if sum(sizes) == self.num_documents else None

    @property
    def source_names(self) -> tuple[str, ...]:
        """A name for each source, such as `enwiki` for enwiki.jsonl.gz; no two are the same."""
        names = [source.name for source in self.manifest.sources]
        short = [name.partition(".")[0] or name for name in names]
        if len(set(short)) == len(short):
            return tuple(short)
        return tuple(f"{name}#{index}" for index, name in enumerate(names))

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids from ``start`` to ``stop``, which must lie in one document; read-only."""
        shard, first = self._locate(start, stop)
        size = self._dtype.itemsize
        data = self._file(shard, IDS).read(first * size, (stop - start) * size)
        ids = np.frombuffer(data, self._dtype)
        if len(ids) and ids.max() >= self.manifest.vocab_size:
            raise DataError(
                f"{self._path(shard, IDS)}: damaged, id {ids.max()} is beyond the "
                f"{self.manifest.vocab_size:,} pieces of the vocabulary; build the corpus again"
            )
        return ids

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return for each of the ids of `tokens` whether a word begins there."""
        shard, first = self._locate(start, stop)
        first_byte, skipped = divmod(first, BITS_PER_BYTE)
        last_byte = -(-(first + stop - start) // BITS_PER_BYTE)
        data = self._file(shard, WORDS).read(first_byte, last_byte - first_byte)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[skipped : skipped + stop - start].astype(np.bool_)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that the ids were made with."""
        return Tokenizer.load(self.folder)

    def check_fits(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer whose ids mean something other than those of the corpus."""
        manifest, vocabulary = self.manifest, tokenizer.vocabulary
        if vocabulary.sha256 != manifest.vocab_sha256:
            raise ModelError(
                f"{self.folder}: built with another vocabulary ({manifest.vocab_size:,} pieces, sha256 "
                f"{manifest.vocab_sha256[:12]}) than the one given ({len(vocabulary):,} pieces, sha256 "
                f"{vocabulary.sha256[:12]}); use the tokenizer in the corpus folder, or build it again"
            )
        for name, value in tokenizer.settings.rules.items():
            if manifest.tokenizer.get(name) != value:
                raise ModelError(
                    f"{self.folder}: built with {name}={manifest.tokenizer.get(name)}, the tokenizer given "
                    f"has {name}={value}; use the tokenizer in the corpus folder, or build it again"
                )

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.manifest.dtype)

    @cached_property
    def _offsets(self) -> NDArray[np.int64]:
        """The first token of each shard."""
        sizes = [shard.num_tokens for shard in self.manifest.shards]
        return np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)

    def _locate(self, start: int, stop: int) -> tuple[int, int]:
        """Return the shard of a run of tokens, and where in it the run starts."""
        assert 0 <= start <= stop <= self.num_tokens, f"tokens {start} to {stop} of {self.num_tokens}"
        index = int(np.searchsorted(self._offsets, start, side="right")) - 1
        first = start - int(self._offsets[index])
        is_within = first + stop - start <= self.manifest.shards[index].num_tokens
        assert is_within, f"tokens {start} to {stop} cross a shard"
        return index, first

    @cached_property
    def _file(self) -> Callable[[int, str], PartsFile]:
        """Returns an open file, by its shard and part."""
        return lru_cache(maxsize=_MAX_OPEN_FILES)(
            lambda shard, part: PartsFile(self._path(shard, part), error=DataError)
        )

    def _path(self, shard: int, part: str) -> Path:
        return self.folder / f"{self.manifest.shards[shard].name}.{part}"

    def _ends(self, part: str, sizes: list[tuple[int, int]]) -> NDArray[np.int64]:
        """Return where sentences or documents end, of all shards as one run.

        Args:
            sizes: For each shard, how many there are, and where the last one ends.
        """
        joined = np.empty(sum(count for count, _ in sizes), dtype=np.int64)
        start = offset = 0
        for shard, (count, last) in enumerate(sizes):
            ends = joined[start : start + count]
            data = self._file(shard, part).read(0, count * OFFSET.itemsize)
            ends[:] = np.frombuffer(data, OFFSET).view(np.int64)
            if (np.diff(ends, prepend=0) <= 0).any() or (count and ends[-1] != last):
                raise DataError(
                    f"{self._path(shard, part)}: damaged, its numbers do not rise to the {last:,} "
                    f"in {MANIFEST}; build the corpus again"
                )
            ends += offset
            start, offset = start + count, offset + last
        return joined


def _check_shards(folder: Path, manifest: Manifest, verify: bool) -> None:
    """Refuse files that are missing or do not have the size that the manifest says."""
    dtype = ids_dtype(manifest.vocab_size)
    if manifest.dtype != dtype.str:
        raise DataError(
            f"{folder / MANIFEST}: dtype={manifest.dtype[:40]!r}, but {manifest.vocab_size:,} pieces need "
            f"{dtype.str!r}; build the corpus again"
        )
    for info in manifest.shards:
        if Path(info.name).name != info.name:
            raise DataError(f"{folder / MANIFEST}: shard {info.name[:40]!r} is not a plain file name")
        sizes = {
            IDS: dtype.itemsize * info.num_tokens,
            WORDS: -(-info.num_tokens // BITS_PER_BYTE),
            SENTENCES: OFFSET.itemsize * info.num_sentences,
            DOCUMENTS: OFFSET.itemsize * info.num_documents,
        }
        for part, num_bytes in sizes.items():
            sha256 = info.sha256.get(part, "") if verify else None
            _check_file(folder / f"{info.name}.{part}", num_bytes, sha256)


def _check_file(path: Path, num_bytes: int, sha256: str | None) -> None:
    try:
        check_regular(path, error=DataError)
        found = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path}: missing, but {MANIFEST} names it; build the corpus again") from None
    if found != num_bytes:
        raise DataError(f"{path}: {found} bytes, but {MANIFEST} says {num_bytes}; build the corpus again")
    if sha256 is not None and sha256_of(path) != sha256:
        raise DataError(f"{path}: damaged, its sha256 is not the one in {MANIFEST}; build the corpus again")

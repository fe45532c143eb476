"""Read a built corpus: its shards mapped into memory, as `shards.py` wrote them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.manifest import MANIFEST, Manifest
from glassbert.data.corpus.shards import BITS_PER_BYTE, DOCUMENTS, IDS, OFFSET, SENTENCES, WORDS
from glassbert.errors import DataError, ModelError
from glassbert.storage import sha256_of
from glassbert.text.wordpiece.tokenizer import Tokenizer


@dataclass(frozen=True)
class _Shard:
    """The mapped files of one shard."""

    ids: NDArray[Any]
    words: NDArray[np.uint8]
    sentence_ends: NDArray[np.uint64]
    document_ends: NDArray[np.uint64]


@dataclass(frozen=True)
class Corpus:
    """A built corpus, read through memory maps. Offsets are global: they run through all shards."""

    folder: Path
    manifest: Manifest
    _shards: tuple[_Shard, ...] = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path, *, verify: bool = False) -> Self:
        """Map the files of a corpus folder.

        Args:
            verify: read every byte and compare it with the manifest, instead of the sizes only.
        """
        folder = Path(folder)
        manifest = Manifest.load(folder)
        return cls(folder, manifest, tuple(_open_shards(folder, manifest, verify)))

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
        return _joined([shard.sentence_ends for shard in self._shards])

    @cached_property
    def document_ends(self) -> NDArray[np.int64]:
        """Where each document ends, in sentences; (num_documents,)."""
        return _joined([shard.document_ends for shard in self._shards])

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
        """Return the ids from ``start`` to ``stop``, which must lie in one document; not a copy."""
        shard, offset = self._locate(start, stop)
        return shard.ids[start - offset : stop - offset]

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return for each of the ids of `tokens` whether a word begins there."""
        shard, offset = self._locate(start, stop)
        first = start - offset
        first_byte, skipped = divmod(first, BITS_PER_BYTE)
        last_byte = -(-(stop - offset) // BITS_PER_BYTE)
        bits = np.unpackbits(shard.words[first_byte:last_byte], bitorder="little")
        return bits[skipped : skipped + stop - start].astype(np.bool_)

    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer that the ids were made with."""
        return Tokenizer.load(self.folder)

    def check_fits(self, tokenizer: Tokenizer) -> None:
        """Refuse a tokenizer whose ids mean something else than those of the corpus."""
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
    def _offsets(self) -> NDArray[np.int64]:
        """The first token of each shard."""
        sizes = [shard.num_tokens for shard in self.manifest.shards]
        return np.concatenate(([0], np.cumsum(sizes)[:-1])).astype(np.int64)

    def _locate(self, start: int, stop: int) -> tuple[_Shard, int]:
        assert 0 <= start <= stop <= self.num_tokens, f"tokens {start} to {stop} of {self.num_tokens}"
        index = int(np.searchsorted(self._offsets, start, side="right")) - 1
        offset = int(self._offsets[index])
        assert stop - offset <= len(self._shards[index].ids), f"tokens {start} to {stop} cross a shard"
        return self._shards[index], offset


def _open_shards(folder: Path, manifest: Manifest, verify: bool) -> Iterator[_Shard]:
    for info in manifest.shards:
        parts = {
            IDS: (np.dtype(manifest.dtype), info.num_tokens),
            WORDS: (np.dtype(np.uint8), -(-info.num_tokens // BITS_PER_BYTE)),
            SENTENCES: (OFFSET, info.num_sentences),
            DOCUMENTS: (OFFSET, info.num_documents),
        }
        maps = []
        for part, (dtype, length) in parts.items():
            path = folder / f"{info.name}.{part}"
            _check_file(path, dtype.itemsize * length, info.sha256[part] if verify else None)
            maps.append(np.memmap(path, dtype=dtype, mode="r"))
        yield _Shard(*maps)


def _check_file(path: Path, num_bytes: int, sha256: str | None) -> None:
    try:
        found = path.stat().st_size
    except FileNotFoundError:
        raise DataError(f"{path}: missing, but {MANIFEST} names it; build the corpus again") from None
    if found != num_bytes:
        raise DataError(f"{path}: {found} bytes, but {MANIFEST} says {num_bytes}; build the corpus again")
    if sha256 is not None and sha256_of(path) != sha256:
        raise DataError(f"{path}: damaged, its sha256 is not the one in {MANIFEST}; build the corpus again")


def _joined(ends: list[NDArray[np.uint64]]) -> NDArray[np.int64]:
    """Return the ends of all shards as one run; a single shard is used where it lies."""
    if len(ends) == 1:
        return ends[0].view(np.int64)  # the file is little-endian; no end reaches the sign bit
    joined = np.empty(sum(map(len, ends)), dtype=np.int64)
    start = offset = 0
    for part in ends:
        joined[start : start + len(part)] = part
        joined[start : start + len(part)] += offset
        start, offset = start + len(part), offset + int(part[-1])
    return joined

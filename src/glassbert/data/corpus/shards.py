"""A corpus on disk: token ids in shards that are mapped into memory, and a manifest that vouches for them.

For each shard, over the same tokens and in little-endian order:

    shard-00000.ids        uint16 or uint32, by the size of the vocabulary; no special tokens
    shard-00000.words      one bit a token, lowest bit first: whether a word begins there
    shard-00000.sentences  uint64: where each sentence ends, in tokens of the shard
    shard-00000.documents  uint64: where each document ends, in sentences of the shard

A document never crosses a shard. The folder also holds the tokenizer's files, so that it explains itself.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.manifest import MANIFEST, Manifest, ShardInfo
from glassbert.errors import DataError, ModelError
from glassbert.storage import sha256_of
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

IDS, WORDS, SENTENCES, DOCUMENTS = PARTS = ("ids", "words", "sentences", "documents")
DEFAULT_SHARD_TOKENS = 1 << 24

_OFFSET = np.dtype("<u8")
_BITS_PER_BYTE = 8


def ids_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


@dataclass(frozen=True)
class Tokens:
    """Some sentences in a row, of one or of several documents."""

    ids: NDArray[Any]
    """The ids of all sentences, one after the other; none is special."""
    word_starts: NDArray[np.bool_]
    """For each id whether a word begins there."""
    sentence_lengths: NDArray[np.int64]
    """In tokens; none is 0."""
    document_sizes: NDArray[np.int64]
    """In sentences of this run. What they leave over belongs to a document that goes on in the next run."""
    sentence_bytes: NDArray[np.int64]
    """How long the text of each sentence is in UTF-8."""

    @classmethod
    def of_documents(cls, documents: Sequence[Sequence[Sequence[int]]], vocabulary: Vocabulary) -> Self:
        """Return the run of whole documents, given as the ids of their sentences; words begin without ##."""
        sentences = [sentence for document in documents for sentence in document]
        ids = np.array([id_ for sentence in sentences for id_ in sentence], dtype=np.int64)
        return cls(
            ids=ids,
            word_starts=starts_word(vocabulary)[ids],
            sentence_lengths=np.array([len(sentence) for sentence in sentences], dtype=np.int64),
            document_sizes=np.array([len(document) for document in documents], dtype=np.int64),
            sentence_bytes=np.zeros(len(sentences), dtype=np.int64),
        )

    def documents(self, first: int, last: int | None) -> "Tokens":
        """Return the documents from ``first`` to before ``last``; None takes what is left over too."""
        sentence_ends = np.concatenate(([0], np.cumsum(self.document_sizes)))
        token_ends = np.concatenate(([0], np.cumsum(self.sentence_lengths)))
        start = int(sentence_ends[first])
        stop = len(self.sentence_lengths) if last is None else int(sentence_ends[last])
        tokens = slice(int(token_ends[start]), int(token_ends[stop]))
        return Tokens(
            ids=self.ids[tokens],
            word_starts=self.word_starts[tokens],
            sentence_lengths=self.sentence_lengths[start:stop],
            document_sizes=self.document_sizes[first:last],
            sentence_bytes=self.sentence_bytes[start:stop],
        )


def starts_word(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return for each id whether its piece begins a word: whether it has no ##."""
    return np.array([not piece.startswith("##") for piece in vocabulary.pieces], dtype=np.bool_)


class CorpusWriter:
    """Write documents into as many shards as they need."""

    def __init__(
        self, folder: Path, vocabulary: Vocabulary, shard_tokens: int, finished: Sequence[ShardInfo] = ()
    ) -> None:
        """Go on after the ``finished`` shards.

        Args:
            shard_tokens: a shard ends with the first document that brings it to this size.
        """
        self.shards = list(finished)
        self._folder = folder
        self._vocabulary = vocabulary
        self._shard_tokens = shard_tokens
        self._shard: ShardWriter | None = None

    def add(self, tokens: Tokens) -> Iterator[int]:
        """Write ``tokens``; yield, whenever a shard is finished, how many of their documents it took."""
        token_ends = np.concatenate(([0], np.cumsum(tokens.sentence_lengths)))
        ends = token_ends[np.cumsum(tokens.document_sizes)]  # of each document, in tokens
        first = start = 0
        while True:
            room = self._shard_tokens - (self._shard.num_tokens if self._shard else 0)
            last = int(np.searchsorted(ends, start + room)) + 1
            if last > len(ends):
                break
            self._append(tokens.documents(first, last))
            self.finish_shard()
            yield last
            first, start = last, int(ends[last - 1])
        self._append(tokens.documents(first, None))

    def finish_shard(self) -> None:
        """End the shard that is being written, if there is one."""
        if self._shard is not None:
            self.shards.append(self._shard.finish())
            self._shard = None

    def remove_unfinished(self) -> None:
        """Give up the shard that is being written, if there is one."""
        if self._shard is not None:
            self._shard.remove()

    def _append(self, tokens: Tokens) -> None:
        if self._shard is None:
            if not len(tokens.sentence_lengths):
                return
            self._shard = ShardWriter(self._folder, f"shard-{len(self.shards):05d}", self._vocabulary)
        self._shard.append(tokens)


class ShardWriter:
    """Write one shard as its sentences come, so that memory does not grow with it."""

    def __init__(self, folder: Path, name: str, vocabulary: Vocabulary) -> None:
        self.num_tokens = self.num_sentences = self.num_documents = self.num_bytes = self.num_unknown = 0
        self._name = name
        self._dtype = ids_dtype(len(vocabulary))
        self._unk_id = vocabulary.unk_id
        self._parts = {part: _HashedFile(folder / f"{name}.{part}") for part in PARTS}
        self._spare_bits: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._last_document_end = 0

    def append(self, tokens: Tokens) -> None:
        """Add sentences to the end of the shard."""
        ids, lengths = tokens.ids, tokens.sentence_lengths
        assert int(lengths.sum()) == len(ids) == len(tokens.word_starts), "lengths do not add up"
        assert not len(lengths) or lengths.min() > 0, "a sentence without a token"
        self._parts[IDS].write(ids.astype(self._dtype))
        bits = np.concatenate((self._spare_bits, tokens.word_starts))
        num_whole = len(bits) - len(bits) % _BITS_PER_BYTE
        self._parts[WORDS].write(np.packbits(bits[:num_whole], bitorder="little"))
        self._spare_bits = bits[num_whole:]
        self._parts[SENTENCES].write((self.num_tokens + np.cumsum(lengths)).astype(_OFFSET))
        document_ends = self.num_sentences + np.cumsum(tokens.document_sizes)
        # A document whose text has no token leaves no trace.
        is_new = np.diff(document_ends, prepend=self._last_document_end) > 0
        self._parts[DOCUMENTS].write(document_ends[is_new].astype(_OFFSET))
        self.num_tokens += len(ids)
        self.num_sentences += len(lengths)
        self.num_documents += int(np.count_nonzero(is_new))
        self.num_bytes += int(tokens.sentence_bytes.sum())
        self.num_unknown += int(np.count_nonzero(ids == self._unk_id))
        if len(document_ends):
            self._last_document_end = int(document_ends[-1])

    def finish(self) -> ShardInfo:
        """Make the files durable and return what the manifest says about them."""
        assert self._last_document_end == self.num_sentences, "the last document has no end"
        self._parts[WORDS].write(np.packbits(self._spare_bits, bitorder="little"))
        return ShardInfo(
            name=self._name,
            num_tokens=self.num_tokens,
            num_sentences=self.num_sentences,
            num_documents=self.num_documents,
            num_bytes=self.num_bytes,
            num_unknown=self.num_unknown,
            sha256={part: file.finish() for part, file in self._parts.items()},
        )

    def remove(self) -> None:
        """Give the shard up and remove its files."""
        for file in self._parts.values():
            file.remove()


class _HashedFile:
    """A file that knows its sha256 when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("wb")
        self._hash = hashlib.sha256()

    def write(self, values: NDArray[Any]) -> None:
        data = values.tobytes()
        self._hash.update(data)
        self._file.write(data)

    def finish(self) -> str:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def remove(self) -> None:
        with suppress(OSError):  # what is still in the buffer may not fit on the disk
            self._file.close()
        self._path.unlink(missing_ok=True)


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
    def open(cls, folder: Path, *, verify: bool = False) -> Self:
        """Map the files of a corpus folder.

        Args:
            verify: read every byte and compare it with the manifest, instead of the sizes only.
        """
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

    def tokens(self, start: int, stop: int) -> NDArray[Any]:
        """Return the ids from ``start`` to ``stop``, which must lie in one document; not a copy."""
        shard, offset = self._locate(start, stop)
        return shard.ids[start - offset : stop - offset]

    def word_starts(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return for each of the ids of `tokens` whether a word begins there."""
        shard, offset = self._locate(start, stop)
        first = start - offset
        first_byte, skipped = divmod(first, _BITS_PER_BYTE)
        last_byte = -(-(stop - offset) // _BITS_PER_BYTE)
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
        for name, value in tokenizer_rules(tokenizer).items():
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


def tokenizer_rules(tokenizer: Tokenizer) -> Mapping[str, bool]:
    """Return the settings that decide, with the vocabulary, which ids a text has."""
    settings = tokenizer.settings
    strip_accents = settings.lowercase if settings.strip_accents is None else settings.strip_accents
    return {
        "lowercase": settings.lowercase,
        "strip_accents": strip_accents,
        "tokenize_chinese_chars": settings.tokenize_chinese_chars,
    }


def _open_shards(folder: Path, manifest: Manifest, verify: bool) -> Iterator[_Shard]:
    for info in manifest.shards:
        parts = {
            IDS: (np.dtype(manifest.dtype), info.num_tokens),
            WORDS: (np.dtype(np.uint8), -(-info.num_tokens // _BITS_PER_BYTE)),
            SENTENCES: (_OFFSET, info.num_sentences),
            DOCUMENTS: (_OFFSET, info.num_documents),
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

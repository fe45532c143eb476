"""Write the shards of a corpus; `reader.py` reads them.

For each shard, over the same tokens and in little-endian order:

    shard-00000.ids        uint16 or uint32, by the size of the vocabulary; no special tokens
    shard-00000.words      one bit per token, lowest bit first: whether a word begins there
    shard-00000.sentences  uint64: where each sentence ends, in tokens of the shard
    shard-00000.documents  uint64: where each document ends, in sentences of the shard

A document never crosses a shard. The folder also holds the tokenizer's files and a manifest.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.manifest import ShardInfo
from glassbert.text.vocabulary import Vocabulary

IDS, WORDS, SENTENCES, DOCUMENTS = PARTS = ("ids", "words", "sentences", "documents")
DEFAULT_SHARD_TOKENS = 1 << 24

OFFSET = np.dtype("<u8")
BITS_PER_BYTE = 8


def ids_dtype(vocab_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


@dataclass(frozen=True)
class Tokens:
    """A run of sentences, of one or several documents."""

    ids: NDArray[Any]
    """The ids of all sentences, one after the other; none is special."""
    word_starts: NDArray[np.bool_]
    """For each id whether a word begins there."""
    sentence_lengths: NDArray[np.int64]
    """In tokens; none is 0."""
    document_sizes: NDArray[np.int64]
    """In sentences. The sentences after the last document belong to one that continues in the next run."""
    document_sources: NDArray[np.int64]
    """Which file each of the documents is from, ascending."""
    sentence_bytes: NDArray[np.int64]
    """How long the text of each sentence is in UTF-8."""

    @classmethod
    def of_documents(cls, documents: Sequence[Sequence[Sequence[int]]], vocabulary: Vocabulary) -> Self:
        """Return whole documents, given as the ids of their sentences; a piece without ## begins a word."""
        sentences = [sentence for document in documents for sentence in document]
        ids = np.array([id_ for sentence in sentences for id_ in sentence], dtype=np.int64)
        return cls(
            ids=ids,
            word_starts=vocabulary.starts_word[ids],
            sentence_lengths=np.array([len(sentence) for sentence in sentences], dtype=np.int64),
            document_sizes=np.array([len(document) for document in documents], dtype=np.int64),
            document_sources=np.zeros(len(documents), dtype=np.int64),
            sentence_bytes=np.zeros(len(sentences), dtype=np.int64),
        )

    def documents(self, first: int, last: int | None) -> "Tokens":
        """Return the documents from ``first`` to before ``last``; None includes the unfinished one."""
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
            document_sources=self.document_sources[first:last],
            sentence_bytes=self.sentence_bytes[start:stop],
        )


class CorpusWriter:
    """Write documents into as many shards as they need."""

    def __init__(
        self, folder: Path, vocabulary: Vocabulary, shard_tokens: int, finished: Sequence[ShardInfo] = ()
    ) -> None:
        """Continue after the ``finished`` shards.

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
        """Finish the current shard, if there is one."""
        if self._shard is not None:
            self.shards.append(self._shard.finish())
            self._shard = None

    def remove_unfinished(self) -> None:
        """Remove the current shard, if there is one."""
        if self._shard is not None:
            self._shard.remove()

    def _append(self, tokens: Tokens) -> None:
        if self._shard is None:
            if not len(tokens.sentence_lengths):
                return
            self._shard = ShardWriter(self._folder, f"shard-{len(self.shards):05d}", self._vocabulary)
        self._shard.append(tokens)


class ShardWriter:
    """Write one shard sentence by sentence, so that memory does not grow with it."""

    def __init__(self, folder: Path, name: str, vocabulary: Vocabulary) -> None:
        self.num_tokens = self.num_sentences = self.num_documents = self.num_bytes = self.num_unknown = 0
        self._name = name
        self._dtype = ids_dtype(len(vocabulary))
        self._unk_id = vocabulary.unk_id
        self._parts = {part: _HashedFile(folder / f"{name}.{part}") for part in PARTS}
        self._spare_bits: NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._documents_of_sources: dict[str, int] = {}
        self._last_document_end = 0

    def append(self, tokens: Tokens) -> None:
        """Add sentences to the end of the shard."""
        ids, lengths = tokens.ids, tokens.sentence_lengths
        assert int(lengths.sum()) == len(ids) == len(tokens.word_starts), "lengths do not add up"
        assert not len(lengths) or lengths.min() > 0, "a sentence without a token"
        self._parts[IDS].write(ids.astype(self._dtype))
        bits = np.concatenate((self._spare_bits, tokens.word_starts))
        num_whole = len(bits) - len(bits) % BITS_PER_BYTE
        self._parts[WORDS].write(np.packbits(bits[:num_whole], bitorder="little"))
        self._spare_bits = bits[num_whole:]
        self._parts[SENTENCES].write((self.num_tokens + np.cumsum(lengths)).astype(OFFSET))
        document_ends = self.num_sentences + np.cumsum(tokens.document_sizes)
        # A document without a token is dropped.
        is_new = np.diff(document_ends, prepend=self._last_document_end) > 0
        self._parts[DOCUMENTS].write(document_ends[is_new].astype(OFFSET))
        found, counts = np.unique(tokens.document_sources[is_new], return_counts=True)
        for source, count in zip(map(str, found), counts.tolist(), strict=True):
            self._documents_of_sources[source] = self._documents_of_sources.get(source, 0) + count
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
            documents_of_sources=self._documents_of_sources,
        )

    def remove(self) -> None:
        """Remove the files of this unfinished shard."""
        for file in self._parts.values():
            file.remove()


class _HashedFile:
    """A file that knows its sha256 when it is finished."""

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

"""Documents to tokens, at the speed that a corpus needs.

The pieces of a run between spaces do not depend on its neighbours, and neither do those of a Chinese
character. Most runs repeat, so that looking them up is many times as fast as asking the engine, which only
sees new ones.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.shards import Tokens, ids_dtype
from glassbert.errors import UserError
from glassbert.text.characters import CJK, DELETED
from glassbert.text.documents import Part
from glassbert.text.files import utf8_length
from glassbert.text.segment import Segmenter, segmenter
from glassbert.text.sentences import MAX_SENTENCE_CHARACTERS, split_sentences
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import ascii_words

# Bounds the memory of a process. The frequent runs are all among the first of this many.
_MAX_KNOWN = 1 << 18

_RUN = re.compile(f"[{CJK}]|[^\\s{CJK}]+")
_LONG_RUN = re.compile(f"[{CJK}]+|[^\\s{CJK}]+")
_IS_CJK = re.compile(f"[{CJK}]")


@dataclass(frozen=True)
class Encoded:
    """A block of documents as tokens."""

    tokens: Tokens
    document_numbers: NDArray[np.int64]
    """Of the documents that end in the block."""


@dataclass(frozen=True)
class BlockEncoder:
    """Encode blocks of documents in any process: the tokenizer is loaded where it is called."""

    tokenizer_folder: Path
    segmenter: str | None
    """Name of the segmenter, or path of its word list."""

    def __call__(self, parts: Sequence[Part]) -> Encoded:
        """Return the tokens of ``parts`` and where sentences and documents end."""
        return _tools(self.tokenizer_folder, self.segmenter).encode(parts)


class DocumentEncoder:
    """Cut documents into sentences and those into tokens."""

    def __init__(self, tokenizer: Tokenizer, words: Segmenter | None = None) -> None:
        if words is not None and not tokenizer.settings.tokenize_chinese_chars:
            raise UserError(
                "a segmenter needs a tokenizer that makes each Chinese character a word, got "
                "tokenize_chinese_chars=False; leave the segmenter out, or use another tokenizer"
            )
        self._encoder = RunEncoder(tokenizer)
        self._starts_word = tokenizer.vocabulary.starts_word
        self._words = words

    def encode(self, parts: Sequence[Part]) -> Encoded:
        """Return the tokens of ``parts`` and where sentences and documents end."""
        by_part = [part_sentences(part) for part in parts]
        sentences = list(chain.from_iterable(by_part))
        encoded, is_inner = self._encode(sentences)
        num_tokens = np.fromiter(map(len, encoded), np.int64, len(encoded)) // self._encoder.dtype.itemsize
        ids = np.frombuffer(b"".join(encoded), self._encoder.dtype)
        starts = self._starts_word[ids]
        if is_inner is not None:
            starts &= ~is_inner
        # A sentence without a token, such as one of control characters, is dropped.
        kept = num_tokens > 0
        sizes = np.array([len(found) for found in by_part], np.int64)
        kept_before = np.concatenate(([0], np.cumsum(kept)))[np.concatenate(([0], np.cumsum(sizes)))]
        last_parts = [index for index, part in enumerate(parts) if part.is_last]
        ends = kept_before[np.array(last_parts, np.int64) + 1]
        num_bytes = np.fromiter(map(utf8_length, sentences), np.int64, len(sentences))
        tokens = Tokens(
            ids=ids,
            word_starts=starts,
            sentence_lengths=num_tokens[kept],
            document_sizes=np.diff(ends, prepend=0),
            document_sources=np.array([parts[index].file for index in last_parts], np.int64),
            sentence_bytes=num_bytes[kept],
        )
        return Encoded(tokens, np.array([parts[index].number for index in last_parts], np.int64))

    def _encode(self, sentences: Sequence[str]) -> tuple[list[bytes], NDArray[np.bool_] | None]:
        """Return the ids of each sentence, and for each token whether it is inside a Chinese word."""
        if self._words is None:
            return self._encoder.encode([self._encoder.runs(sentence) for sentence in sentences]), None
        cut = [list(_runs_in_words(sentence, self._words)) for sentence in sentences]
        by_run = iter(self._encoder.encode([(run,) for pairs in cut for run, _ in pairs]))
        by_sentence = [[next(by_run) for _ in pairs] for pairs in cut]
        num_bytes = np.array([len(found) for found in chain.from_iterable(by_sentence)], np.int64)
        is_inner = np.array([inner for pairs in cut for _, inner in pairs], np.bool_)
        num_tokens = num_bytes // self._encoder.dtype.itemsize
        return list(map(b"".join, by_sentence)), np.repeat(is_inner, num_tokens)


class RunEncoder:
    """Return the ids that `Tokenizer.ids_of_batch` gives for plain text, and remember them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.dtype = ids_dtype(len(tokenizer.vocabulary))
        self._tokenizer = tokenizer
        self._settings = tokenizer.settings
        self._known: dict[str, bytes] = {}
        self._known_words: dict[str, bytes] = {}

    def runs(self, text: str) -> list[str]:
        """Return the runs of ``text`` whose pieces do not depend on their neighbours."""
        return runs(text, are_chinese_apart=self._settings.tokenize_chinese_chars)

    def encode(self, texts: Sequence[Sequence[str]]) -> list[bytes]:
        """Return the ids of each text, given as its `runs`, as bytes of ``dtype``."""
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()
        self._learn(set(chain.from_iterable(texts)).difference(self._known))
        find = self._known.__getitem__
        return [b"".join(map(find, text)) for text in texts]

    def _learn(self, new: Iterable[str]) -> None:
        """Encode new runs; plain ASCII word by word, since there are fewer words than runs."""
        words_of: dict[str, list[str]] = {}
        others: list[str] = []
        for run in new:
            words = ascii_words(run, self._settings)
            if words is None:
                others.append(run)
            else:
                words_of[run] = words
        self._known.update(zip(others, self._ask_engine(others), strict=True))
        if len(self._known_words) > _MAX_KNOWN:
            self._known_words.clear()
        new_words = list(set(chain.from_iterable(words_of.values())).difference(self._known_words))
        self._known_words.update(zip(new_words, self._ask_engine(new_words), strict=True))
        find = self._known_words.__getitem__
        self._known.update((run, b"".join(map(find, words))) for run, words in words_of.items())

    def _ask_engine(self, texts: Sequence[str]) -> list[bytes]:
        if not texts:
            return []
        return [np.array(ids, self.dtype).tobytes() for ids in self._tokenizer.ids_of_batch(texts)]


def part_sentences(part: Part) -> list[str]:
    """Return the sentences of a part; in the form sentences, only lines that are too long are cut."""
    lines = [stripped for line in part.lines if (stripped := line.strip())]
    if part.form != "sentences":
        return [sentence for line in lines for sentence in split_sentences(line)]
    sentences: list[str] = []
    for line in lines:
        sentences += [line] if len(line) <= MAX_SENTENCE_CHARACTERS else split_sentences(line)
    return sentences


def runs(text: str, *, are_chinese_apart: bool = True) -> list[str]:
    """Return the runs between spaces, in order; each Chinese character alone if asked."""
    if text.isascii() and text.isprintable():
        return text.split()
    text = DELETED.sub("", text)
    return _RUN.findall(text) if are_chinese_apart and _IS_CJK.search(text) else text.split()


def _runs_in_words(text: str, words: Segmenter) -> Iterator[tuple[str, bool]]:
    """Yield the runs, each with whether it is a character inside a Chinese word."""
    for run in _LONG_RUN.findall(DELETED.sub("", text)):
        if not _IS_CJK.match(run):
            yield run, False
            continue
        starts = {start for start, _ in words.words(run)}
        yield from ((character, index not in starts) for index, character in enumerate(run))


@lru_cache(maxsize=1)
def _tools(tokenizer_folder: Path, name: str | None) -> DocumentEncoder:
    return DocumentEncoder(Tokenizer.load(tokenizer_folder), None if name is None else segmenter(name))

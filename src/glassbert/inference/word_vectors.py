"""Vectors of a list of words: alone, or the mean over sentences in which they occur."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.arguments import checked, checked_methods
from glassbert.data.sentences import Files, read_sentences
from glassbert.errors import DataError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.words import SegmenterSource, Span, Vector, segmenter_for, vectors_at
from glassbert.interop.weights import save_tensors
from glassbert.messages import Log, to_stderr
from glassbert.model.torch_state import with_own_torch_state
from glassbert.ranges import Count
from glassbert.storage import new_file, new_folder, write_atomically
from glassbert.text.characters import is_chinese
from glassbert.text.files import read_lines
from glassbert.typed import typed

TEXT, BINARY, TENSORS, LIST = "words.txt", "words.bin", "words.safetensors", "words.list"
MOST = 5_000
"""Frequent words of a text to take where no words are given."""
_SENTENCES = 256
"""Sentences that go through the model together."""


@dataclass(frozen=True)
class Near:
    """A word and how near it is."""

    word: str
    score: float
    """The cosine; of an analogy, to the sum of three words."""


@checked_methods
@dataclass(frozen=True)
class WordVectors:
    """Words with their vectors."""

    words: tuple[str, ...]
    vectors: NDArray[np.float32]
    """(words, features); their mean is zero, since what all words share distinguishes none of them."""
    contexts: tuple[int, ...]
    """Sentences that each word's vector is the mean of; 0 for a word that was read alone."""

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._places

    def __getitem__(self, word: str) -> Vector:
        """Return the vector of a word, (features,)."""
        return self.vectors[self._place(word)]

    def similarity(self, one: str, other: str) -> float:
        """Return the cosine of two words."""
        return float(self._unit[self._place(one)] @ self._unit[self._place(other)])

    def nearest(self, word: str, *, top: int = 10) -> list[Near]:
        """Return the words that are most like one, the nearest first."""
        return self._best(self._unit[self._place(word)], {word}, top)

    def analogy(self, a: str, b: str, c: str, *, top: int = 10) -> list[Near]:
        """Return what is to ``c`` as ``b`` is to ``a``, the likeliest first."""
        first, second, third = (self._unit[self._place(word)] for word in (a, b, c))
        return self._best(second - first + third, {a, b, c}, top)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the vectors in word2vec's text and binary form and as safetensors, with a list of the words.

        A space within a word becomes `_` in word2vec's forms, which cannot hold one.
        """
        with new_folder(Path(folder), overwrite=overwrite) as new:
            head = f"{len(self.words)} {self.vectors.shape[1]}\n".encode()
            names = [word.replace(" ", "_").encode("utf-8") for word in self.words]
            with new_file(new / TEXT) as file:
                file.write(head)
                for name, vector in zip(names, self.vectors, strict=True):
                    file.write(name + b"".join(b" %.7g" % number for number in vector.tolist()) + b"\n")
            with new_file(new / BINARY) as file:
                file.write(head)
                for name, vector in zip(names, self.vectors.astype("<f4"), strict=True):
                    file.write(name + b" " + vector.tobytes() + b"\n")
            counts = torch.tensor(self.contexts, dtype=torch.int64)
            save_tensors({"vectors": torch.from_numpy(self.vectors), "contexts": counts}, new / TENSORS)
            write_atomically(new / LIST, "".join(f"{word}\n" for word in self.words).encode("utf-8"))

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {word: place for place, word in enumerate(self.words)}

    @cached_property
    def _unit(self) -> NDArray[np.float32]:
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        unit: NDArray[np.float32] = self.vectors / np.maximum(lengths, 1e-12)
        return unit

    def _place(self, word: str) -> int:
        if word not in self._places:
            raise UserError(f"no vector of {word[:40]!r}; add it to the words")
        return self._places[word]

    def _best(self, wanted: Vector, without: set[str], top: int) -> list[Near]:
        typed(top, Count, "top")
        scores = self._unit @ (wanted / max(float(np.linalg.norm(wanted)), 1e-12))
        order = np.argsort(-scores, kind="stable")
        others = (int(place) for place in order if self.words[place] not in without)
        return [Near(self.words[place], float(scores[place])) for place in islice(others, top)]


@checked
@with_own_torch_state
def word_vectors(
    model: str | Path | Model,
    words: str | Path | Sequence[str] | None = None,
    *,
    text: Files | None = None,
    most: int = MOST,
    contexts: int = 20,
    segmenter: SegmenterSource = None,
    log: Log = to_stderr,
) -> WordVectors:
    """Return vectors of words, centred: the mean over pieces, layers and contexts.

    Args:
        model: A loaded model, or what `glassbert.load` takes.
        words: A file with one word per line, or a list of words; the frequent words of the text when not
            given.
        text: Raw text whose sentences are contexts; without it, or where it lacks a word, the word is read
            alone.
        most: How many frequent words to take.
        contexts: Sentences for each word, the first in the text.
        segmenter: Finds Chinese words in the text, as `glassbert.segmenter` takes it; rjieba when not given.
        log: Receives lines for the user.
    """
    typed(contexts, Count, "contexts")
    loaded = load(model, Model) if isinstance(model, str | Path) else model
    wanted = _wanted(words, text, most, segmenter, log)
    _check_lengths(wanted, loaded)
    sums = np.zeros((len(wanted), loaded.config.encoder.hidden_size), dtype=np.float64)
    counts = np.zeros(len(wanted), dtype=np.int64)
    if text is not None:
        _add_contexts(loaded, wanted, text, contexts, segmenter, sums, counts, log)
        missing = int((counts == 0).sum())
        log(f"{len(wanted) - missing:,} of {len(wanted):,} words are in the text; {missing:,} are read alone")
    alone = [place for place, count in enumerate(counts) if not count]
    found = vectors_at(loaded, [wanted[at] for at in alone], [[(0, len(wanted[at]))] for at in alone])
    for place, (vector,) in zip(alone, found, strict=True):
        if vector is None:
            raise DataError(f"{wanted[place][:40]!r}: nothing is left of this word after cleaning; remove it")
        sums[place] = vector
    vectors = sums / np.maximum(counts, 1)[:, None]
    centred = (vectors - vectors.mean(axis=0)).astype(np.float32)
    return WordVectors(tuple(wanted), centred, tuple(counts.tolist()))


def _wanted(
    words: str | Path | Sequence[str] | None, text: Files | None, most: int, source: SegmenterSource, log: Log
) -> list[str]:
    if words is not None:
        return listed_words(words)
    if text is None:
        raise UserError("no words; give some, or a text to take its frequent words from")
    return listed_words(frequent_words(text, most, segmenter=source, log=log))


def frequent_words(
    text: Files, most: int = MOST, *, segmenter: SegmenterSource = None, log: Log = to_stderr
) -> list[str]:
    """Return the words of a raw text, the most frequent first, without punctuation marks."""
    typed(most, Count, "most")
    counts = Counter[str]()
    cut, has_chinese = segmenter_for(segmenter, ()), False
    for sentence in read_sentences(text, log=log):
        if not has_chinese and any(map(is_chinese, sentence)):
            cut, has_chinese = segmenter_for(segmenter, [sentence]), True
        counts.update(sentence[start:end] for start, end in cut.words(sentence))
    words = ((word, count) for word, count in counts.items() if any(map(str.isalnum, word)))
    return [word for word, _ in sorted(words, key=lambda one: (-one[1], one[0]))[:most]]


def listed_words(words: str | Path | Iterable[str]) -> list[str]:
    """Return the distinct words of a file with one per line, or of a list."""
    is_file = isinstance(words, str | Path)
    lines = read_lines(words) if isinstance(words, str | Path) else words
    found = list(dict.fromkeys(word for line in lines if (word := line.strip())))
    if len(found) < 2:
        name = words if is_file else "words"
        raise DataError(f"{name}: {len(found)} words; expected two or more, one per line")
    return found


def _check_lengths(words: Sequence[str], model: Model) -> None:
    room = model.max_length - 2
    for word, ids in zip(words, model.tokenizer.ids_of_batch(list(words)), strict=True):
        if len(ids) > room:
            raise DataError(
                f"{word[:40]!r}... has {len(ids):,} pieces, and the model reads {room}; expected words, not "
                "texts: one per line"
            )


def _add_contexts(
    model: Model,
    words: Sequence[str],
    text: Files,
    most: int,
    source: SegmenterSource,
    sums: NDArray[np.float64],
    counts: NDArray[np.int64],
    log: Log,
) -> None:
    """Add the vectors that words have in sentences of the text, at most ``most`` for each, in place."""
    places = {word: place for place, word in enumerate(words)}
    taken = np.zeros(len(words), dtype=np.int64)
    cut = segmenter_for(source, words)
    texts: list[str] = []
    spans: list[list[Span]] = []

    def flush() -> None:
        for sentence, at, found in zip(texts, spans, vectors_at(model, texts, spans), strict=True):
            for (start, end), vector in zip(at, found, strict=True):
                if vector is not None:
                    place = places[sentence[start:end]]
                    sums[place] += vector
                    counts[place] += 1
        texts.clear()
        spans.clear()

    for sentence in read_sentences(text, log=log):
        wanted = []
        for start, end in cut.words(sentence):
            place = places.get(sentence[start:end])
            if place is not None and taken[place] < most:
                taken[place] += 1
                wanted.append((start, end))
        if wanted:
            texts.append(sentence)
            spans.append(wanted)
        if len(texts) == _SENTENCES:
            flush()
            if (taken >= most).all():
                break
    if texts:
        flush()

"""How well vectors of words agree with people: files of word pairs with scores, and of analogies."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glassbert.errors import DataError
from glassbert.inference.word_vectors import WordVectors
from glassbert.metrics.regression import regression
from glassbert.text.files import read_lines

Pair = tuple[str, str, float]
Analogy = tuple[str, str, str, str]


@dataclass(frozen=True, kw_only=True)
class WordScore:
    """A score beside what the characters of the words alone score."""

    file: str
    metric: str
    """spearman of pairs, or accuracy of analogies."""
    score: float
    baseline: float
    """The same by the share of common characters, without a model."""
    rows: int

    def sentence(self) -> str:
        """Return one line with both scores."""
        return (
            f"{self.file}: {self.metric} {self.score:.4f}, common characters alone {self.baseline:.4f} "
            f"({self.rows:,} rows)"
        )

    def to_json(self) -> dict[str, Any]:
        """Return what `words --json` prints."""
        return asdict(self)


@dataclass(frozen=True)
class WordSet:
    """A file of pairs or of analogies."""

    name: str
    pairs: tuple[Pair, ...] = ()
    analogies: tuple[Analogy, ...] = ()

    @classmethod
    def read(cls, path: str | Path) -> "WordSet":
        """Read `word word score` on each line, or `word word word word` with headings that begin with `:`."""
        rows = [(number, line.split()) for number, line in enumerate(read_lines(path), start=1)]
        rows = [(number, fields) for number, fields in rows if fields]
        name = Path(path).name
        if rows and rows[0][1][0].startswith(":"):
            fours = [fields for _, fields in rows if not fields[0].startswith(":")]
            if fours and all(len(fields) == 4 for fields in fours):
                return cls(name, analogies=tuple((a, b, c, d) for a, b, c, d in fours))
            raise DataError(f"{path}: expected four words on each line below a heading `: name`")
        pairs = [_pair(path, number, fields) for number, fields in rows]
        if len(pairs) < 2:
            raise DataError(f"{path}: {len(pairs)} pairs; expected two words and a score on each line")
        return cls(name, pairs=tuple(pairs))

    def words(self) -> list[str]:
        """Return every word that it asks about."""
        rows = [*(pair[:2] for pair in self.pairs), *self.analogies]
        return list(dict.fromkeys(word for row in rows for word in row))

    def score(self, vectors: WordVectors) -> WordScore:
        """Compare vectors of words with people."""
        if self.analogies:
            return self._score_analogies(vectors)
        gold = np.array([score for _, _, score in self.pairs])
        ours = np.array([vectors.similarity(a, b) for a, b, _ in self.pairs])
        shared = np.array([common_characters(a, b) for a, b, _ in self.pairs])
        return WordScore(
            file=self.name,
            metric="spearman",
            score=regression(gold, ours).spearman,
            baseline=regression(gold, shared).spearman,
            rows=len(gold),
        )

    def _score_analogies(self, vectors: WordVectors) -> WordScore:
        candidates = self.words()
        chosen = WordVectors(
            tuple(candidates), np.stack([vectors[word] for word in candidates]), (0,) * len(candidates)
        )
        right = [chosen.analogy(a, b, c, top=1)[0].word == d for a, b, c, d in self.analogies]
        guessed = [_by_characters(candidates, a, b, c) == d for a, b, c, d in self.analogies]
        return WordScore(
            file=self.name,
            metric="accuracy",
            score=float(np.mean(right)),
            baseline=float(np.mean(guessed)),
            rows=len(right),
        )


def common_characters(one: str, other: str) -> float:
    """Return the share of characters that two words have in common: 1 for the same ones, 0 for none."""
    shared = sum((Counter(one) & Counter(other)).values())
    return 2 * shared / (len(one) + len(other))


def _by_characters(candidates: Sequence[str], a: str, b: str, c: str) -> str:
    """Return the candidate whose characters are most like those of ``b`` and ``c``, and least like ``a``."""
    others = [word for word in candidates if word not in (a, b, c)]
    wanted: Counter[str] = Counter(b) + Counter(c) - Counter(a)

    def share(word: str) -> float:
        own: Counter[str] = Counter(word)
        return (own & wanted).total() / (len(word) + wanted.total())

    return max(others, key=share, default="")


def _pair(path: str | Path, number: int, fields: Sequence[str]) -> Pair:
    try:
        score = float(fields[2])
    except (IndexError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        raise DataError(f"{path}:{number}: expected two words and a score, got {' '.join(fields)[:60]!r}")
    return fields[0], fields[1], score

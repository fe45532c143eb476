"""Scores of extracted answers: SQuAD's two scripts for English, CMRC 2018's for mixed Chinese and English.

The scripts print percent; here, as everywhere, shares run from 0 to 1.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from glassbert.metrics.classes import mean, ratio
from glassbert.metrics.mixed_text import longest_common_run, mixed_tokens, without_marks

MeasureName = Literal["squad", "cmrc"]
Answers = Mapping[str, Sequence[str]]
"""The accepted answers of each question, by its id; an empty list if its context has no answer."""

# Upper bounds, in words or Chinese characters, of the groups by length of answer.
LENGTHS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class AnswerScore:
    """Exact match and F1 over some of the questions."""

    exact_match: float
    f1: float
    support: int


@dataclass(frozen=True, slots=True)
class LengthScore:
    """Scores of the questions whose shortest accepted answer has from ``low`` to ``high`` words."""

    low: int
    high: int | None
    exact_match: float
    f1: float
    support: int


@dataclass(frozen=True)
class AnswerReport:
    """How well questions were answered."""

    exact_match: float
    f1: float
    support: int
    has_answer: AnswerScore
    """Over the questions that have an answer."""
    no_answer: AnswerScore
    """Over those that have none; no answer is the right one."""
    by_length: tuple[LengthScore, ...]

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        scores = {"exact_match": self.exact_match, "f1": self.f1}
        if self.no_answer.support:
            scores["has_answer_exact_match"] = self.has_answer.exact_match
            scores["has_answer_f1"] = self.has_answer.f1
            scores["no_answer_accuracy"] = self.no_answer.exact_match
        return scores

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return asdict(self) | {"by_length": [asdict(score) for score in self.by_length]}


@dataclass(frozen=True, slots=True)
class NoAnswerThreshold:
    """The no-answer scores above which it is best to answer nothing, and what they would give."""

    exact_match: float
    exact_match_threshold: float
    f1: float
    f1_threshold: float


@dataclass(frozen=True, slots=True)
class Measure:
    """What exact match and F1 compare."""

    normalise: Callable[[str], str]
    """Equal results are an exact match."""
    tokens: Callable[[str], list[str]]
    common: Callable[[list[str], list[str]], int]
    """How many tokens two answers share."""
    is_lenient: bool
    """Whether answers without any word, such as "the", count as equal: SQuAD 2.0's script only."""

    def exact(self, gold: str, guess: str) -> float:
        """Return 1 when both are the same answer, else 0."""
        return float(self.normalise(gold) == self.normalise(guess))

    def f1(self, gold: str, guess: str) -> float:
        """Return the harmonic mean of the shares of common tokens."""
        of_gold, of_guess = self.tokens(gold), self.tokens(guess)
        if self.is_lenient and not (of_gold and of_guess):
            return float(of_gold == of_guess)
        return ratio(2 * self.common(of_gold, of_guess), len(of_gold) + len(of_guess))

    def best(self, gold: Sequence[str], guess: str) -> tuple[float, float]:
        """Return exact match and F1 with the accepted answer that suits best."""
        if self.is_lenient:
            gold = [answer for answer in gold if self.normalise(answer)]
        if not gold:
            is_right = float(not (self.normalise(guess) if self.is_lenient else guess))
            return is_right, is_right
        return max(self.exact(answer, guess) for answer in gold), max(
            self.f1(answer, guess) for answer in gold
        )


def squad(gold: Answers, guess: Mapping[str, str]) -> AnswerReport:
    """Score as SQuAD's script does: version 2.0's when a question has no answer, else version 1.1's."""
    return _report(gold, guess, measure_for("squad", gold))


def cmrc(gold: Answers, guess: Mapping[str, str]) -> AnswerReport:
    """Score as CMRC 2018's script does: by characters of Chinese and words of English."""
    return _report(gold, guess, measure_for("cmrc", gold))


def measure_for(name: MeasureName, gold: Answers) -> Measure:
    """Return the measure by its name; for squad, the script of the version that the answers fit."""
    if name == "cmrc":
        return CMRC
    return SQUAD_2 if any(not answers for answers in gold.values()) else SQUAD_1


def best_no_answer_threshold(
    gold: Answers, guess: Mapping[str, str], no_answer: Mapping[str, float], name: MeasureName = "squad"
) -> NoAnswerThreshold:
    """Find the thresholds that SQuAD 2.0's script finds; a question whose score is higher gets no answer.

    Scores may be probabilities or differences of logits. Questions with equal scores are answered together or
    not at all (the script splits them by their order in the file, which no threshold can do). As in the
    script, any guess that is not empty counts as an answer, even "the", which the scores ignore.

    Args:
        guess: The best answer of each question that is not empty.
        no_answer: The score of each question for having no answer.
    """
    measure = measure_for(name, gold)
    scores = {
        key: measure.best(answers, guess[key]) if answers else (float(not guess[key]),) * 2
        for key, answers in gold.items()
    }
    exact, exact_threshold = _best_threshold(gold, no_answer, {key: both[0] for key, both in scores.items()})
    f1, f1_threshold = _best_threshold(gold, no_answer, {key: both[1] for key, both in scores.items()})
    return NoAnswerThreshold(exact, exact_threshold, f1, f1_threshold)


def normalise_english(text: str) -> str:
    """Return ``text`` in lower case, without punctuation and articles, with single spaces: SQuAD's rule."""
    text = "".join(character for character in text.lower() if character not in _PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _report(gold: Answers, guess: Mapping[str, str], measure: Measure) -> AnswerReport:
    assert gold.keys() == guess.keys(), "every question needs a guess, if only an empty one"
    scores = {key: measure.best(gold[key], guess[key]) for key in gold}
    total = _score(list(scores.values()))
    return AnswerReport(
        exact_match=total.exact_match,
        f1=total.f1,
        support=total.support,
        has_answer=_score([scores[key] for key in gold if gold[key]]),
        no_answer=_score([scores[key] for key in gold if not gold[key]]),
        by_length=_by_length(gold, scores, measure),
    )


def _by_length(
    gold: Answers, scores: Mapping[str, tuple[float, float]], measure: Measure
) -> tuple[LengthScore, ...]:
    """Return the scores for each range of lengths that occurs."""
    keys = [key for key, answers in gold.items() if answers]
    lengths = [min(len(measure.tokens(answer)) for answer in gold[key]) for key in keys]
    places = np.searchsorted(LENGTHS, lengths).tolist()
    rows = []
    for place, (low, high) in enumerate(zip((0, *LENGTHS), (*LENGTHS, None), strict=True)):
        score = _score([scores[key] for key, own in zip(keys, places, strict=True) if own == place])
        if score.support:
            rows.append(LengthScore(max(low + 1, 1), high, score.exact_match, score.f1, score.support))
    return tuple(rows)


def _score(scores: Sequence[tuple[float, float]]) -> AnswerScore:
    return AnswerScore(
        exact_match=mean([exact for exact, _ in scores]),
        f1=mean([f1 for _, f1 in scores]),
        support=len(scores),
    )


def _best_threshold(
    gold: Answers, no_answer: Mapping[str, float], scores: Mapping[str, float]
) -> tuple[float, float]:
    """Return the best mean score over all thresholds and the lowest threshold that gives it."""
    if not gold:
        return 0.0, 0.0
    height = np.array([no_answer[key] for key in gold])
    # What answering adds: the score if there is an answer; if there is none, what is lost.
    gain = np.array([scores[key] if answers else scores[key] - 1.0 for key, answers in gold.items()])
    heights, group = np.unique(height, return_inverse=True)
    totals = np.cumsum(np.bincount(group, weights=gain))
    num_impossible = sum(not answers for answers in gold.values())
    # Answering nothing at all: a threshold below every score, which the script calls 0.
    lowest = min(0.0, float(np.nextafter(heights[0], -np.inf)))
    best = int(np.argmax(np.append(0.0, totals)))
    total = num_impossible + (float(totals[best - 1]) if best else 0.0)
    return total / len(gold), float(heights[best - 1]) if best else lowest


def _num_shared(a: list[str], b: list[str]) -> int:
    return (Counter(a) & Counter(b)).total()


_PUNCTUATION = frozenset(string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")

SQUAD_1 = Measure(
    normalise_english, lambda text: normalise_english(text).split(), _num_shared, is_lenient=False
)
SQUAD_2 = Measure(
    normalise_english, lambda text: normalise_english(text).split(), _num_shared, is_lenient=True
)
CMRC = Measure(without_marks, mixed_tokens, longest_common_run, is_lenient=False)

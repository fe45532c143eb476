"""Sentences with a hidden word, from which a model's own results choose those to show."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from glassbert.inference.model import Model

# With the piece that was taken out. The sentences test language and plain facts.
ENGLISH = {
    "The river flows into the [MASK].": "sea",
    "The army won the [MASK] of Waterloo.": "battle",
    "He was born in the United [MASK].": "states",
    "Paris is the capital of [MASK].": "france",
    "She studied law at the [MASK] of Oxford.": "university",
    "The film was directed by a young [MASK].": "director",
    "He died in the Second World [MASK].": "war",
    "The album was released in two [MASK] and nine.": "thousand",
    "The king and the [MASK] had three children.": "queen",
    "It is one of the largest cities in the [MASK].": "world",
}
CHINESE = {
    "她毕业于北京大学，后来是大[MASK]的教授。": "学",
    "中华人民共和[MASK]成立于1949年。": "国",
    "北京是中[MASK]的首都。": "国",
    "这部电[MASK]由他导演。": "影",
    "第二次世界大[MASK]结束了。": "战",
    "他出生于美[MASK]纽约。": "国",
    "这座城市位于长[MASK]的南岸。": "江",
    "他是一位著名的音乐[MASK]。": "家",
}


@dataclass(frozen=True)
class Known:
    """A sentence and how well a model knows the hidden word."""

    text: str
    piece: str
    rank: int | None
    """The place of the piece among the model's guesses, 1 for the first; None if the model lacks it."""
    score: float
    """Its probability."""


def known_sentences(model: Model, sentences: Mapping[str, str], number: int) -> list[Known]:
    """Return the sentences whose word a model knows best: by its place among the guesses, then by its score.

    So each model shows what it does best, without anybody choosing for it.
    """
    found = [_known(model, text, piece) for text, piece in sentences.items()]
    return sorted(found, key=lambda one: (one.rank or math.inf, -one.score))[:number]


def _known(model: Model, text: str, piece: str) -> Known:
    guesses = model.fill(text, top=len(model.tokenizer.vocabulary))[0]
    for rank, guess in enumerate(guesses, start=1):
        if guess.token == piece:
            return Known(text, piece, rank, guess.score)
    return Known(text, piece, None, 0.0)

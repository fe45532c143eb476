"""Questions that a tiny model can learn to answer, and a network that knows all answers, for tests."""

import random

import numpy as np
import torch

from glassbert.data.examples import Answer, AnswerExample
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.text.wordpiece.tokenizer import Tokenizer

LETTERS = {"x": "uvw好", "y": "rst今天"}
"""The answer to a question is made of letters of its own."""
PLAIN = "abcdefg"


def question_about(num_words: int, generator: random.Random, *, has_answer: bool = True) -> AnswerExample:
    """Return a context of words in which one run of words answers one question, and one the other."""
    words = [_word(PLAIN, generator) for _ in range(num_words)]
    question = generator.choice("xy")
    for name, letters in LETTERS.items():
        if has_answer or name != question:
            answer = " ".join(_word(letters, generator) for _ in range(generator.randrange(1, 3)))
            words.insert(generator.randrange(len(words) + 1), answer)
    context = " ".join(words)
    answers = []
    if has_answer:
        text = next(word for word in words if word[0] in LETTERS[question])
        answers = [Answer(text, context.index(text))]
    return AnswerExample("", question, context, tuple(answers), "train.json:1")


def questions(number: int, seed: int = 0, impossible: float = 0.0) -> list[AnswerExample]:
    """Return such questions about contexts of different lengths, a share of them without an answer."""
    generator = random.Random(seed)
    return [
        question_about(generator.randrange(2, 6), generator, has_answer=generator.random() >= impossible)
        for _ in range(number)
    ]


def _word(letters: str, generator: random.Random) -> str:
    return "".join(generator.choices(letters, k=generator.randrange(1, 4)))


class KnowingNetwork:
    """Scores the first and the last piece of the right answer highest, or [CLS] where the window has none."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.longest = 0
        """Tokens of the largest batch so far."""
        pieces = [piece.removeprefix("##") for piece in tokenizer.vocabulary.pieces]
        self.is_of = {
            tokenizer.vocabulary.id(question): np.array([piece in letters for piece in pieces])
            for question, letters in LETTERS.items()
        }

    def __call__(self, batch: Batch) -> Output:
        self.longest = max(self.longest, batch.layout.num_tokens)
        logits = torch.zeros(batch.layout.num_tokens, 2)
        for ids, scores in zip(batch.layout.split(batch.ids), batch.layout.split(logits), strict=True):
            places = np.flatnonzero(self.is_of[int(ids[1])][ids.numpy()])
            scores[places[0] if len(places) else 0, 0] = 10.0
            scores[places[-1] if len(places) else 0, 1] = 10.0
        return Output(hidden=torch.zeros(len(batch.ids), 1), span=logits)

"""Texts with spans that a tiny model can learn, and a network that knows them, for tests of tag."""

import random

import torch

from glassbert.data.examples import Span, TagExample
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.tasks.tag.scheme import TagSet
from glassbert.text.wordpiece.tokenizer import Tokenizer

FIRST = {"PER": "x今", "LOC": "u好"}
"""A span of a label begins with one of its first letters."""
LATER = {"PER": "yz天", "LOC": "vw"}
"""And continues with these."""
PLAIN = "abcdefg"


def tagged_text(num_words: int, generator: random.Random, where: str = "train.jsonl:1") -> TagExample:
    """Return words of letters; some of them, alone or with their neighbours, are spans."""
    text = ""
    spans: list[Span] = []
    while num_words > 0:
        label = generator.choice(["", "", "PER", "LOC"])
        length = min(num_words, generator.randrange(1, 4))
        words = [_word(LATER.get(label, PLAIN), generator) for _ in range(length)]
        if label:
            words[0] = generator.choice(FIRST[label]) + words[0]
            spans.append(Span(len(text), len(text) + len(" ".join(words)), label))
        text += " ".join(words) + " "
        num_words -= length
    return TagExample(text, tuple(spans), where)


def tagged_texts(number: int, seed: int = 0, max_words: int = 8) -> list[TagExample]:
    """Return such texts of different lengths."""
    generator = random.Random(seed)
    return [
        tagged_text(generator.randrange(1, max_words), generator, f"train.jsonl:{index + 1}")
        for index in range(number)
    ]


def _word(letters: str, generator: random.Random) -> str:
    return "".join(generator.choices(letters, k=generator.randrange(1, 4)))


class KnowingNetwork:
    """Gives every piece its right tag by looking at the letters: what a perfect model would say."""

    def __init__(self, tokenizer: Tokenizer, tag_set: TagSet) -> None:
        names = list(tag_set.names)
        self.longest = 0
        """Tokens of the largest batch so far."""
        self.tags = torch.zeros(len(tokenizer.vocabulary), dtype=torch.int64)
        for id_, piece in enumerate(tokenizer.vocabulary.pieces):
            for label in FIRST:
                if piece.removeprefix("##") in FIRST[label]:
                    self.tags[id_] = names.index(f"B-{label}")
                elif piece.removeprefix("##") in LATER[label]:
                    self.tags[id_] = names.index(f"I-{label}")
        self.num_tags = len(names)

    def __call__(self, batch: Batch) -> Output:
        self.longest = max(self.longest, batch.layout.num_tokens)
        logits = 10.0 * torch.nn.functional.one_hot(self.tags[batch.ids], self.num_tags).float()
        return Output(hidden=torch.zeros(len(batch.ids), 1), labels=logits)

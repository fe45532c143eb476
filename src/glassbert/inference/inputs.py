"""Texts as a network reads them, one input each."""

from collections.abc import Sequence

from glassbert.tasks.task import Input, with_specials
from glassbert.text.windows import Window
from glassbert.text.wordpiece.tokenizer import Tokenizer


def inputs_of(tokenizer: Tokenizer, ids_of_texts: Sequence[Sequence[int]], max_length: int) -> list[Input]:
    """Return the pieces of each text between [CLS] and [SEP], cut to ``max_length`` tokens."""
    room = max_length - 2
    return [
        Input(*with_specials(tokenizer, ids[:room]), number, Window(0, min(room, len(ids))))
        for number, ids in enumerate(ids_of_texts)
    ]

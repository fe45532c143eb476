"""The right answers of answer, and their places on the pieces of the context."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from glassbert.data.examples import AnswerExample, Span
from glassbert.errors import DataError
from glassbert.tasks.tag.scheme import PieceSpan, Placement, place
from glassbert.text.alignment import as_offsets
from glassbert.text.wordpiece.tokenizer import Pieces, Tokenizer


def right_answers(example: AnswerExample) -> Sequence[str]:
    """Return the right answers, none if the context has none; raise DataError for an unlabelled question."""
    if example.answers is None:
        raise DataError(f"{example.where}: the question has no list of answers, not even an empty one")
    return [answer.text for answer in example.answers]


def answers_by_number(examples: Sequence[AnswerExample]) -> dict[str, Sequence[str]]:
    """Return the right answers by the number of their example: ids of questions may repeat."""
    return {str(number): right_answers(example) for number, example in enumerate(examples)}


def placed_answer(
    example: AnswerExample, pieces: Pieces, is_word_start: NDArray[np.bool_]
) -> tuple[list[PieceSpan], Placement]:
    """Return the pieces of the first right answer, the one that is learned."""
    answers = (example.answers or ())[:1]
    spans = [Span(answer.start, answer.start + len(answer.text), "") for answer in answers]
    return place(spans, as_offsets(pieces.offsets), is_word_start[pieces.ids])


def survey(examples: Sequence[AnswerExample], tokenizer: Tokenizer) -> tuple[Placement, list[int]]:
    """Return how well the answers fit the pieces of their contexts, and how many pieces each has."""
    is_word_start = tokenizer.vocabulary.starts_word
    placement, lengths = Placement(), []
    contexts = [example.context for example in examples]
    for example, pieces in zip(examples, tokenizer.stream_pieces(contexts), strict=True):
        placed, count = placed_answer(example, pieces, is_word_start)
        placement += count
        lengths += [span.stop - span.start for span in placed]
    return placement, lengths


def remarks(train: Sequence[AnswerExample], dev: Sequence[AnswerExample], longest: int) -> list[str]:
    """Return remarks on the questions for the user."""
    num_impossible, num_in_dev = (
        sum(not right_answers(example) for example in rows) for rows in (train, dev)
    )
    notes = [f"answers have up to {longest} pieces"]
    if num_impossible:
        notes.append(f"{num_impossible:,} of {len(train):,} training questions have no answer")
    elif num_in_dev:
        notes.append(
            f"{num_in_dev:,} of {len(dev):,} held-out questions have no answer, but every training question "
            "has one: the model will always answer"
        )
    return notes

"""What a model got wrong, example by example, for the reports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glassbert.data.examples import AnswerExample, Example, Span, TagExample, TextExample
from glassbert.evaluation.marks import answer_marks, span_marks
from glassbert.evaluation.result import Mistake, Passage
from glassbert.metrics.answers import Measure

Content = Mapping[str, Any]
"""A prediction as `predict` prints it."""


def mistakes(
    examples: Sequence[Example], contents: Sequence[Content], measure: Measure | None = None
) -> Iterator[Mistake]:
    """Yield what is wrong among the predictions.

    Args:
        measure: Says which answers to a question are the same.
    """
    for example, content in zip(examples, contents, strict=True):
        if isinstance(example, TextExample):
            found = _of_labels(example, content)
        elif isinstance(example, TagExample):
            found = _of_spans(example, content)
        else:
            assert measure is not None
            assert isinstance(example, AnswerExample)
            found = _of_answer(example, content, measure)
        if found is not None:
            yield found


def _of_labels(example: TextExample, content: Content) -> Mistake | None:
    if example.score is not None:
        gold, guess = f"{example.score:g}", f"{content['score']:.4g}"
        error = abs(example.score - content["score"])
    elif "labels" in content:
        right, given = set(example.labels), set(content["labels"])
        gold, guess = ", ".join(sorted(right)) or "none", ", ".join(sorted(given)) or "none"
        # How sure it was of the label that it is most wrong about.
        doubts = [1 - content["scores"][label] for label in right - given]
        error = max([*doubts, *(content["scores"][label] for label in given - right)], default=0.0)
    else:
        gold, guess = example.labels[0], content["label"]
        error = content["score"] if gold != guess else 0.0
    if not error:
        return None
    passages: tuple[Passage, ...] = (Passage("", example.text),)
    if example.pair is not None:
        passages = (Passage("first", example.text), Passage("second", example.pair))
    return Mistake(example.where, passages, gold, guess, error)


def _of_spans(example: TagExample, content: Content) -> Mistake | None:
    scores = {Span(span["start"], span["end"], span["label"]): span["score"] for span in content["spans"]}
    gold, guess = list(example.spans or ()), list(scores)
    missed = [span for span in gold if span not in scores]
    wrong = [span for span in guess if span not in gold]
    if not missed and not wrong:
        return None
    return Mistake(
        example.where,
        (Passage("", example.text, span_marks(gold, guess)),),
        _listed(example.text, missed),
        _listed(example.text, wrong),
        len(missed) + sum(scores[span] for span in wrong),
    )


def _of_answer(example: AnswerExample, content: Content, measure: Measure) -> Mistake | None:
    answers = example.answers or ()
    right = [answer.text for answer in answers]
    is_exact, _ = measure.best(right, content["answer"])
    if is_exact:
        return None
    places = [(answer.start, answer.start + len(answer.text)) for answer in answers]
    guess = None if content["start"] is None else (content["start"], content["end"])
    return Mistake(
        example.where,
        (
            Passage("question", example.question),
            Passage("context", example.context, answer_marks(places, guess)),
        ),
        right[0] if right else "no answer",
        content["answer"] or "no answer",
        content["score"],
    )


def _listed(text: str, spans: Sequence[Span]) -> str:
    return ", ".join(f"{text[span.start : span.end]} ({span.label})" for span in spans) or "nothing"

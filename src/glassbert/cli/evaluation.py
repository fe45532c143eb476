"""What a model got right and wrong in a file of examples, put together for the reports."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassbert.data.examples import AnswerExample, ReadOptions, Span, TagExample, TaskName, TextExample
from glassbert.data.readers.read import read_examples
from glassbert.errors import DataError
from glassbert.metrics.spans import compare
from glassbert.reports.evaluation import Evaluation, Mark, Mistake, Passage

if TYPE_CHECKING:
    from glassbert.inference.model import Model

MAX_MISTAKES = 200
"""The worst ones; more would only make the report slow."""


def evaluate_file(
    model: "Model",
    name: str,
    task: TaskName,
    path: Path,
    options: ReadOptions,
    tell: Callable[[str], None],
) -> Evaluation:
    """Read a file of labelled examples and measure the model on it."""
    kind = getattr(model.form, "kind", None)
    table = read_examples(task, path, replace(options, kind=kind))
    for note in table.notes:
        tell(note)
    for bad in table.bad:
        tell(f"left out {bad.where}: {bad.reason}")
    for example in table.examples:
        if not is_labelled(example, kind):
            raise DataError(f"{example.where}: no label; `evaluate` needs one in every row")
    evaluation = evaluation_of(model, name, table.examples)
    return replace(evaluation, data=str(path), notes=tuple(table.notes))


def evaluation_of(model: "Model", name: str, examples: Sequence[Any]) -> Evaluation:
    """Measure the model on examples."""
    form = model.form
    predictions = model.predict_examples(examples)
    ids = [one.ids for windows in form.inputs(examples, with_targets=False) for one in windows]
    unk_id = model.tokenizer.vocabulary.unk_id
    contents = [one.to_json() for one in predictions]
    found = sorted(mistakes(examples, contents), key=lambda mistake: -mistake.score)
    return Evaluation(
        task=form.name,
        model=name,
        data="",
        examples=len(examples),
        report=form.measure(examples, predictions),  # type: ignore[arg-type]
        headline=(form.best_by,),
        calibration=form.calibration(examples, predictions),
        mistakes=tuple(found[:MAX_MISTAKES]),
        truncated=sum(bool(content.get("truncated")) for content in contents),
        tokens=sum(map(len, ids)),
        unknown=sum(int((one == unk_id).sum()) for one in ids),
    )


def is_labelled(example: Any, kind: str | None) -> bool:
    """Whether it is known what is right for an example."""
    if isinstance(example, TextExample):
        return example.score is not None if kind == "regression" else kind == "multi" or bool(example.labels)
    return (example.spans if isinstance(example, TagExample) else example.answers) is not None


def mistakes(examples: Sequence[Any], contents: Sequence[dict[str, Any]]) -> Iterator[Mistake]:
    """Yield what the model got wrong; ``contents`` are its predictions as `predict` prints them."""
    for example, content in zip(examples, contents, strict=True):
        if isinstance(example, TextExample):
            found = _of_labels(example, content)
        elif isinstance(example, TagExample):
            found = _of_spans(example, content)
        else:
            found = _of_answer(example, content)
        if found is not None:
            yield found


def _of_labels(example: TextExample, content: dict[str, Any]) -> Mistake | None:
    if example.score is not None:
        gold, guess = f"{example.score:g}", f"{content['score']:.4g}"
        error = abs(example.score - content["score"])
    elif "labels" in content:
        right, given = set(example.labels), set(content["labels"])
        gold, guess = ", ".join(sorted(right)) or "none", ", ".join(sorted(given)) or "none"
        # How sure it was of the label that it is most wrong about.
        doubts = (1 - content["scores"][label] for label in right - given)
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


def _of_spans(example: TagExample, content: dict[str, Any]) -> Mistake | None:
    scores = {Span(span["start"], span["end"], span["label"]): span["score"] for span in content["spans"]}
    found = compare(example.spans or (), list(scores))
    if not found.missed and not found.wrong:
        return None
    marks = [Mark(span.start, span.end, span.label, "right") for span in found.right]
    marks += [Mark(span.start, span.end, span.label, "missed") for span in found.missed]
    marks += [Mark(span.start, span.end, span.label, "wrong") for span in found.wrong]
    error = len(found.missed) + sum(scores[span] for span in found.wrong)
    return Mistake(
        example.where,
        (Passage("", example.text, tuple(sorted(marks, key=lambda mark: mark.start))),),
        _listed(example.text, found.missed),
        _listed(example.text, found.wrong),
        error,
    )


def _of_answer(example: AnswerExample, content: dict[str, Any]) -> Mistake | None:
    right = [answer.text for answer in example.answers or ()]
    if content["answer"] in (right or [""]):
        return None
    marks = [Mark(one.start, one.start + len(one.text), "", "missed") for one in (example.answers or ())[:1]]
    if content["start"] is not None:
        marks.append(Mark(content["start"], content["end"], "", "wrong"))
    passages = (
        Passage("question", example.question),
        Passage("context", example.context, tuple(sorted(marks, key=lambda mark: mark.start))),
    )
    return Mistake(
        example.where,
        passages,
        right[0] if right else "no answer",
        content["answer"] or "no answer",
        content["score"],
    )


def _listed(text: str, spans: Sequence[Span]) -> str:
    return ", ".join(f"{text[span.start : span.end]} ({span.label})" for span in spans) or "nothing"

"""`Model.why`: one function for all methods that explain an answer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.data.examples import Example
from glassbert.data.rows.record import Unusable, text_of
from glassbert.data.rows.schema import Item
from glassbert.errors import UserError
from glassbert.glassbox.why.ablation import lens, occlusion, without_heads, without_layers
from glassbert.glassbox.why.attention import CAUTION, rollout
from glassbert.glassbox.why.explanation import Completeness, Explanation, Part
from glassbert.glassbox.why.gradients import integrated_gradients
from glassbert.glassbox.why.nearest import neighbouring_rows, neighbours_of_tokens
from glassbert.glassbox.why.subject import Subject
from glassbert.glassbox.why.task_subject import subject_of_task
from glassbert.glassbox.why.text_subject import subject_of_texts
from glassbert.glassbox.why.tokens import grouped
from glassbert.inference.model import Model
from glassbert.inference.predict import as_examples
from glassbert.inference.questions import Baseline, Method, Unit
from glassbert.model.torch_state import with_own_torch_state
from glassbert.sentence import Sentence
from glassbert.tasks.registry import task_of_head

LOOK_AT_TEXTS = ("tokens", "rows")
"""Methods that look at the texts and ask for no answer."""


@dataclass(frozen=True)
class _Asked:
    """What the user asked for."""

    model: Model
    subject: Subject
    example: Example | None
    unit: Unit
    baseline: Baseline
    steps: int | None
    segmenter: str | Path | None
    data: str | Path | None
    top: int


@dataclass(frozen=True)
class _Found:
    """What a method found."""

    parts: Sequence[Part]
    score: float | None = None
    unit: str = ""
    notes: Sequence[str] = ()
    completeness: Completeness | None = None


@with_own_torch_state
def why(
    model: Model,
    item: Item,
    *,
    method: Method = "gradients",
    target: str | None = None,
    unit: Unit = "token",
    baseline: Baseline = "mask",
    steps: int | None = None,
    segmenter: str | Path | None = None,
    data: str | Path | None = None,
    top: int = 10,
) -> Explanation:
    """Return why a model gives its answer to an item; see `Model.why`."""
    if top < 1:
        raise UserError(f"top={top}; expected at least 1")
    model.refuse_int8("an explanation")
    subject, example = _subject(model, item, target, method)
    if subject.read is None and method not in (*LOOK_AT_TEXTS, "rollout"):
        raise UserError(subject.why_not)
    asked = _Asked(model, subject, example, unit, baseline, steps, segmenter, data, top)
    found = _METHODS[method](asked)
    is_about_answer = found.score is not None
    has_probability = is_about_answer and subject.is_decision
    return Explanation(
        method=method,
        task=subject.task,
        texts=subject.texts,
        target=subject.target if is_about_answer or method == "rollout" else "",
        unit=found.unit or subject.unit,
        score=found.score,
        probability=_sigmoid(found.score) if found.score is not None and has_probability else None,
        parts=tuple(found.parts),
        notes=(*subject.notes, *found.notes),
        completeness=found.completeness,
    )


def _subject(model: Model, item: Item, target: str | None, method: Method) -> tuple[Subject, Example | None]:
    """Return what is explained, and the item as an example if the model has a task."""
    has_task = "task" in model.run or task_of_head(model.config.head) is not None
    example = as_examples(model.task, [item])[0] if has_task else None
    texts = example.texts if example else _texts(item)
    for number, text in enumerate(texts, start=1):
        if not text.strip():
            raise UserError(Sentence("text {number}: the text is empty; give one to explain", number=number))
        try:
            text_of({"text": text}, "text")
        except Unusable as problem:
            raise UserError(f"text {number}: {problem}") from None
    if example is None or method in LOOK_AT_TEXTS:
        return subject_of_texts(model, texts, target), example
    return subject_of_task(model, example, target), example


def _texts(item: Item) -> list[str]:
    """Return the text or the pair of an item for a model without a task."""
    if isinstance(item, Mapping):
        item = [item[key] for key in ("text", "text_a", "text_b", "pair") if key in item]
    texts = [item] if isinstance(item, str) else list(item)
    if len(texts) not in (1, 2) or not all(isinstance(text, str) for text in texts):
        raise UserError(f"expected a text or a pair of texts, got {len(texts)} parts")
    return texts


def _gradients(asked: _Asked) -> _Found:
    values, score, completeness = integrated_gradients(
        asked.model, asked.subject, baseline=asked.baseline, steps=asked.steps
    )
    parts, notes = _summed(asked, values, with_specials=False)
    return _Found(parts, score, notes=notes, completeness=completeness)


def _occlusion(asked: _Asked) -> _Found:
    subject = asked.subject
    groups, notes = grouped(subject.tokens, subject.texts, asked.unit, asked.segmenter)
    groups = [group for group in groups if not any(subject.tokens[one].is_fixed for one in group.members)]
    falls, score = occlusion(asked.model, subject, groups, asked.baseline)
    parts = [Part(group.name, fall, group.place) for group, fall in zip(groups, falls.tolist(), strict=True)]
    return _Found(parts, score, notes=notes)


def _rollout(asked: _Asked) -> _Found:
    parts, notes = _summed(asked, rollout(asked.model, asked.subject), with_specials=True)
    return _Found(parts, unit=Sentence("share"), notes=[CAUTION, *notes])


def _heads(asked: _Asked) -> _Found:
    return _Found(*without_heads(asked.model, asked.subject))


def _layers(asked: _Asked) -> _Found:
    return _Found(*without_layers(asked.model, asked.subject))


def _lens(asked: _Asked) -> _Found:
    return _Found(*lens(asked.model, asked.subject))


def _tokens(asked: _Asked) -> _Found:
    return _Found(neighbours_of_tokens(asked.model, asked.subject, asked.top), unit=Sentence("cosine"))


def _rows(asked: _Asked) -> _Found:
    parts, notes = neighbouring_rows(asked.model, asked.subject, asked.example, asked.data, asked.top)
    return _Found(parts, unit=Sentence("cosine"), notes=notes)


_METHODS = {
    "gradients": _gradients,
    "occlusion": _occlusion,
    "heads": _heads,
    "layers": _layers,
    "rollout": _rollout,
    "lens": _lens,
    "tokens": _tokens,
    "rows": _rows,
}


def _summed(
    asked: _Asked, values: NDArray[np.float64], *, with_specials: bool
) -> tuple[list[Part], list[str]]:
    """Return the sum of each group's tokens, given the value of each token of all inputs, (T,)."""
    subject = asked.subject
    groups, notes = grouped(subject.tokens, subject.texts, asked.unit, asked.segmenter)
    parts = []
    for group in groups:
        members = [subject.tokens[member] for member in group.members]
        if with_specials or not all(member.is_fixed for member in members):
            total = sum(float(values[subject.flat(member)].sum()) for member in members)
            parts.append(Part(group.name, total, group.place))
    return parts, notes


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0

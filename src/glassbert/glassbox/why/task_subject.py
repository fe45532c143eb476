"""From an item and a fine-tuned model to what is explained: one function for each task.

Legend: V variants, W inputs of one variant, C labels, P pieces of a span, N tokens of the input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from glassbert.data.examples import AnswerExample, Example, TagExample
from glassbert.errors import UserError
from glassbert.glassbox.why.explanation import Place, guess
from glassbert.glassbox.why.subject import LOG_ODDS, Subject, log_odds
from glassbert.glassbox.why.tokens import Spot, tokens_of
from glassbert.inference.model import Candidate, Model
from glassbert.model.bert import Output
from glassbert.sentence import Sentence
from glassbert.tasks.answer.spans import log_probabilities
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.classify.task import Classify
from glassbert.tasks.forward import raw_outputs
from glassbert.tasks.long_text import excerpts
from glassbert.tasks.tag.scheme import PieceSpan
from glassbert.tasks.tag.task import Tag, merged
from glassbert.tasks.task import Input
from glassbert.text.alignment import as_offsets, pieces_of_characters
from glassbert.text.windows import max_context

NUM_CANDIDATES = 5

Run = tuple[int, int]


def subject_of_task(model: Model, example: Example, target: str | None) -> Subject:
    """Return what is explained for an example of the model's task.

    Args:
        target: The answer to explain; the model's own when not given.
    """
    task = model.task
    if isinstance(task, Classify):
        return _classify(model, task, example, target)
    if isinstance(task, Tag):
        assert isinstance(example, TagExample)
        return _tag(model, task, example, target)
    if isinstance(task, Extract):
        assert isinstance(example, AnswerExample)
        return _answer(model, task, example, target)
    raise UserError(
        Sentence("`why` knows classify, pair, tag, answer and fill; the model does {task}", task=task.name)
    )


def _classify(model: Model, task: Classify, example: Any, target: str | None) -> Subject:
    inputs = task.inputs([example], with_targets=False)[0]
    if task.kind == "regression":
        label, chosen = 0, task.labels[0]
    else:
        chosen = target if target is not None else model.predict_examples([example])[0].to_json()["label"]
        label = _number(chosen, task.labels)
    if target not in (None, *task.labels):
        raise UserError(f"target={target!r}; a regression has the one target {chosen!r}")

    def logits(output: Output, num_variants: int) -> Tensor:
        assert output.labels is not None
        return output.labels.float().unflatten(0, (num_variants, -1)).mean(dim=1)  # (V, C)

    def read(output: Output, num_variants: int) -> Tensor:
        found = logits(output, num_variants)
        return log_odds(found, label) if task.kind == "single" else found[:, label]

    def candidates(output: Output, num_variants: int) -> list[tuple[Candidate, ...]]:
        return best_candidates(logits(output, num_variants), task.labels)

    return Subject(
        **_read_by_model(task, example, inputs, _spots_of_texts(task, example)),
        target=Sentence("label {label!r}", label=chosen) if task.kind != "regression" else chosen,
        unit=Sentence("score") if task.kind == "regression" else LOG_ODDS,
        read=read,
        is_decision=task.kind != "regression",
        looks_from=((0,),) * len(inputs),
        candidates=candidates if task.kind == "single" else None,
        notes=_cut_notes(inputs),
    )


def _tag(model: Model, task: Tag, example: TagExample, target: str | None) -> Subject:
    inputs = task.inputs([example], with_targets=False)
    logits = merged(inputs[0], raw_outputs(task, model.engine, inputs)[0])  # (N, C)
    offsets = as_offsets(task.tokenizer.pieces_of(example.text).offsets)
    start, end, label = _span(model, task, example, target)
    runs = pieces_of_characters(offsets, [start], [end])
    first, stop = int(runs.start[0]), int(runs.stop[0])
    if first == stop:
        raise UserError(f"target={target!r}: these characters have no token; name a word of the text")
    if label is None:
        tags = logits[first:stop].argmax(axis=1)
    else:
        tags = task.tag_set.encode([PieceSpan(0, stop - first, label)], stop - first)
    own = max_context([one.window for one in inputs[0]])
    number = next(index for index, part in enumerate(own) if part.start <= first < part.stop)
    chosen = inputs[0][number]
    positions = [1 + piece - chosen.window.start for piece in range(first, min(stop, chosen.window.stop))]
    gold = torch.from_numpy(tags[: len(positions)])

    def read(output: Output, num_variants: int) -> Tensor:
        assert output.labels is not None
        by_variant = output.labels.float().unflatten(0, (num_variants, -1))[:, positions]  # (V, P, C)
        return log_odds(by_variant, gold.to(by_variant.device)).mean(dim=1)

    names = " ".join(task.tag_set.names[tag] for tag in tags)
    note = Sentence("the CRF's scores of which tag follows which are not part of this number")
    notes = (note,) * bool(task.extra)
    return Subject(
        **_read_by_model(task, example, [chosen], [_spots_of_window(0, offsets, chosen)]),
        target=Sentence("{words!r} as {label}", words=example.text[start:end], label=label or names),
        read=read,
        is_decision=len(positions) == 1,
        looks_from=(tuple(positions),),
        notes=(*notes, *_window_notes(inputs[0])),
    )


def _span(model: Model, task: Tag, example: TagExample, target: str | None) -> tuple[int, int, str | None]:
    """Return the characters and the label that are asked about; no label means the tags as they are.

    Args:
        target: A part of the text, a label, or TEXT=LABEL.
    """
    found = model.predict_examples([example])[0].to_json()["spans"]
    if target is None:
        if not found:
            raise UserError(
                Sentence(
                    "the model finds no span here; name a part of the text, or TEXT=LABEL, as the target"
                )
            )
        best = max(found, key=lambda span: span["score"])
        return best["start"], best["end"], best["label"]
    labels = task.tag_set.labels
    words, _, label = target.rpartition("=")
    if not words or words not in example.text:
        words, label = target, ""
    for span in found:
        if span["text"] == words and label in ("", span["label"]) or span["label"] == target:
            return span["start"], span["end"], span["label"]
    if label and label not in labels:
        raise UserError(
            f"label {label!r} is not one of the model's: {', '.join(labels)}{guess(label, labels)}"
        )
    start = example.text.find(words)
    if start < 0 or not words:
        if target in labels:
            raise UserError(f"the model finds no {target} here; name a part of the text, or TEXT={target}")
        raise UserError(
            f"target={target!r} is not part of the text, nor a label of the model; expected a part of the "
            f"text, one of {', '.join(labels)}, or TEXT=LABEL{guess(target, labels)}"
        )
    return start, start + len(words), label or None


def _answer(model: Model, task: Extract, example: AnswerExample, target: str | None) -> Subject:
    inputs = task.inputs([example], with_targets=False)
    raw = raw_outputs(task, model.engine, inputs)[0]
    offsets = as_offsets(task.tokenizer.pieces_of(example.context).offsets)
    run, words = _answer_run(model, example, offsets, target)
    scored = []
    for one, logits in zip(inputs[0], raw, strict=True):
        if run is None or (one.window.start <= run[0] and run[1] <= one.window.stop):
            # Places as in `raw`: [CLS], which means no answer, then the pieces of the context.
            ends = (0, 0) if run is None else (run[0] - one.window.start + 1, run[1] - one.window.start)
            known = log_probabilities(logits, 1.0)
            scored.append((float(known[ends[0], 0] + known[ends[1], 1]), one, ends))
    if not scored:
        raise UserError(f"target={target!r} fits into none of the windows that the model reads; shorten it")
    _, chosen, (first, last) = max(scored, key=lambda row: row[0])
    num_pieces, length = chosen.window.num_pieces, len(chosen)
    places = [0, *range(length - 1 - num_pieces, length - 1)]

    def read(output: Output, num_variants: int) -> Tensor:
        assert output.span is not None
        logits = output.span.float().unflatten(0, (num_variants, -1))[:, places]  # (V, N, 2)
        return log_odds(logits[..., 0], first) + log_odds(logits[..., 1], last)

    question = as_offsets(task.tokenizer.pieces_of(example.question).offsets)
    spots = [
        None,
        *(Spot(Place(0, *map(int, span)), piece) for piece, span in enumerate(question)),
        *_spots_of_window(1, offsets, chosen),
    ]
    return Subject(
        **_read_by_model(task, example, [chosen], [spots]),
        target=Sentence("answer {words!r}, its start and its end", words=words)
        if run
        else Sentence("no answer"),
        read=read,
        is_decision=False,
        looks_from=(tuple(dict.fromkeys((places[first], places[last]))),),
        notes=_window_notes(inputs[0]),
    )


def _answer_run(
    model: Model, example: AnswerExample, offsets: Any, target: str | None
) -> tuple[Run | None, str]:
    """Return the pieces of the answer that is asked about, None for no answer, and its words."""
    if target is None:
        found = model.predict_examples([example])[0].to_json()
        if found["start"] is None:
            return None, ""
        start, words = found["start"], found["answer"]
    elif not target:
        return None, ""
    else:
        start, words = example.context.find(target), target
        if start < 0:
            raise UserError(f"target={target!r} is not part of the context; name one that is")
    runs = pieces_of_characters(offsets, [start], [start + len(words)])
    if runs.start[0] == runs.stop[0]:
        raise UserError(f"target={target!r}: these characters have no token; name a word of the context")
    return (int(runs.start[0]), int(runs.stop[0])), words


def best_candidates(logits: Tensor, names: Sequence[str]) -> list[tuple[Candidate, ...]]:
    """Return the likeliest choices of each row of (V, C) logits."""
    probs = logits.softmax(dim=-1)[:, : len(names)]
    best = probs.topk(min(NUM_CANDIDATES, probs.size(1)))
    return [
        tuple(Candidate(names[index], score) for index, score in zip(indices, values, strict=True))
        for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


def _number(label: str, labels: Sequence[str]) -> int:
    if label not in labels:
        known = ", ".join(labels)
        raise UserError(f"label {label!r} is not one of the model's: {known}{guess(label, labels)}")
    return list(labels).index(label)


def _read_by_model(
    task: Any, example: Example, inputs: Sequence[Input], spots: Sequence[Sequence[Spot | None]]
) -> dict[str, Any]:
    """Return the fields of a subject that say what the model reads."""
    ids = tuple(one.ids for one in inputs)
    return {
        "task": task.name,
        "texts": example.texts,
        "ids": ids,
        "segments": tuple(one.segments for one in inputs),
        "tokens": tokens_of(ids, spots, task.tokenizer.vocabulary.pieces),
    }


def _spots_of_texts(task: Classify, example: Example) -> list[list[Spot | None]]:
    """Return where the tokens of each input come from, for a text or a pair that may be cut or divided."""
    offsets = [task.tokenizer.pieces_of(text).offsets for text in example.texts]
    # The same cuts as the task makes, of numbers of pieces instead of their ids.
    parts = excerpts(
        range(len(offsets[0])),
        range(len(offsets[1])) if len(offsets) > 1 else None,
        max_length=task.max_length,
        long_text=task.settings.long_text,
        stride=task.settings.stride,
    )
    spots: list[list[Spot | None]] = []
    for part in parts:
        row: list[Spot | None] = [None]
        for number, pieces in enumerate((part.first, part.second)):
            if pieces is not None:
                row += [Spot(Place(number, *offsets[number][piece]), piece) for piece in pieces]
                row.append(None)
        spots.append(row)
    return spots


def _spots_of_window(text: int, offsets: Any, one: Input) -> list[Spot | None]:
    """Return where the tokens of a window come from, with the specials on both sides."""
    pieces = range(one.window.start, one.window.stop)
    return [None, *(Spot(Place(text, *map(int, offsets[piece])), piece) for piece in pieces), None]


def _cut_notes(inputs: Sequence[Input]) -> tuple[str, ...]:
    num_cut = inputs[0].num_cut
    if num_cut:
        return (cut_note(num_cut),)
    note = Sentence("read in {count} windows, whose logits are averaged", count=len(inputs))
    return (note,) if len(inputs) > 1 else ()


def cut_note(num_cut: int) -> Sentence:
    """Return the note on a text that was too long."""
    return Sentence("{count:,} tokens were cut: the model never saw them", count=num_cut)


def _window_notes(inputs: Sequence[Input]) -> tuple[str, ...]:
    note = Sentence("one of {count} windows: the one that gave this answer", count=len(inputs))
    return (note,) if len(inputs) > 1 else ()

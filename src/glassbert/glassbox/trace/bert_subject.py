"""A BERT's pass, whatever its head: what it reads, and the loss that the target defines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.trace.graph import Graph
from glassbert.glassbox.trace.networks import bert_graph
from glassbert.glassbox.trace.subject import (
    LOSS,
    Number,
    Reading,
    Subject,
    Weights,
    chosen_number,
    is_place,
    refuse_loss,
    whole,
)
from glassbert.glassbox.trace.task_loss import (
    LABELS_OF_ROWS,
    ONE_LABEL,
    add_loss,
    chosen_input,
    example_of,
    own_target,
    task_loss,
)
from glassbert.inference.model import Model
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.model.tap import Tap
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.registry import task_of_head
from glassbert.tasks.task import Input, Task
from glassbert.text.wordpiece.tokenizer import Encoding

PAIR_LABELS = ("IsNext", "NotNext")
"""In the order of the NSP head's logits."""


@dataclass
class Plan:
    """What is known of a pass before it runs."""

    reading: Reading
    places: Sequence[int] = ()
    """Where the MLM head predicts."""
    pieces: Sequence[int] | None = None
    """The right piece at each place."""
    pair_label: int | None = None
    """0 for IsNext, 1 for NotNext."""
    example: Input | None = None
    """The labelled input of a task."""
    given: dict[str, Tensor] = field(default_factory=dict)
    target: object = None

    @property
    def has_loss(self) -> bool:
        """Whether the right answer is known."""
        return self.pieces is not None or self.pair_label is not None or self.example is not None

    def batch(self) -> Batch:
        """Return the network's input."""
        return Batch.from_lists([self.reading.ids], [self.reading.segments])


def bert_subject(model: Model, text: str, pair: str | None, target: object, *, grad: bool) -> Subject:
    """Return the pass of a text, or of a pair of texts.

    Args:
        target: What is right, in the terms of the head; or a number by its place.
        grad: Whether a gradient is wanted: then the model's own prediction is right if nothing else is.
    """
    number_target = target if is_place(target) else None
    target = None if number_target else target
    wants_loss = grad and number_target is None
    has_task = bool(model.run.get("task", {}).get("name") or task_of_head(model.config.head))
    make = _task_plan if has_task else _pretraining_plan
    plan = make(model, text, pair, target, wants_loss)
    graph = bert_graph(model.config, num_tokens=len(plan.reading.ids), num_predicted=len(plan.places))
    _add_losses(graph, model, plan)
    pieces = model.tokenizer.vocabulary.pieces
    columns = {"label": model.config.labels, "vocabulary": pieces, "side": PAIR_LABELS}
    number = chosen_number(number_target, graph, columns)
    if wants_loss and not plan.has_loss and number is None:
        # A regression's own prediction has a loss of zero: differentiate the prediction instead.
        number = Number("head.labels.logits", (0, 0))
    batch = plan.batch()
    given = {
        "emb.ids": batch.ids,
        "emb.segments": batch.segments,
        "emb.positions": batch.layout.positions,
        "head.mlm.places": whole(plan.places),
        **plan.given,
    }
    extra = model.task.extra if has_task else None
    return Subject(
        weights=Weights(model.network, extra),
        graph=graph,
        run=lambda weights, tap: _run(model, plan, weights, tap),
        given=given,
        source=plan.reading,
        differentiated=number or (Number(LOSS) if plan.has_loss else None),
        target=plan.target,
    )


def _run(model: Model, plan: Plan, weights: Weights, tap: Tap) -> None:
    network, device = cast(Bert, weights.network), next(weights.parameters()).device
    places = whole(plan.places).to(device) if plan.places else None
    output = network(plan.batch().to(device), predict_at=places, tap=tap)
    if plan.example is not None:
        tap(LOSS, task_loss(model.task, weights.extra, output, plan.example))
        return
    losses = []
    if plan.pieces is not None:
        assert output.mlm is not None
        labels = whole(plan.pieces).to(device)
        losses.append(tap("mlm_loss", F.cross_entropy(output.mlm.float(), labels, reduction="sum")))
    if plan.pair_label is not None:
        assert output.nsp is not None
        label = whole([plan.pair_label]).to(device)
        losses.append(tap("nsp_loss", F.cross_entropy(output.nsp.float(), label)))
    if losses:
        tap(LOSS, torch.stack(losses).sum())


def _add_losses(graph: Graph, model: Model, plan: Plan) -> None:
    if plan.example is not None:
        plan.given |= add_loss(graph, model.task, plan.example)
        return
    parts = {}
    if plan.pieces is not None:
        labels = graph.given("head.mlm.labels", "predicted")
        plan.given[labels] = whole(plan.pieces)
        inputs = {"logits": "head.mlm.logits", "labels": labels}
        parts["mlm_loss"] = graph.add("mlm_loss", LABELS_OF_ROWS, (), inputs)
    if plan.pair_label is not None:
        inputs = {"logits": "head.nsp.logits"}
        parts["nsp_loss"] = graph.add("nsp_loss", ONE_LABEL, (), inputs, label=plan.pair_label)
    if parts:
        graph.add(LOSS, " + ".join(parts), (), parts)


def _task_plan(model: Model, text: str, pair: str | None, target: object, wants_loss: bool) -> Plan:
    task, texts = model.task, (text,) if pair is None else (text, pair)
    example = example_of(task, texts)
    if target is None and wants_loss:
        (prediction,) = model.predict_examples([example])
        target = own_target(task, prediction)
    is_labelled = target is not None
    one = chosen_input(
        task, example_of(task, texts, target) if is_labelled else example, with_target=is_labelled
    )
    num_pieces = sum(map(len, model.tokenizer.ids_of_batch(texts)))
    reading = Reading(
        tokens=tuple(model.tokenizer.vocabulary.pieces[id_] for id_ in one.ids),
        ids=tuple(one.ids.tolist()),
        segments=tuple(one.segments.tolist()),
        offsets=_offsets(task, one, texts),
        truncated=len(one) - 1 - len(texts) < num_pieces,
    )
    return Plan(reading, example=one if is_labelled else None, target=target)


def _offsets(task: Task[Any, Any], one: Input, texts: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Return the characters behind each token of an input."""
    keep = task.settings.long_text
    if keep != "window":
        encoding = task.tokenizer.encode(*texts, max_length=task.max_length, keep=keep, parse_specials=False)
        assert encoding.ids == one.ids.tolist()
        return tuple(encoding.offsets)
    pieces = task.tokenizer.pieces_of_batch(texts)
    # Of two texts, a question stays whole, and so does the shorter one of a pair.
    is_second = len(texts) == 2 and (isinstance(task, Extract) or len(pieces[0].ids) <= len(pieces[1].ids))
    found: list[tuple[int, int]] = []
    for segment, of_text in enumerate(pieces):
        start = one.window.start if segment == is_second else 0
        num_read = int((one.segments == segment).sum()) - 1 - (segment == 0)
        found += [(0, 0)] * (segment == 0) + of_text.offsets[start : start + num_read] + [(0, 0)]
    return tuple(found)


def _pretraining_plan(model: Model, text: str, pair: str | None, target: object, wants_loss: bool) -> Plan:
    (encoding,) = model.tokenize([text], None if pair is None else [pair])
    plan = Plan(_reading(encoding))
    network = model.network
    wanted = _wanted(target, model)
    if network.mlm is None and network.nsp is None and (wanted or wants_loss):
        raise refuse_loss(model.config.head)
    if network.mlm is not None:
        _plan_pieces(plan, model, encoding, wanted.get("mlm"))
    if "nsp" in wanted:
        plan.pair_label = PAIR_LABELS.index(str(wanted["nsp"]))
    if wants_loss and not wanted:
        _take_own_prediction(plan, model, has_pair=pair is not None)
    plan.target = wanted or None
    return plan


def _wanted(target: object, model: Model) -> dict[str, object]:
    """Return the target of each pre-training loss."""
    if target is None:
        return {}
    found: dict[str, Any]
    if isinstance(target, Mapping):
        found = dict(target)
    else:
        found = {"nsp" if target in PAIR_LABELS or model.network.mlm is None else "mlm": target}
    has = {"mlm": model.network.mlm, "nsp": model.network.nsp}
    for name, value in found.items():
        if has.get(name) is None:
            known = ", ".join(part for part in has if has[part] is not None)
            if not known:
                raise refuse_loss(model.config.head)
            raise UserError(f"target for {name!r}, but this model learns {known}; leave it out")
        if name == "nsp" and value not in PAIR_LABELS:
            raise UserError(f"target={value!r}; expected {' or '.join(PAIR_LABELS)}")
    return found


def _plan_pieces(plan: Plan, model: Model, encoding: Encoding, wanted: object) -> None:
    """Choose the places where the MLM head predicts, and what is right there."""
    vocabulary, ids = model.tokenizer.vocabulary, encoding.ids
    masks = [place for place, id_ in enumerate(ids) if id_ == vocabulary.mask_id]
    plain = [place for place, segment in enumerate(encoding.offsets) if segment != (0, 0)]
    plan.places = masks or plain
    if wanted is None:
        return
    if isinstance(wanted, str):
        right = model.tokenizer.pieces_of(wanted).ids
    elif isinstance(wanted, Sequence) and all(isinstance(piece, str) for piece in wanted):
        right = [_piece_id(piece, vocabulary.ids) for piece in wanted]
    else:
        raise UserError(f"target={wanted!r}; expected the true text, or a list with a piece for each [MASK]")
    inside = [place for place in range(len(ids)) if plan.reading.segments[place] == 0][1:-1]
    if len(right) == len(inside):
        plan.places = [at for at, id_ in zip(inside, right, strict=True) if ids[at] != id_]
        plan.pieces = [id_ for at, id_ in zip(inside, right, strict=True) if ids[at] != id_]
        if not plan.places:
            raise UserError("text and target are the same; hide a word of the text with [MASK]")
    elif masks and len(right) == len(masks):
        plan.places, plan.pieces = masks, right
    else:
        raise UserError(
            f"the target has {len(right)} pieces; expected {len(inside)}, as the text, or {len(masks)}, "
            "one for each [MASK]"
        )


def _piece_id(piece: str, ids: Mapping[str, int]) -> int:
    if piece not in ids:
        raise UserError(f"target piece {piece!r} is not in the vocabulary; `glassbert tokenize` shows pieces")
    return ids[piece]


@torch.no_grad()
def _take_own_prediction(plan: Plan, model: Model, *, has_pair: bool) -> None:
    """Take what the model predicts as right; without a [MASK], the pieces themselves."""
    network, mask_id = model.network, model.tokenizer.vocabulary.mask_id
    output: Output = network(plan.batch(), predict_at=whole(plan.places) if plan.places else None)
    if plan.places:
        own = [plan.reading.ids[place] for place in plan.places]
        if mask_id in own:
            assert output.mlm is not None
            own = output.mlm[:, : len(model.tokenizer)].argmax(dim=1).tolist()
        plan.pieces = own
    if output.nsp is not None and (has_pair or not plan.places):
        plan.pair_label = int(output.nsp.argmax())


def _reading(encoding: Encoding) -> Reading:
    return Reading(
        tokens=tuple(encoding.pieces),
        ids=tuple(encoding.ids),
        segments=tuple(encoding.segments),
        offsets=tuple(encoding.offsets),
        truncated=encoding.truncated,
    )

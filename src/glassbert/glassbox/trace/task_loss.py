"""The loss of a task for one example, with the formula of each of the tasks that come with glassbert."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassbert.data.examples import Example
from glassbert.errors import DataError, ModelError, UserError
from glassbert.glassbox.trace.graph import Graph
from glassbert.glassbox.trace.subject import LOSS, whole
from glassbert.model.bert import Output
from glassbert.model.crf import SCALE as CRF_SCALE
from glassbert.tasks.answer.predictions import AnswerPrediction
from glassbert.tasks.answer.task import IGNORED as NO_PLACE
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.classify.task import Classify
from glassbert.tasks.tag.predictions import TagPrediction
from glassbert.tasks.tag.task import Tag
from glassbert.tasks.task import Input, Prediction, Task

ONE_LABEL = "-log(softmax(logits))[0, label]"
LABELS_OF_ROWS = "-sum(take(log(softmax(logits)), labels))"


def example_of(task: Task[Any, Any], texts: Sequence[str], target: object = None) -> Example:
    """Return texts as an example of the task, labelled by ``target`` unless that is None.

    Args:
        target: A label, several labels or a number; spans; an answer; or a mapping of columns.
    """
    schema = next((one for one in task.schemas if len(one.required) == len(texts)), task.schemas[0])
    if len(schema.required) != len(texts):
        wanted = " and ".join(schema.required)
        raise UserError(f"{task.name} reads {wanted}, got {len(texts)} text{'s' * (len(texts) > 1)}")
    item: dict[str, Any] = dict(zip(schema.required, texts, strict=True))
    if target is not None:
        item |= target if isinstance(target, Mapping) else {_role(task): target}
    example: Example = schema.from_item(item, "trace")
    if target is not None and not task.is_labelled(example):
        raise UserError(f"target={target!r} does not say what is right for {task.name}")
    return example


def _role(task: Task[Any, Any]) -> str:
    if isinstance(task, Tag):
        return "spans"
    if isinstance(task, Extract):
        return "answers"
    return "score" if task.kind == "regression" else "label"


def own_target(task: Task[Any, Any], prediction: Prediction) -> object:
    """Return what the model itself predicts, as a target; None where its loss would be zero."""
    if isinstance(prediction, ClassPrediction):
        if prediction.labels is not None:
            return list(prediction.labels)
        return prediction.label
    if isinstance(prediction, TagPrediction):
        return [{"start": one.start, "end": one.end, "label": one.label} for one in prediction.spans]
    if isinstance(prediction, AnswerPrediction):
        found = {"text": prediction.answer, "answer_start": prediction.start}
        return [found] if prediction.answer else []
    raise ModelError(f"{task.name} says no target by itself; give one: target=...")


def chosen_input(task: Task[Any, Any], example: Example, *, with_target: bool) -> Input:
    """Return the input to trace: the first window, or the first that holds the answer."""
    (windows,) = task.inputs([example], with_targets=with_target)
    if not with_target or not isinstance(task, Extract):
        return windows[0]
    usable = [one for one in windows if one.target is not None and int(one.target[0]) != NO_PLACE]
    if not usable:
        raise DataError("the answer has no piece of its own in the context; give a longer one")
    return next((one for one in usable if one.target is not None and one.target[0] > 0), usable[0])


def task_loss(task: Task[Any, Any], extra: nn.Module | None, output: Output, one: Input) -> Tensor:
    """Return the loss of one input.

    Args:
        extra: Takes the place of the task's own extra weights.
    """
    if extra is not None:
        task = replace(task, extra=cast(Any, extra))
    losses = task.losses(output, [one])
    return torch.stack([weight * losses[name] for name, weight in task.loss_weights.items()]).sum()


def add_loss(graph: Graph, task: Task[Any, Any], one: Input) -> dict[str, Tensor]:
    """Add the step of the loss; return the whole numbers that its formula names."""
    assert one.target is not None
    logits, target = f"head.{'span' if isinstance(task, Extract) else 'labels'}.logits", one.target
    if isinstance(task, Classify) and task.kind == "single":
        graph.add(LOSS, ONE_LABEL, (), {"logits": logits}, label=int(target[0]))
        return {}
    if isinstance(task, Classify) and task.kind == "regression":
        graph.add(LOSS, "(logits[0, 0] - label) ** 2", (), {"logits": logits}, label=float(target[0]))
        return {}
    if isinstance(task, Classify):
        labels = graph.given("loss.labels", "label")
        formula = "mean(log(1 + exp(logits)) - labels * logits)"
        graph.add(LOSS, formula, (), {"logits": logits, "labels": labels})
        return {"loss.labels": whole(target.astype(int).tolist())}
    if isinstance(task, Tag):
        places = np.flatnonzero((target >= 0) & (target < len(task.tag_set)))
        return _add_places(graph, task, logits, places.tolist(), target[places].tolist())
    if isinstance(task, Extract):
        first = len(one) - 1 - one.window.num_pieces
        return _add_span(graph, logits, [0, *range(first, len(one) - 1)], target.tolist())
    graph.add(LOSS, f"{task.name}_loss(logits)", (), {"logits": logits})
    return {}


def _add_places(
    graph: Graph, task: Tag, logits: str, places: list[int], labels: list[int]
) -> dict[str, Tensor]:
    graph.sizes = {**graph.sizes, "judged": len(places)}
    inputs = {
        "logits": logits,
        "places": graph.given("loss.places", "judged"),
        "labels": graph.given("loss.labels", "judged"),
    }
    if task.extra is None:
        graph.add(LOSS, LABELS_OF_ROWS.replace("logits", "logits[places]"), (), inputs)
    else:
        formula = "crf_loss(log(softmax(logits[places])), labels, scale * transitions)"
        graph.add(LOSS, formula, (), inputs, {"transitions": "extra.weight"}, scale=CRF_SCALE)
    return {"loss.places": whole(places), "loss.labels": whole(labels)}


def _add_span(graph: Graph, logits: str, places: list[int], labels: list[int]) -> dict[str, Tensor]:
    graph.sizes = {**graph.sizes, "place": len(places)}
    inputs = {
        "logits": logits,
        "places": graph.given("loss.places", "place"),
        "labels": graph.given("loss.labels", "side"),
    }
    graph.add(LOSS, LABELS_OF_ROWS.replace("logits", "logits[places].mT") + " / 2", (), inputs)
    return {"loss.places": whole(places), "loss.labels": whole(labels)}

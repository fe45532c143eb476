"""The model's answers to a text: the places where it answers, each with bars to draw or with one answer."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.glassbox.trace.trace import Trace
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.tasks.answer.predictions import AnswerPrediction
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.tag.predictions import TagPrediction

TOP = 5


def answer_of(model: Model | Translator, trace: Trace) -> list[dict[str, Any]]:
    """Return the places where the model answers, each with its likeliest answers, best first."""
    if isinstance(model, Translator):
        return [_place("translation", said=trace.info.target)]
    has_task = any(part in model.config.parts for part in ("labels", "span"))
    return _of_pretraining(model, trace) + (_of_task(model, trace) if has_task else [])


def _of_pretraining(model: Model, trace: Trace) -> list[dict[str, Any]]:
    places = []
    if "head.mlm.logits" in trace:
        pieces = model.tokenizer.vocabulary.pieces
        for row, token in enumerate(trace["head.mlm.places"].tolist()):
            shares = probabilities(trace["head.mlm.logits", row])
            best = np.argsort(-shares[: len(pieces)], kind="stable")[:TOP]
            bars = {pieces[place]: float(shares[place]) for place in best}
            places.append(_place("mlm", bars, token=int(token)))
    if "head.nsp.logits" in trace and trace.info.pair is not None:
        shares = probabilities(trace["head.nsp.logits", 0])
        places.append(_place("nsp", dict(zip(("IsNext", "NotNext"), shares.tolist(), strict=True))))
    return places


def _of_task(model: Model, trace: Trace) -> list[dict[str, Any]]:
    """Return the prediction as `predict` gives it: calibrated, in whole spans."""
    found = model.predict([item_of(model, trace.info.text, trace.info.pair)])[0]
    if isinstance(found, ClassPrediction) and found.label is None:
        return [_place("number", said=found.score)]
    if isinstance(found, ClassPrediction):
        return [_place("label", dict(sorted(found.scores.items(), key=lambda pair: -pair[1])[:TOP]))]
    if isinstance(found, AnswerPrediction):
        return [_place("answer", {one.answer: one.score for one in found.n_best[:TOP]})]
    if isinstance(found, TagPrediction):
        return [_place("span", {f"{span.text} · {span.label}": span.score for span in found.spans})]
    return []


def item_of(model: Model, text: str, pair: str | None) -> Any:
    """Return the texts as `predict` takes them."""
    if "span" in model.config.parts:
        return {"question": text, "context": pair or ""}
    return text if pair is None else (text, pair)


def _place(
    kind: str,
    bars: Mapping[str, float] = MappingProxyType({}),
    *,
    token: int | None = None,
    said: str | float | None = None,
) -> dict[str, Any]:
    """Return a place for the page.

    Args:
        bars: The likeliest answers with their probabilities.
        token: The token that is answered for; the whole text when None.
        said: The answer, where the model gives one without a probability.
    """
    return {
        "kind": kind,
        "token": token,
        "said": said,
        "bars": [{"label": label, "score": score} for label, score in bars.items()],
    }


def probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the probabilities of logits, in float64."""
    powers = np.exp(logits.astype(np.float64) - logits.max())
    return powers / powers.sum()

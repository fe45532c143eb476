"""The model on the page and what was recorded of it: traces, their parts, single numbers."""

import secrets
from collections import OrderedDict
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from glassbert.config import PRESETS, TRANSLATOR_PRESETS
from glassbert.errors import UserError
from glassbert.glassbox.doctor.examine import doctor
from glassbert.glassbox.trace.api import trace_unchanged
from glassbert.glassbox.trace.cell import explain, python_of
from glassbert.glassbox.trace.page import page as trace_page
from glassbert.glassbox.trace.trace import Trace
from glassbert.inference.devices import Place
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.questions import Method
from glassbert.inference.translator import Translator
from glassbert.page import scripts
from glassbert.page.answer import answer_of, item_of
from glassbert.page.examples import examples_for
from glassbert.page.gradients import check_by_moving, gradients_of, weight_beside_gradient
from glassbert.page.labelled import LabelledRows
from glassbert.page.limits import MAX_CHARACTERS, check_texts
from glassbert.page.reasons import reasons_of
from glassbert.page.refusals import GoneError, Refusal
from glassbert.page.whole_words import words_of
from glassbert.page.words import Words
from glassbert.sentence import Language, in_both
from glassbert.version import __version__

CACHE_BYTES = 512 << 20
"""Traces that are kept; the least recently viewed go first."""
MIN_TRACES = 2
"""Kept whatever their size: two texts can always be compared."""
THUMBNAIL = 64
"""The longest side of a head's thumbnail."""

Array = NDArray[Any]


class Workbench:
    """One model and its latest traces. One thread uses it at a time."""

    def __init__(
        self,
        source: str | Path,
        *,
        other: str | Path | None = None,
        data: str | Path | None = None,
        place: Place | None = None,
    ) -> None:
        """Load a model.

        Args:
            other: A second model, to be compared with the first.
            data: A file of rows that the model is judged by.
            place: Where the models run; as `load` takes it.
        """
        self.source = str(source)
        self.model = load(source, **(place or {}))
        self.model.refuse_int8("the page")
        self.other = None if other is None else Workbench(other, place=place)
        self.data = None if data is None else LabelledRows(self.model, self.source, data)
        self._sha256: str | None = None
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        # Apart from the others, and never more than one: it holds a gradient for every weight.
        self._with_gradients: dict[str, Trace] = {}
        self._parameters = dict(self.model.network.named_parameters())
        self.presets = frozenset({*PRESETS, *TRANSLATOR_PRESETS})

    @property
    def name(self) -> str:
        """What the page calls the model: never a path."""
        return Path(self.source).name

    def meta(self) -> dict[str, Any]:
        """Return what the page must know before it asks for anything."""
        return {
            "model": self.name,
            "version": __version__,
            "kind": "bert" if isinstance(self.model, Model) else "translator",
            "config": asdict(self.model.config),
            "examples": examples_for(self.model),
            "other": self.other and self.other.name,
            "data": self.data and self.data.path.name,
            "limits": {"characters": MAX_CHARACTERS, "tokens": self.model.max_length},
        }

    def record(self, text: str, pair: str | None) -> dict[str, Any]:
        """Record a pass; return its id and all but its numbers."""
        key, found = self._recorded(text, pair)
        self._traces[key] = found
        self._make_room()
        # Without the folder: no answer names a path of the disk.
        model = {"sha256": found.model_sha256}
        return {"id": key, **found.to_json(), "model": model, "places": answer_of(self.model, found)}

    def _make_room(self) -> None:
        """Drop the traces that have not been viewed for longest."""
        while len(self._traces) > MIN_TRACES and sum(t.nbytes for t in self._traces.values()) > CACHE_BYTES:
            self._traces.popitem(last=False)

    def _recorded(self, text: str, pair: str | None, **how: Any) -> tuple[str, Trace]:
        """Record a pass; return a new key, and its trace."""
        check_texts(text, pair)
        found = trace_unchanged(self.model, text, pair, sha256=self._sha256, **how)
        self._sha256 = found.model_sha256
        return secrets.token_hex(8), found

    def gradients(self, text: str, pair: str | None, target: Any) -> dict[str, Any]:
        """Record a pass and its gradients; return its id, its loss, and the size of each weight's gradient.

        Args:
            target: What is right; the model's own answer when None.
        """
        self._with_gradients.clear()
        key, found = self._recorded(text, pair, grad=True, target=target)
        self._with_gradients[key] = found
        return {"id": key, **gradients_of(found, self._parameters, self._weight)}

    def weight(self, key: str, name: str) -> bytes:
        """Return a part of a weight and its gradient."""
        return weight_beside_gradient(self.trace_of(key), name, self._weight)

    def slope(self, key: str, name: str) -> dict[str, str]:
        """Return the script that checks a gradient by moving the weight."""
        return {"python": check_by_moving(self.source, self.trace_of(key), name)}

    def words(self, key: str) -> dict[str, Any]:
        """Return the tokens of a text that make up its words; Chinese words need a segmenter."""
        return words_of(self.trace_of(key))

    def share(self, key: str, language: Language) -> str:
        """Return the trace as one self-contained HTML file."""
        return trace_page(self.trace_of(key), language)

    @cached_property
    def vocabulary(self) -> Words:
        """The token vectors of the model."""
        return Words.of(self.model, self.source)

    def rows_of_data(self) -> dict[str, Any]:
        """Return the rows of the user's file, the worst first."""
        if self.data is None:
            raise Refusal("no_data", "no file of rows: end the page, and start it again with --data FILE")
        return self.data.judged

    def bench_of(self, key: str) -> "Workbench":
        """Return the model whose trace it is: the other one's if that has it."""
        return self.other if self.other is not None and key in self.other._traces else self

    def tensor(self, key: str, name: str, index: tuple[int, ...]) -> bytes:
        """Return a tensor, or its part at the first indices, as a safetensors file."""
        whole = self.trace_of(key)[name]
        if len(index) > whole.ndim or any(i >= n for i, n in zip(index, whole.shape, strict=False)):
            raise UserError(f"{name}: the slice {index} does not fit the shape {whole.shape}")
        return save({name: np.ascontiguousarray(whole[index])})

    def rows(self, key: str, side: str, token: int) -> bytes:
        """Return the row of one token after every step that has one, from the embeddings to the output.

        Attention has a row for each head. What an output head says of the whole text is the first token's.

        Args:
            side: token, or target for what the decoder of a translator reads.
        """
        found = self.trace_of(key)
        size = next((step.shape[0] for step in found.graph if step.dims[:1] == (side,)), 0)
        if not 0 <= token < size:
            raise UserError(f"{side} {token}: this text has {size} of them, numbered from 0")
        places = found["head.mlm.places"].tolist() if "head.mlm.places" in found else []
        index: dict[tuple[str, ...], tuple[Any, ...]] = {(side,): (token,)}
        if side == "token" and token in places:
            index["predicted",] = (places.index(token),)
        if side == "token" and token == 0:
            index["text",] = (0,)
        rows = {}
        for step in found.graph:
            if len(step.dims) == 2 and step.dims[:1] in index:
                rows[step.name] = found[(step.name, *index[step.dims[:1]])]
            elif step.name.endswith(".probs") and step.dims[2] == side:
                rows[step.name] = found[step.name, 0, :, token]  # (heads, keys)
        return save({name: np.ascontiguousarray(row) for name, row in rows.items()})

    def heads(self, key: str) -> bytes:
        """Return thumbnails of all heads of all blocks, one byte per cell, by the kind of attention."""
        found = self.trace_of(key)
        pictures: dict[str, Array] = {}
        for scope in ("enc.*.attn", "dec.*.attn", "dec.*.cross"):
            names = found.names(f"{scope}.probs")
            if names:
                stack = np.stack([_thumbnails(found[name][0]) for name in names])
                pictures[scope.replace(".*", "") + ".probs"] = stack
        return save(pictures)

    def cell(self, key: str, name: str, index: tuple[int, ...]) -> dict[str, Any]:
        """Return the sum behind one number, and the script that computes it again."""
        found = self.trace_of(key)
        cell = explain(found, self._weight, name, index)
        return {**cell.to_json(), "python": python_of(found, cell, self.source)}

    def why(self, text: str, pair: str | None, method: Method, target: str | None) -> dict[str, Any]:
        """Return why the model gives its answer."""
        if isinstance(self.model, Translator):
            raise Refusal(
                "no_reasons", "a translation cannot be explained yet; look at the decoder's attention instead"
            )
        return reasons_of(self.model, self.source, item_of(self.model, text, pair), method, target)

    def health(self) -> dict[str, Any]:
        """Return the doctor's verdicts on the model, and on the user's rows if there are any."""
        return health_of(self.source, None if self.data is None else self.data.path)

    def _weight(self, name: str) -> Array:
        value: torch.Tensor = self._parameters[name].detach()
        return value.float().cpu().numpy()

    def trace_of(self, key: str) -> Trace:
        """Return a trace that is still kept."""
        if key in self._with_gradients:
            return self._with_gradients[key]
        if key not in self._traces:
            raise GoneError("gone", "this trace is no longer kept; send the text again")
        self._traces.move_to_end(key)
        return self._traces[key]


def health_of(source: str, data: Path | None = None) -> dict[str, Any]:
    """Return the doctor's verdicts on a model, which may be too damaged to load."""
    found = doctor(source, data=data)
    verdicts = [
        {**asdict(one), "finding": in_both(one.finding), "advice": in_both(one.advice)}
        for one in found.verdicts
    ]
    return {
        **found.to_json(),
        "model": Path(source).name,
        "verdicts": verdicts,
        "python": scripts.of_health(source, data),
    }


def _thumbnails(shares: Array) -> NDArray[np.uint8]:
    """Return the heads of one block, (heads, queries, keys) of 0 to 1, as bytes of at most 64 x 64."""
    step = [max(1, -(-size // THUMBNAIL)) for size in shares.shape[1:]]
    padded = np.pad(
        shares, [(0, 0), *((0, -size % by) for size, by in zip(shares.shape[1:], step, strict=True))]
    )
    heads, queries, keys = padded.shape
    blocks = padded.reshape(heads, queries // step[0], step[0], keys // step[1], step[1])
    return np.ascontiguousarray((255 * blocks.max(axis=(2, 4))).round().astype(np.uint8))

"""The model on the page and what was recorded of it: traces, their parts, single numbers."""

import secrets
from collections import OrderedDict
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save

from glassbert.config import PRESETS, TRANSLATOR_PRESETS
from glassbert.errors import UserError
from glassbert.glassbox.doctor.examine import doctor
from glassbert.glassbox.trace.api import trace
from glassbert.glassbox.trace.cell import explain, python_of
from glassbert.glassbox.trace.trace import Trace
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.questions import Method
from glassbert.inference.translator import Translator
from glassbert.messages import say_nothing
from glassbert.page.answer import answer_of, item_of
from glassbert.page.examples import example_for
from glassbert.version import __version__

MAX_CHARACTERS = 10_000
CACHE_BYTES = 512 << 20
"""Traces that are kept; the ones not looked at for longest go first."""
THUMBNAIL = 64
"""The longest side of a head's thumbnail."""

Array = NDArray[Any]


class GoneError(UserError):
    """A trace that is no longer kept."""


class Workbench:
    """One model and its latest traces. One thread uses it at a time."""

    def __init__(self, source: str | Path) -> None:
        self.source = str(source)
        self.model = load(source)
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._parameters = dict(self.model.network.named_parameters())
        self.presets = frozenset({*PRESETS, *TRANSLATOR_PRESETS})

    @property
    def name(self) -> str:
        """What the page calls the model: never a path."""
        return Path(self.source).name

    def meta(self) -> dict[str, Any]:
        """Return what the page must know before it asks for anything."""
        text, pair = example_for(self.model)
        return {
            "model": self.name,
            "version": __version__,
            "kind": "bert" if isinstance(self.model, Model) else "translator",
            "config": asdict(self.model.config),
            "example": {"text": text, "pair": pair},
            "limits": {"characters": MAX_CHARACTERS, "tokens": self.model.max_length},
        }

    def record(self, text: str, pair: str | None) -> dict[str, Any]:
        """Record a pass; return its id and all but its numbers."""
        for one in (text, pair or ""):
            if len(one) > MAX_CHARACTERS:
                raise UserError(
                    f"a text of {len(one):,} characters; the page takes {MAX_CHARACTERS:,}: shorten it"
                )
        found = trace(self.model, text, pair, log=say_nothing)
        key = secrets.token_hex(8)
        self._traces[key] = found
        while sum(one.nbytes for one in self._traces.values()) > CACHE_BYTES and len(self._traces) > 1:
            self._traces.popitem(last=False)
        # Without the folder: no answer names a path of the disk.
        model = {"sha256": found.model_sha256}
        return {"id": key, **found.to_json(), "model": model, "places": answer_of(self.model, found)}

    def tensor(self, key: str, name: str, index: tuple[int, ...]) -> bytes:
        """Return a tensor, or its part at the first indices, as a safetensors file."""
        whole = self._trace(key)[name]
        if len(index) > whole.ndim or any(i >= n for i, n in zip(index, whole.shape, strict=False)):
            raise UserError(f"{name}: the slice {index} does not fit the shape {whole.shape}")
        return save({name: np.ascontiguousarray(whole[index])})

    def rows(self, key: str, side: str, token: int) -> bytes:
        """Return the row of one token after every step that has a row for it.

        Args:
            side: token, or target for what the decoder of a translator reads.
        """
        found = self._trace(key)
        steps = [step for step in found.graph if step.dims[:1] == (side,) and len(step.dims) == 2]
        size = steps[0].shape[0] if steps else 0
        if not 0 <= token < size:
            raise UserError(f"{side} {token}: this text has {size} of them, numbered from 0")
        return save({step.name: np.ascontiguousarray(found[step.name, token]) for step in steps})

    def heads(self, key: str) -> bytes:
        """Return thumbnails of all heads of all blocks, one byte per cell, by the kind of attention."""
        found = self._trace(key)
        pictures: dict[str, Array] = {}
        for scope in ("enc.*.attn", "dec.*.attn", "dec.*.cross"):
            names = found.names(f"{scope}.probs")
            if names:
                stack = np.stack([_thumbnails(found[name][0]) for name in names])
                pictures[scope.replace(".*", "") + ".probs"] = stack
        return save(pictures)

    def cell(self, key: str, name: str, index: tuple[int, ...]) -> dict[str, Any]:
        """Return the sum behind one number, and the script that computes it again."""
        found = self._trace(key)
        cell = explain(found, self._weight, name, index)
        return {**cell.to_json(), "python": python_of(found, cell, self.source)}

    def why(self, text: str, pair: str | None, method: Method, target: str | None) -> dict[str, Any]:
        """Return why the model gives its answer."""
        if isinstance(self.model, Translator):
            raise UserError("a translation cannot be explained yet; look at the decoder's attention instead")
        return self.model.why(item_of(self.model, text, pair), method=method, target=target).to_json()

    def health(self) -> dict[str, Any]:
        """Return the doctor's verdicts on the model."""
        return {**doctor(self.source).to_json(), "model": self.name}

    def _weight(self, name: str) -> Array:
        value: torch.Tensor = self._parameters[name].detach()
        return value.float().cpu().numpy()

    def _trace(self, key: str) -> Trace:
        if key not in self._traces:
            raise GoneError("this trace is no longer kept; send the text again")
        self._traces.move_to_end(key)
        return self._traces[key]


def _thumbnails(shares: Array) -> NDArray[np.uint8]:
    """Return the heads of one block, (heads, queries, keys) of 0 to 1, as bytes of at most 64 x 64."""
    step = [max(1, -(-size // THUMBNAIL)) for size in shares.shape[1:]]
    padded = np.pad(
        shares, [(0, 0), *((0, -size % by) for size, by in zip(shares.shape[1:], step, strict=True))]
    )
    heads, queries, keys = padded.shape
    blocks = padded.reshape(heads, queries // step[0], step[0], keys // step[1], step[1])
    return np.ascontiguousarray((255 * blocks.max(axis=(2, 4))).round().astype(np.uint8))

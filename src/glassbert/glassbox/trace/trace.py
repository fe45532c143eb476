"""A trace: every number of one pass, by name, with tokens, formulas and the model's fingerprint."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from glassbert.arguments import checked_methods
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.trace.diff import TraceDiff, diff
from glassbert.glassbox.trace.graph import Step
from glassbert.glassbox.trace.page import fragment, page
from glassbert.glassbox.trace.record import GRAD
from glassbert.glassbox.trace.storage import Array, Slot, StoredTensors, TensorFile
from glassbert.glassbox.trace.subject import Reading, Weights, no_such_name
from glassbert.outputs import GENERATOR, HTML, JSON, TRACE, check_new
from glassbert.parsing import FormatError, json_text, parse_json
from glassbert.sentence import Language
from glassbert.storage import new_file, write_atomically, write_json
from glassbert.typed import record_from
from glassbert.version import __version__

FORMAT = 1
_KEY = "glassbert.trace"


@dataclass(frozen=True, kw_only=True)
class TraceInfo(Reading):
    """What a trace knows besides its numbers; the fields are the keys of its JSON."""

    format: int = FORMAT
    glassbert: str = __version__
    """The version that recorded it."""
    text: str
    pair: str | None = None
    """The second text."""
    target: Any = None
    """What was taken as right: the target that was given, or the model's own prediction."""
    decoder: Reading | None = None
    """What a translator's decoder read."""
    differentiated: str | None = None
    """The number whose gradient was taken: the loss, or one by its place."""
    model: Mapping[str, Any]
    """The kind of network, where it was read from, its precision, and the sha256 of its weights."""
    config: Mapping[str, Any]
    """The shape of the network, its head and labels."""
    graph: tuple[Step, ...]
    """Every step of the pass, whether its numbers were kept or not."""
    stored: tuple[Slot, ...]
    """The tensors that were kept."""


@checked_methods
class Trace:
    """Every number of one pass through a model. `trace["enc.3.attn.q"]` is a numpy array.

    `trace["enc.3.attn.probs", 0, 5]` reads only that part, here head 5; of a trace in a file, nothing else
    is read from disk.
    """

    def __init__(self, info: TraceInfo, tensors: Mapping[str, Array]) -> None:
        self.info, self._tensors = info, tensors
        self._slots = {slot.name: slot for slot in info.stored}
        self._steps = {step.name: step for step in info.graph}

    @property
    def tokens(self) -> tuple[str, ...]:
        """The pieces that the model, or a translator's encoder, read; specials included."""
        return self.info.tokens

    @property
    def offsets(self) -> tuple[tuple[int, int], ...]:
        """The characters of its text that each token covers; (0, 0) for specials."""
        return self.info.offsets

    @property
    def target_tokens(self) -> tuple[str, ...]:
        """The pieces that a translator's decoder read; empty for other models."""
        return self.info.decoder.tokens if self.info.decoder else ()

    @property
    def graph(self) -> tuple[Step, ...]:
        """Every step of the pass in order, with its formula, inputs, weights and shape."""
        return self.info.graph

    @property
    def config(self) -> Mapping[str, Any]:
        """The shape of the network, its head and labels."""
        return self.info.config

    @property
    def model_sha256(self) -> str:
        """The fingerprint of the network's weights."""
        return str(self.info.model["sha256"])

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(slot.nbytes for slot in self.info.stored)

    def names(self, pattern: str = "*") -> list[str]:
        """Return the names of the tensors in the order of computation, gradients last.

        Args:
            pattern: Keep those that fit it, such as `enc.*.attn.probs`.
        """
        return [name for name in self._slots if fnmatchcase(name, pattern)]

    def step(self, name: str) -> Step:
        """Return how the numbers of a name were computed."""
        if name not in self._steps:
            raise UserError(no_such_name(name, list(self._steps)))
        return self._steps[name]

    def __getitem__(self, key: str | tuple[Any, ...]) -> Array:
        name, *index = (key,) if isinstance(key, str) else key
        if name not in self._slots:
            raise UserError(self._no_such(name))
        if not index:
            return self._tensors[name]
        if isinstance(self._tensors, StoredTensors):
            return self._tensors.part(name, tuple(index))
        return np.asarray(self._tensors[name][tuple(index)])

    def head(self, name: str, head: int) -> Array:
        """Return the part of a tensor that belongs to one attention head.

        Of queries, keys, values and contexts, (tokens, D), its features, (tokens, H); of scores and
        probabilities, (1, N, queries, keys), its matrix, (queries, keys).
        """
        num_heads = next((step.shape[1] for step in self.graph if step.dims[:2] == ("text", "head")), 0)
        if not 0 <= head < num_heads:
            raise UserError(f"head {head}: this model has {num_heads} heads, numbered from 0")
        step = self.step(name.removeprefix(GRAD))
        if step.dims[1:2] == ("head",):
            return self[name, 0, head]
        if len(step.dims) != 2 or step.dims[1] != "hidden":
            raise UserError(f"{name} is not divided among heads; its axes are {', '.join(step.dims)}")
        width = step.shape[1] // num_heads
        return self[name, slice(None), slice(head * width, (head + 1) * width)]

    def __contains__(self, name: object) -> bool:
        return name in self._slots

    def __iter__(self) -> Iterator[str]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __repr__(self) -> str:
        words = [f"tokens={len(self.tokens)}"]
        words += [f"target_tokens={len(self.target_tokens)}"] if self.target_tokens else []
        size = f"{self.nbytes / 1e6:,.1f} MB" if self.nbytes >= 1e6 else f"{self.nbytes / 1e3:.0f} kB"
        words += [f"tensors={len(self)}", f"size={size!r}"]
        words += [f"differentiated={self.info.differentiated!r}"] if self.info.differentiated else []
        return f"Trace({', '.join(words)})"

    def diff(self, other: "Trace") -> TraceDiff:
        """Return where this trace and another one diverge: of another text, model or moment of training."""
        return diff(self, other)

    def to_json(self) -> dict[str, Any]:
        """Return all but the numbers: tokens, offsets, config, model, graph."""
        return asdict(self.info)

    def to_html(self, path: str | Path, *, language: Language = "en", overwrite: bool = False) -> None:
        """Write one self-contained HTML file of at most 5 MB; large tensors are shown in part.

        Args:
            language: Of the page: en or zh.
            overwrite: Replace a file that exists.
        """
        check_new(path, HTML, overwrite=overwrite)
        write_atomically(Path(path), page(self, language).encode("utf-8"))

    def _repr_html_(self) -> str:
        return fragment(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a .safetensors file, and its JSON beside it; each appears complete or not at all.

        Args:
            overwrite: Replace files that exist.
        """
        path = checked_path(path, overwrite=overwrite)
        with new_file(path) as file:
            stored = TensorFile(file, self.info.stored, metadata_of(self.info))
            for name in self._slots:
                stored.put(name, self[name])
        write_beside(path, self.info)

    @classmethod
    def load(cls, path: str | Path) -> "Trace":
        """Open a saved trace; its tensors are read when they are asked for."""
        tensors = StoredTensors(Path(path))
        content = tensors.metadata.get(_KEY)
        if content is None:
            raise ModelError(f"{path}: a safetensors file, but not a trace; `glassbert trace` writes traces")
        try:
            values = parse_json(content)
        except FormatError as error:
            raise ModelError(f"{path}: damaged header ({error}); record the trace again") from None
        info = record_from(TraceInfo, values, str(path), error=ModelError)
        if info.format != FORMAT:
            raise ModelError(f"{path}: a trace of format {info.format}, expected {FORMAT}; record it again")
        if not _is_whole(info, tensors.shapes):
            raise ModelError(f"{path}: its header does not fit its tensors; record the trace again")
        return cls(info, tensors)

    def _no_such(self, name: object) -> str:
        known = list(self._slots)
        if name in self._steps:
            return f"{name} was not kept in this trace; record it again with names that fit it"
        if isinstance(name, str) and name.startswith(GRAD) and not self.info.differentiated:
            return f"{name}: this trace has no gradients; record it with grad=True"
        return no_such_name(str(name), known)


def _is_whole(info: TraceInfo, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Return whether the parts of a trace from a file fit each other."""
    readings = (info, *([info.decoder] if info.decoder else []))
    steps = {step.name: step for step in info.graph}
    return (
        all(len(one.tokens) == len(one.ids) == len(one.segments) == len(one.offsets) > 0 for one in readings)
        and all(len(pair) == 2 for one in readings for pair in one.offsets)
        and len(steps) == len(info.graph)
        and all(len(step.dims) == len(step.shape) for step in info.graph)
        and all(name in steps for step in info.graph for name in step.inputs.values())
        and shapes == {slot.name: slot.shape for slot in info.stored}
        and all(
            slot.name.removeprefix(GRAD) not in steps
            or steps[slot.name.removeprefix(GRAD)].shape == slot.shape
            for slot in info.stored
        )
    )


def metadata_of(info: TraceInfo) -> dict[str, str]:
    """Return the JSON as a safetensors header holds it: a trace that is copied alone still opens."""
    return {"format": "np", _KEY: json_text(asdict(info))}


def json_beside(path: str | Path) -> Path:
    """Return where the JSON of a trace is written."""
    return Path(path).with_suffix(".json")


def write_beside(path: str | Path, info: TraceInfo) -> None:
    """Write the JSON of a trace."""
    write_json(json_beside(path), {"generator": GENERATOR, **asdict(info)})


def checked_path(path: str | Path, *, overwrite: bool) -> Path:
    """Return where to write a trace; refuse a wrong name and files that exist."""
    path = Path(path)
    if path.suffix != ".safetensors":
        raise UserError(f"{path}: expected a name that ends in .safetensors")
    check_new(path, TRACE, overwrite=overwrite)
    check_new(json_beside(path), JSON, overwrite=overwrite)
    return path


def fingerprint(weights: Weights) -> str:
    """Return the sha256 of all weights with their names, in hex."""
    digest = hashlib.sha256()
    for name, value in sorted(weights.named().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.detach().cpu().float().numpy()).data)
    return digest.hexdigest()

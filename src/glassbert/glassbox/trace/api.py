"""`glassbert.trace` and `Model.trace`: record a pass in memory, or straight into a file."""

from collections.abc import Collection
from dataclasses import asdict
from pathlib import Path

from glassbert.arguments import checked
from glassbert.errors import UserError
from glassbert.glassbox.trace.bert_subject import bert_subject
from glassbert.glassbox.trace.record import Selection, planned_slots, record
from glassbert.glassbox.trace.storage import Memory, Slot, StoredTensors, TensorFile
from glassbert.glassbox.trace.subject import Subject
from glassbert.glassbox.trace.trace import (
    Trace,
    TraceInfo,
    checked_path,
    fingerprint,
    json_beside,
    metadata_of,
    write_beside,
)
from glassbert.glassbox.trace.translator_subject import translator_subject
from glassbert.glassbox.twin import twin
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.prepare import PRECISIONS
from glassbert.inference.translator import Translator
from glassbert.messages import Log, to_stderr
from glassbert.model.torch_state import with_own_torch_state
from glassbert.outputs import check_files
from glassbert.parsing import json_text, parse_json
from glassbert.sentence import Sentence
from glassbert.storage import new_file

LARGE = 1 << 28
"""From this many bytes on, the size of a trace is reported before it is recorded."""


@checked
@with_own_torch_state
def trace(
    model: Model | Translator | str | Path,
    text: str,
    pair: str | None = None,
    *,
    target: object = None,
    grad: bool = False,
    names: str | Collection[str] = (),
    layers: Collection[int] | None = None,
    out: str | Path | None = None,
    overwrite: bool = False,
    log: Log = to_stderr,
) -> Trace:
    """Record every number of one pass through a model.

    Args:
        model: A loaded model, or what `load` takes.
        pair: The second text of a pair; the context of a question.
        target: What is right; with it the trace has a loss. A label, several, or a number; spans; an answer;
            the true text, or a list of pieces, behind [MASK]; IsNext or NotNext; a translation. Or any number
            by its place, such as `head.labels.logits[0, good]`, to differentiate it instead of a loss.
        grad: Also record the gradient of the loss at every name and of every weight. Without a target, the
            model's own prediction is taken as right.
        names: Keep only tensors that fit one of these patterns, such as `enc.*.attn.probs`.
        layers: Keep only these blocks, and what is outside of blocks.
        out: Write into this .safetensors file during the pass instead of holding the tensors in memory.
        overwrite: Replace ``out`` if it exists.
        log: Receives a line before a large trace.
    """
    path = None if out is None else checked_path(out, overwrite=overwrite)
    if not isinstance(model, Model | Translator):
        model = load(model)
    if path is not None and model.folder is not None:
        check_files([path, json_beside(path)], [model.folder])
    model.refuse_int8("a trace")
    subject = _subject(model, text, pair, target, grad=grad)
    blocks = None if layers is None else tuple(layers)
    selection = Selection((names,) if isinstance(names, str) else tuple(names), blocks)
    stored = selection.of(planned_slots(subject, grad=grad))
    info = _info(model, subject, text, pair, stored, fingerprint(subject.weights), grad=grad)
    size = sum(slot.nbytes for slot in info.stored)
    if size >= LARGE:
        where = "in memory; out=FILE writes it as it is computed" if path is None else f"in {path}"
        log(f"a trace of {len(info.stored)} tensors, {size / 1e6:,.0f} MB {where}")
    if path is None:
        return _in_memory(model, subject, info, grad=grad)
    weights = twin(subject.weights, model.device, PRECISIONS[model.precision].dtype, grad=grad)
    with new_file(path) as file:
        record(
            subject, TensorFile(file, info.stored, metadata_of(info)), info.stored, grad=grad, weights=weights
        )
    write_beside(path, info)
    return Trace(info, StoredTensors(path))


@with_own_torch_state
def trace_unchanged(
    model: Model | Translator,
    text: str,
    pair: str | None,
    target: object = None,
    *,
    grad: bool = False,
    sha256: str | None = None,
) -> Trace:
    """Record a pass of a model whose weights nobody changes: their hash takes longer than a short text.

    Args:
        sha256: The hash of the weights, from an earlier trace.
    """
    subject = _subject(model, text, pair, target, grad=grad)
    sha256 = sha256 or fingerprint(subject.weights)
    stored = tuple(planned_slots(subject, grad=grad))
    info = _info(model, subject, text, pair, stored, sha256, grad=grad)
    return _in_memory(model, subject, info, grad=grad)


def _in_memory(model: Model | Translator, subject: Subject, info: TraceInfo, *, grad: bool) -> Trace:
    memory = Memory(info.stored)
    weights = twin(subject.weights, model.device, PRECISIONS[model.precision].dtype, grad=grad)
    record(subject, memory, info.stored, grad=grad, weights=weights)
    return Trace(info, memory)


def _subject(
    model: Model | Translator, text: str, pair: str | None, target: object, *, grad: bool
) -> Subject:
    for name, value in (("text", text), ("pair", pair)):
        if value is not None and not value.strip():
            raise UserError(f"the {name} is blank; give at least one word to trace")
    if isinstance(model, Model):
        return bert_subject(model, text, pair, target, grad=grad)
    if pair is not None:
        raise UserError(Sentence("a translator reads one text; give its translation as the target"))
    return translator_subject(model, text, target)


def _info(
    model: Model | Translator,
    subject: Subject,
    text: str,
    pair: str | None,
    stored: tuple[Slot, ...],
    sha256: str,
    *,
    grad: bool,
) -> TraceInfo:
    return TraceInfo(
        text=text,
        pair=pair,
        target=subject.target,
        **vars(subject.source),
        decoder=subject.decoder,
        graph=tuple(subject.graph.steps),
        differentiated=str(subject.differentiated) if grad and subject.differentiated else None,
        config=parse_json(json_text(asdict(model.config))),  # as it is when it is loaded: no tuples
        model={
            "kind": type(model.network).__name__,
            "folder": None if model.folder is None else str(model.folder),
            "sha256": sha256,
            "precision": model.precision,
        },
        stored=stored,
    )

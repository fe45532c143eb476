"""Export of a BERT to ONNX: a file that other programs run without torch, checked after it is written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from glassbert.errors import ModelError, UserError
from glassbert.interop.companions import TASK_WEIGHTS, Companions
from glassbert.interop.families import family_for
from glassbert.interop.onnx_graph import INPUTS, bert_graph, can_pool
from glassbert.interop.sentence_transformers import SentenceSettings
from glassbert.model.bert import Bert, Output
from glassbert.model.layout import Batch
from glassbert.model.pooling import Pooling
from glassbert.storage import write_atomically, write_json
from glassbert.text.wordpiece.tokenizer import Tokenizer

FILE = "model.onnx"
TOLERANCE = 1e-4
"""How far a number may be from ours, as a share of the largest one if that is above 1."""
_LARGEST = 2**31 - 1
"""Bytes of the largest file that ONNX's format can hold."""
_LENGTHS = (7, 1, 12)
"""Tokens of the texts that an export is checked with."""


def export_onnx(
    network: Bert,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    sentences: SentenceSettings | None,
    companions: Companions,
    run: Mapping[str, Any],
) -> list[str]:
    """Write model.onnx, config.json and the tokenizer into ``folder``, which exists; return what to know.

    Args:
        sentences: How a text's vector is made, if the model's folder says it.
        companions: Files beside the network.
        run: The content of run.json.
    """
    try:
        import onnx
    except ImportError:
        raise UserError("the export needs ONNX; install it with `pip install 'glassbert[export]'`") from None
    if sum(4 * parameter.numel() for parameter in network.parameters()) > _LARGEST:
        raise ModelError("the model exceeds the 2 GB that a file of ONNX holds; nothing was written")
    folder = Path(folder)
    pooling = sentences.pooling if sentences is not None and can_pool(sentences.pooling) else None
    model = bert_graph(network, pooling)
    onnx.checker.check_model(model)
    (folder / FILE).write_bytes(model.SerializeToString())
    check = _checked(network, folder / FILE, pooling)
    write_json(folder / "config.json", family_for(network.config).write_config(network.config, "float32"))
    tokenizer.save(folder)
    notes = [_outputs(model), check, *_not_carried(network, sentences, pooling, companions, run)]
    write_atomically(folder / "README.md", _card(notes).encode("utf-8"))
    return notes


def _outputs(model: Any) -> str:
    names = ", ".join(output.name for output in model.graph.output)
    return f"inputs {', '.join(INPUTS)}, (texts, tokens), any number of both; outputs {names}"


def _not_carried(
    network: Bert,
    sentences: SentenceSettings | None,
    pooling: Pooling | None,
    companions: Companions,
    run: Mapping[str, Any],
) -> list[str]:
    """Return what a user of the graph has to do, line by line."""
    lines = ["texts become ids by tokenizer.json; cut them to the model's length, a graph does not"]
    if network.config.labels:
        lines.append("outputs are logits; config.json names the labels (id2label)")
    if TASK_WEIGHTS in companions:
        lines.append(
            f"not carried: the weights of {TASK_WEIGHTS}, such as a CRF's, by which glassbert decodes"
        )
    if "task" in run:
        lines.append(
            "not carried: calibration, thresholds, windows of long texts; `glassbert predict` has them"
        )
    if sentences is not None and pooling is None:
        lines.append(f"not carried: pooling by {sentences.pooling}; pool last_hidden_state yourself")
    return lines


def _card(notes: list[str]) -> str:
    return "\n".join(["# A BERT for ONNX", "", *(f"- {note}" for note in notes), ""])


def _checked(network: Bert, path: Path, pooling: Pooling | None) -> str:
    """Compare a file with the network; refuse one that computes something else."""
    try:
        import onnxruntime
    except ImportError:
        return "not checked, since onnxruntime is not installed"
    generator, limit = np.random.default_rng(0), network.config.encoder.max_position_embeddings
    lengths = [min(length, limit) for length in _LENGTHS]
    ids = generator.integers(0, network.config.encoder.vocab_size, (len(lengths), max(lengths)))
    mask = (np.arange(max(lengths)) < np.array(lengths)[:, None]).astype(np.int64)
    segments = generator.integers(0, network.config.encoder.type_vocab_size, ids.shape)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = dict(zip(INPUTS, (ids, mask, segments), strict=True))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, feed), strict=True))
    expected = _expected(network, ids, mask, segments, pooling)
    apart = 0.0
    for name, value in found.items():
        if not np.isfinite(expected[name]).all():
            raise ModelError(f"{name} of the model is not finite; its weights are damaged, use another")
        got = value[mask.astype(bool)] if value.shape[:2] == mask.shape else value
        distance = float(np.abs(got - expected[name]).max()) / max(1.0, float(np.abs(got).max()))
        apart = float(np.maximum(apart, distance))  # NaN stays
    if not apart <= TOLERANCE:
        raise ModelError(
            f"onnxruntime computes other numbers than we do, by {apart:.1e}; nothing was written"
        )
    return f"checked: onnxruntime's numbers are ours within {apart:.1e}"


@torch.inference_mode()
def _expected(
    network: Bert, ids: NDArray[Any], mask: NDArray[Any], segments: NDArray[Any], pooling: Pooling | None
) -> dict[str, NDArray[Any]]:
    """Return the outputs of our own network, real tokens only, by the names of the graph."""
    tensors = (torch.from_numpy(array) for array in (ids, mask, segments))
    batch = Batch.from_padded(*tensors)
    out: Output = network(batch, predict_at=torch.arange(batch.layout.num_tokens))
    logits = [one for one in (out.labels, out.mlm, out.nsp) if one is not None]
    found = {
        "last_hidden_state": out.hidden,
        "pooler_output": out.pooled,
        "prediction_logits": out.mlm,
        "seq_relationship_logits": out.nsp,
        "logits": logits[0] if logits else None,
        "start_logits": None if out.span is None else out.span[:, 0],
        "end_logits": None if out.span is None else out.span[:, 1],
        "sentence_embedding": None if pooling is None else pooling(out.hidden, batch.layout),
    }
    return {name: value.numpy() for name, value in found.items() if value is not None}

"""Writing model folders: whole or not at all, readable by `transformers`, with where they came from."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from glassbert.config import ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.interop.config_json import write_config
from glassbert.interop.huggingface import LoadReport, build, state_for_file
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.interop.stored import StoredModel, read_stored
from glassbert.interop.translator_config import is_encoder_decoder
from glassbert.interop.weights import WEIGHTS, write_weights
from glassbert.model.bert import Bert
from glassbert.storage import check_apart, new_folder, read_json, sha256_of, write_atomically, write_json
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.version import __version__

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
TASK_WEIGHTS = "task.safetensors"
"""Weights that a task has beyond those of BERT; `transformers` does not read this file."""
# What makes a folder one of sentence-transformers, and what a task has of its own; copied as they are.
COMPANIONS = (
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    TASK_WEIGHTS,
)


def write_model(
    network: Bert, tokenizer: Tokenizer, folder: Path, *, dtype: str = "float32", run: Mapping[str, Any]
) -> None:
    """Write the files of a checkpoint into ``folder``, which exists.

    Args:
        run: What run.json shall say of how the model came to be.
    """
    if dtype not in DTYPES:
        raise UserError(f"dtype={dtype!r}; expected one of {', '.join(DTYPES)}")
    write_weights(state_for_file(network, DTYPES[dtype]), folder / WEIGHTS)
    write_json(folder / "config.json", write_config(network.config, dtype))
    # Of the versions, those of the last writer count.
    versions = {"glassbert": __version__, "torch": torch.__version__}
    run = versions | {name: value for name, value in run.items() if name not in versions}
    write_json(folder / "run.json", run)
    tokenizer.save(folder)
    write_atomically(folder / "README.md", _card(network, run).encode("utf-8"))


def convert(
    source_folder: Path, out: Path, *, dtype: str | None = None, may_replace: bool = False
) -> LoadReport:
    """Rewrite any BERT that we can read as a folder that `transformers` loads.

    Args:
        dtype: How to store the numbers; as the source does when not given.
    """
    check_apart(source_folder, out)
    source = read_stored(source_folder, may_unpickle=True)
    if is_encoder_decoder(source.config):
        raise UserError(f"{source_folder} is a translator, which only `--to ctranslate2` can convert; add it")
    network, report = build(source)
    tokenizer = Tokenizer.load(source_folder)
    # These refuse now what `load` would refuse later.
    check_vocabulary(source_folder, tokenizer, network.config)
    read_sentence_settings(source_folder, tokenizer.settings.lowercase)
    run = {**read_run(source_folder), "converted_from": _origin(source)}
    with new_folder(out, may_replace=may_replace) as folder:
        write_model(network, tokenizer, folder, dtype=dtype or report.dtype, run=run)
        copy_companions(source_folder, folder)
    assumed = (f"assumed: {assumption}" for assumption in tokenizer.assumptions)
    return replace(report, notes=(*report.notes, *assumed))


def read_run(folder: Path) -> dict[str, Any]:
    """Return what run.json says of how a model came to be, its task above all; nothing if there is none."""
    return read_json(folder / "run.json") if (folder / "run.json").is_file() else {}


def copy_companions(source: Path, folder: Path) -> None:
    """Take over how a folder of sentence-transformers pools, and what a task has beside the network."""
    for name in COMPANIONS:
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def check_vocabulary(folder: Path, tokenizer: Tokenizer, config: ModelConfig) -> None:
    """Refuse a vocabulary that has more pieces than the network has rows."""
    rows = config.encoder.vocab_size
    if len(tokenizer.vocabulary) > rows:
        raise ModelError(
            f"{folder}: the vocabulary has {len(tokenizer.vocabulary)} pieces, but the model has {rows} "
            "rows; use the vocabulary that the model was trained with"
        )


def _origin(source: StoredModel) -> dict[str, Any]:
    return {"kind": source.kind, "sha256": {path.name: sha256_of(path) for path in source.files}}


def _card(network: Bert, run: Mapping[str, Any]) -> str:
    shape, head = network.config.encoder, network.config.head
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    loader = "AutoModel" if head == "none" else write_config(network.config, "float32")["architectures"][0]
    lines = [
        "---",
        "library_name: transformers" if shape.is_plain_bert else "library_name: glassbert",
        "---",
        f"# A BERT with {shape.num_hidden_layers} blocks of {shape.hidden_size} features",
        "",
        f"- parameters: {num_parameters:,} (`glassbert params FOLDER` lists them)",
        f"- head: {head}"
        + (f"; labels: {', '.join(network.config.labels)}" if network.config.labels else ""),
        f"- vocabulary: {shape.vocab_size:,} rows; longest text: {shape.max_position_embeddings} tokens",
        "",
        "```python",
        "import glassbert as gb",
        'model = gb.load("FOLDER")',
        "```",
    ]
    if shape.is_plain_bert:
        lines += ["", "```python", f"from transformers import {loader}"]
        lines += [f'model = {loader}.from_pretrained("FOLDER")', "```"]
    lines += [
        "",
        "How it came to be (run.json):",
        "",
        "```json",
        json.dumps(run, indent=2, ensure_ascii=False),
        "```",
    ]
    return "\n".join(lines) + "\n"

"""Writing model folders: whole or not at all, readable by `transformers`, with where they came from."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import glassbert
from glassbert.errors import UserError
from glassbert.interop.config_json import write_config
from glassbert.interop.huggingface import LoadReport, build, state_for_file
from glassbert.interop.sentence_transformers import read_sentence_settings
from glassbert.interop.source import Source, read_source
from glassbert.interop.translator_config import is_encoder_decoder
from glassbert.interop.weights import WEIGHTS, write_weights
from glassbert.model.bert import Bert
from glassbert.storage import new_folder, sha256_of, write_atomically, write_json
from glassbert.text.tokenizer import Tokenizer

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# The small files that make a folder one of sentence-transformers; copied as they are.
SENTENCE_FILES = (
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
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
    write_json(folder / "run.json", {"glassbert": glassbert.__version__, "torch": torch.__version__, **run})
    tokenizer.save(folder)
    write_atomically(folder / "README.md", _card(network, run).encode("utf-8"))


def convert(
    source_folder: Path, out: Path, *, dtype: str | None = None, may_replace: bool = False
) -> LoadReport:
    """Rewrite any BERT that we can read as a folder that `transformers` loads.

    Args:
        dtype: How to store the numbers; as the source does when not given.
    """
    source = read_source(source_folder, may_unpickle=True)
    if is_encoder_decoder(source.config):
        raise UserError(f"{source_folder} is a translator, which only `--to ctranslate2` can convert; add it")
    network, report = build(source)
    tokenizer = Tokenizer.load(source_folder)
    read_sentence_settings(source_folder)  # refuses now what `load` would refuse later
    with new_folder(out, may_replace=may_replace) as folder:
        write_model(
            network, tokenizer, folder, dtype=dtype or report.dtype, run={"converted_from": _origin(source)}
        )
        copy_sentence_files(source_folder, folder)
    return report


def copy_sentence_files(source: Path, folder: Path) -> None:
    """Take over how a folder of sentence-transformers pools."""
    for name in SENTENCE_FILES:
        if (source / name).is_file():
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, folder / name)


def _origin(source: Source) -> dict[str, Any]:
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

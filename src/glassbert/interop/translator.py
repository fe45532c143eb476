"""The folder of a translator: an encoder-decoder, its vocabulary, how it came to be, and a card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from glassbert.config import TransformerConfig
from glassbert.errors import ModelError
from glassbert.interop.seq2seq import Network, build_network, write_network
from glassbert.interop.stored import read_stored
from glassbert.interop.translator_config import is_marian
from glassbert.storage import write_atomically, write_json
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.version import __version__


def write_translator(
    network: Network, tokenizer: SubwordTokenizer, folder: Path, *, run: Mapping[str, Any]
) -> None:
    """Write the files of a translator into ``folder``, which exists.

    Args:
        run: What run.json shall say of how the model came to be.
    """
    write_network(network, folder)
    write_json(folder / "run.json", {"glassbert": __version__, "torch": torch.__version__, **run})
    limited = SubwordTokenizer(tokenizer.pieces, tokenizer.merges, max_length=network.config.max_length)
    limited.save(folder)
    write_atomically(folder / "README.md", _card(network, run).encode("utf-8"))


def read_translator(folder: Path) -> tuple[Network, SubwordTokenizer]:
    """Return the network and the vocabulary of a folder; they must fit each other."""
    source = read_stored(folder)
    if not (folder / "tokenizer.json").is_file():
        raise ModelError(
            f"no tokenizer.json in {folder}; a translator needs the one it was trained with (Marian's "
            "SentencePiece files are not read)"
        )
    network, tokenizer = build_network(source), SubwordTokenizer.load(folder)
    config = network.config
    if len(tokenizer) != config.vocab_size:
        raise ModelError(
            f"{folder}: the vocabulary has {len(tokenizer)} pieces, but the model has {config.vocab_size} "
            "rows; use the vocabulary that the model was trained with"
        )
    if (config.decoder_start_token_id, config.eos_token_id) != (tokenizer.pad_id, tokenizer.end_id):
        raise ModelError(
            f"{folder}: the model starts with id {config.decoder_start_token_id} and ends with "
            f"{config.eos_token_id}, its vocabulary with {tokenizer.pad_id} and {tokenizer.end_id}"
        )
    return network, tokenizer


def _card(network: Network, run: Mapping[str, Any]) -> str:
    config = network.config
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    if isinstance(config, TransformerConfig):
        shape = config.encoder
        what = (
            f"a Transformer: {shape.num_hidden_layers} + {config.num_decoder_layers} blocks of width "
            f"{shape.hidden_size}, {shape.num_attention_heads} heads"
        )
    else:
        attention = "with" if config.has_attention else "without"
        what = (
            f"an LSTM {attention} attention: {config.num_hidden_layers} layers of width {config.hidden_size}"
        )
    lines = [
        "# A translator",
        "",
        f"- network: {what}; {num_parameters:,} parameters",
        f"- vocabulary: {config.vocab_size:,} pieces for both sides; text comes back from it exactly",
        f"- longest sentence: {config.max_length} tokens",
        "",
        "```python",
        "import glassbert as gb",
        'gb.load("FOLDER").translate(["..."])',
        "```",
    ]
    if isinstance(config, TransformerConfig) and is_marian(config):
        lines += [
            "",
            "```python",
            "from transformers import AutoTokenizer, MarianMTModel",
            'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
            'model = MarianMTModel.from_pretrained("FOLDER")',
            "```",
        ]
    lines += [
        "",
        "How it came to be (run.json):",
        "",
        "```json",
        json.dumps(run, indent=2, ensure_ascii=False),
        "```",
    ]
    return "\n".join(lines) + "\n"

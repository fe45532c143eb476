"""README.md of a model folder: what the model is, how to load it, and how it was made."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from glassbert.config import LstmConfig, ModelConfig, TransformerConfig
from glassbert.heads import HEADS
from glassbert.interop.family import Config
from glassbert.interop.marian_config import is_marian
from glassbert.messages import one_line
from glassbert.model.init import Network
from glassbert.parsing import json_text

_OWN_COMPRESSED = (
    "The matrices of the blocks are stored with 8 bits a weight; `glassbert convert FOLDER NEW --to hf` "
    'writes them in plain numbers. `gb.load("FOLDER", precision="int8")` also computes with 8 bits.'
)
_COMPRESSED = _OWN_COMPRESSED + (
    " `transformers` loads the folder if the package compressed-tensors is installed (`pip install "
    "compressed-tensors`). Without it, load the plain folder instead: `transformers` would read the 8-bit "
    "numbers as weights."
)

# What begins code, a link or an image; an underscore within a word begins nothing.
_MARKUP = re.compile(r"[\\`*\[\]]")


@dataclass(frozen=True)
class _Description:
    title: str
    facts: list[str]
    use: str
    """A line of Python that uses the model."""
    transformers: list[str]
    """Lines of Python that load it there; none if `transformers` does not compute it."""


def model_card(network: Network, run: Mapping[str, Any], *, is_compressed: bool = False) -> str:
    """Return the text of README.md.

    Args:
        run: The content of run.json.
        is_compressed: Whether the weights of the blocks have 8 bits.
    """
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    about = _describe(network.config)
    lines = [
        "---",
        f"library_name: {'transformers' if about.transformers else 'glassbert'}",
        "---",
        f"# {about.title}",
        "",
        f"- parameters: {num_parameters:,} (`glassbert params FOLDER` lists them)",
        *(f"- {fact}" for fact in about.facts),
        "",
        *_python("import glassbert as gb", about.use),
    ]
    if is_compressed:
        lines += ["", _COMPRESSED if about.transformers else _OWN_COMPRESSED]
    if about.transformers:
        lines += ["", *_python(*about.transformers)]
    lines += ["", "How it was made (run.json):", ""]
    lines += ["```json", json_text(run, indent=2), "```"]
    return "\n".join(lines) + "\n"


def _text(label: str) -> str:
    """Return a label, which may hold anything, as Markdown that is one line and no markup."""
    return _MARKUP.sub(r"\\\g<0>", escape(one_line(label), quote=False))


def _python(*lines: str) -> list[str]:
    return ["```python", *lines, "```"]


def _describe(config: Config) -> _Description:
    if isinstance(config, ModelConfig):
        return _encoder(config)
    return _translator(config)


def _encoder(config: ModelConfig) -> _Description:
    shape = config.encoder
    labels = ", ".join(map(_text, config.labels))
    loader = "AutoModel" if config.head == "none" else HEADS[config.head].architecture
    return _Description(
        title=f"A BERT with {shape.num_hidden_layers} blocks of {shape.hidden_size} features",
        facts=[
            f"head: {config.head}" + (f"; labels: {labels}" if labels else ""),
            f"vocabulary: {shape.vocab_size:,} rows; longest text: {shape.max_position_embeddings} tokens",
        ],
        use='model = gb.load("FOLDER")',
        transformers=[f"from transformers import {loader}", f'model = {loader}.from_pretrained("FOLDER")']
        if shape.is_plain_bert
        else [],
    )


def _translator(config: TransformerConfig | LstmConfig) -> _Description:
    transformers: list[str] = []
    if isinstance(config, LstmConfig):
        attention = "with attention" if config.has_attention else "without attention"
        network = f"an LSTM {attention}: {config.num_hidden_layers} layers of width {config.hidden_size}"
    else:
        shape = config.encoder
        network = (
            f"a Transformer: {shape.num_hidden_layers} + {config.num_decoder_layers} blocks of width "
            f"{shape.hidden_size}, {shape.num_attention_heads} heads"
        )
        if is_marian(config):
            transformers = [
                "from transformers import AutoTokenizer, MarianMTModel",
                'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
                'model = MarianMTModel.from_pretrained("FOLDER")',
            ]
    return _Description(
        title="A translator",
        facts=[
            f"network: {network}",
            f"vocabulary: {config.vocab_size:,} pieces for both sides; text comes back from it exactly",
            f"longest sentence: {config.max_length} tokens",
        ],
        use='gb.load("FOLDER").translate(["..."])',
        transformers=transformers,
    )

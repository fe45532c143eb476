"""One reversible table between our tensor names and those of `transformers`' BERT files."""

import re

from glassbert.heads import PARTS
from glassbert.interop.names import translated

# Ours, theirs; `{}` is the number of a block.
MODULES = {
    "encoder.embeddings.token": "bert.embeddings.word_embeddings",
    "encoder.embeddings.segment": "bert.embeddings.token_type_embeddings",
    "encoder.embeddings.position": "bert.embeddings.position_embeddings",
    "encoder.embeddings.norm": "bert.embeddings.LayerNorm",
    "encoder.blocks.{}.attention.query": "bert.encoder.layer.{}.attention.self.query",
    "encoder.blocks.{}.attention.key": "bert.encoder.layer.{}.attention.self.key",
    "encoder.blocks.{}.attention.value": "bert.encoder.layer.{}.attention.self.value",
    "encoder.blocks.{}.attention.output": "bert.encoder.layer.{}.attention.output.dense",
    "encoder.blocks.{}.attention_norm": "bert.encoder.layer.{}.attention.output.LayerNorm",
    "encoder.blocks.{}.mlp.inner": "bert.encoder.layer.{}.intermediate.dense",
    "encoder.blocks.{}.mlp.outer": "bert.encoder.layer.{}.output.dense",
    "encoder.blocks.{}.mlp_norm": "bert.encoder.layer.{}.output.LayerNorm",
    # Options that the published BERT lacks; such files say model_type "glassbert".
    "encoder.blocks.{}.mlp.gate": "bert.encoder.layer.{}.intermediate.gate",
    "encoder.final_norm": "bert.encoder.final_norm",
    **{layer.name: layer.file_name for layers in PARTS.values() for layer in layers},
}
# The decoder's bias is a parameter of its own in their files, one level up.
TENSORS = {"mlm.decoder.bias": "cls.predictions.bias"}

_OUR_MODULES = {theirs: ours for ours, theirs in MODULES.items()}
_OUR_TENSORS = {theirs: ours for ours, theirs in TENSORS.items()}

# Spellings found in older files, each with its present one.
_OLD_SPELLINGS = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
    (re.compile(r"^(?=embeddings\.|encoder\.|pooler\.)"), "bert."),
)
_NOT_WEIGHTS = re.compile(r"embeddings\.(position_ids|token_type_ids)$")


def to_theirs(name: str) -> str:
    """Return the name in the file of one of our tensors; every one has such a name."""
    theirs = translated(name, MODULES, TENSORS)
    assert theirs is not None, f"no file name for {name}"
    return theirs


def to_ours(name: str) -> str | None:
    """Return our name of a tensor in a file, in any spelling, or None when BERT has no such tensor."""
    return translated(modernise(name), _OUR_MODULES, _OUR_TENSORS)


def modernise(name: str) -> str:
    """Return the present spelling of a name in a file."""
    for pattern, replacement in _OLD_SPELLINGS:
        name = pattern.sub(replacement, name)
    return name


def is_buffer(name: str) -> bool:
    """Return whether a tensor of a file is not a weight."""
    return _NOT_WEIGHTS.search(name) is not None

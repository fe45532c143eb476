"""One reversible table between our tensor names and those of `transformers`' BERT files."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

# Ours, theirs; `{}` stands for the number of a block.
MODULES = (
    ("encoder.embeddings.token", "bert.embeddings.word_embeddings"),
    ("encoder.embeddings.segment", "bert.embeddings.token_type_embeddings"),
    ("encoder.embeddings.position", "bert.embeddings.position_embeddings"),
    ("encoder.embeddings.norm", "bert.embeddings.LayerNorm"),
    ("encoder.blocks.{}.attention.query", "bert.encoder.layer.{}.attention.self.query"),
    ("encoder.blocks.{}.attention.key", "bert.encoder.layer.{}.attention.self.key"),
    ("encoder.blocks.{}.attention.value", "bert.encoder.layer.{}.attention.self.value"),
    ("encoder.blocks.{}.attention.output", "bert.encoder.layer.{}.attention.output.dense"),
    ("encoder.blocks.{}.attention_norm", "bert.encoder.layer.{}.attention.output.LayerNorm"),
    ("encoder.blocks.{}.mlp.inner", "bert.encoder.layer.{}.intermediate.dense"),
    ("encoder.blocks.{}.mlp.outer", "bert.encoder.layer.{}.output.dense"),
    ("encoder.blocks.{}.mlp_norm", "bert.encoder.layer.{}.output.LayerNorm"),
    ("pooler.dense", "bert.pooler.dense"),
    ("mlm.dense", "cls.predictions.transform.dense"),
    ("mlm.norm", "cls.predictions.transform.LayerNorm"),
    ("mlm.decoder", "cls.predictions.decoder"),
    ("nsp", "cls.seq_relationship"),
    ("labels.dense", "classifier"),
    ("span", "qa_outputs"),
    # Options that the published BERT lacks; such files say model_type "glassbert".
    ("encoder.blocks.{}.mlp.gate", "bert.encoder.layer.{}.intermediate.gate"),
    ("encoder.final_norm", "bert.encoder.final_norm"),
)

# The decoder's bias is a parameter of its own in their files, one level up.
TENSORS = (("mlm.decoder.bias", "cls.predictions.bias"),)

_OURS_TO_THEIRS = {ours: theirs for ours, theirs in MODULES}
_THEIRS_TO_OURS = {theirs: ours for ours, theirs in MODULES}
_TENSORS_TO_THEIRS = dict(TENSORS)
_TENSORS_TO_OURS = {theirs: ours for ours, theirs in TENSORS}
_BLOCK_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")

# Spellings found in older files, each with its present one.
_OLD_SPELLINGS = (
    (re.compile(r"LayerNorm\.gamma$"), "LayerNorm.weight"),
    (re.compile(r"LayerNorm\.beta$"), "LayerNorm.bias"),
    (re.compile(r"^(?=embeddings\.|encoder\.|pooler\.)"), "bert."),
)
_NOT_WEIGHTS = re.compile(r"embeddings\.(position_ids|token_type_ids)$")


def to_theirs(name: str) -> str:
    """Return the file's name of our tensor; every tensor of ours has one."""
    theirs = translated(name, _OURS_TO_THEIRS, _TENSORS_TO_THEIRS)
    assert theirs is not None, f"no file name for {name}"
    return theirs


def to_ours(name: str) -> str | None:
    """Return our name of a tensor spelled as files spell it now, or None when BERT has no such tensor."""
    return translated(name, _THEIRS_TO_OURS, _TENSORS_TO_OURS)


def modernise(name: str) -> str | None:
    """Return the present spelling of a name in a file, or None for a buffer that is not a weight."""
    if _NOT_WEIGHTS.search(name):
        return None
    for pattern, replacement in _OLD_SPELLINGS:
        name = pattern.sub(replacement, name)
    return name


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like ``name``, for a helpful message."""
    matches = get_close_matches(name, list(known), n=1)
    return matches[0] if matches else None


def translated(name: str, modules: Mapping[str, str], tensors: Mapping[str, str]) -> str | None:
    """Return another name of a tensor, or None for a name that is in no table.

    Args:
        modules: Names without the last word, which is weight or bias; `{}` stands for the number of a block.
        tensors: Whole names.
    """
    if name in tensors:
        return tensors[name]
    module, _, parameter = name.rpartition(".")
    numbers = _BLOCK_NUMBER.findall(module + ".")
    pattern = modules.get(_BLOCK_NUMBER.sub("{}", module + ".").removesuffix("."))
    if pattern is None or parameter not in ("weight", "bias"):
        return None
    return f"{pattern.format(*numbers)}.{parameter}"

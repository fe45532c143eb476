"""BERT and the Transformer in float64 NumPy, written from the papers: what every trace is held against.

Nothing of glassbert is imported. Weights are arrays by name: those of `transformers` for BERT, our own for
translators. Every result is shown under its tap name, and may be moved a little, for numeric gradients.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array = NDArray[np.float64]
Weights = Mapping[str, Array]


@dataclass
class Shown:
    """All results of a pass, by name."""

    moves: Mapping[str, tuple[tuple[int, ...], float]] = field(default_factory=dict)
    """By name: an index, and how far to move the number there."""
    values: dict[str, Array] = field(default_factory=dict)

    def __call__(self, name: str, value: Any) -> Array:
        """Note a result, and return what the pass continues with."""
        value = np.array(value, dtype=np.float64)
        if name in self.moves:
            index, distance = self.moves[name]
            value[index] += distance
        self.values[name] = value
        return value


def bert(
    weights: Weights,
    config: Mapping[str, Any],
    ids: Sequence[int],
    segments: Sequence[int],
    places: Sequence[int],
    labels: Sequence[int],
    pair_label: int,
    **moves: Any,
) -> dict[str, Array]:
    """Run a BERT for pre-training up to its loss; ``places`` are predicted, ``labels`` are right there."""
    show, eps = Shown(moves.get("moves", {})), config["layer_norm_eps"]
    x = bert_encoder(show, weights, config, ids, segments)
    heads = "cls.predictions."
    pooled = bert_pooler(show, weights, x)
    y = show("head.mlm.dense", linear(x[list(places)], weights, f"{heads}transform.dense"))
    y = show("head.mlm.act", gelu(y))
    y = show("head.mlm.norm", layer_norm(y, weights, f"{heads}transform.LayerNorm", eps))
    table = weights["bert.embeddings.word_embeddings.weight"]
    logits = show("head.mlm.logits", y @ table.T + weights[f"{heads}bias"])
    pair = show("head.nsp.logits", linear(pooled, weights, "cls.seq_relationship"))
    mlm = show("mlm_loss", cross_entropy(logits, labels))
    nsp = show("nsp_loss", cross_entropy(pair, [pair_label]))
    show("loss", mlm + nsp)
    return show.values


def bert_classifier(
    weights: Weights, config: Mapping[str, Any], ids: Sequence[int], segments: Sequence[int], label: int
) -> dict[str, Array]:
    """Run a BERT that gives one label up to its loss."""
    show = Shown()
    x = bert_encoder(show, weights, config, ids, segments)
    logits = show("head.labels.logits", linear(bert_pooler(show, weights, x), weights, "classifier"))
    show("loss", cross_entropy(logits, [label]))
    return show.values


def bert_pooler(show: Shown, weights: Weights, x: Array) -> Array:
    """Return the vector of the first token as the heads of whole texts read it."""
    return show(
        "head.pooled", np.tanh(show("head.pooler.dense", linear(x[:1], weights, "bert.pooler.dense")))
    )


def bert_encoder(
    show: Shown, weights: Weights, config: Mapping[str, Any], ids: Sequence[int], segments: Sequence[int]
) -> Array:
    """Return the hidden states behind the last block."""
    tables, eps = "bert.embeddings.", config["layer_norm_eps"]
    x = show("emb.token", weights[f"{tables}word_embeddings.weight"][list(ids)])
    segment = show("emb.segment", weights[f"{tables}token_type_embeddings.weight"][list(segments)])
    position = show("emb.position", weights[f"{tables}position_embeddings.weight"][: len(ids)])
    x = show("emb.sum", x + segment + position)
    x = show("emb.norm", layer_norm(x, weights, f"{tables}LayerNorm", eps))
    x = show("emb.out", x)
    for index in range(config["num_hidden_layers"]):
        block, own = f"bert.encoder.layer.{index}.", f"enc.{index}."
        names = {
            "q": f"{block}attention.self.query",
            "k": f"{block}attention.self.key",
            "v": f"{block}attention.self.value",
            "proj": f"{block}attention.output.dense",
        }
        x = show(
            f"{own}attn.sum",
            x + attention(show, f"{own}attn.", x, x, weights, names, config["num_attention_heads"]),
        )
        x = show(f"{own}attn.norm", layer_norm(x, weights, f"{block}attention.output.LayerNorm", eps))
        inner = show(f"{own}mlp.pre", linear(x, weights, f"{block}intermediate.dense"))
        inner = show(f"{own}mlp.act", gelu(inner))
        x = show(f"{own}mlp.sum", x + show(f"{own}mlp.out", linear(inner, weights, f"{block}output.dense")))
        x = show(f"{own}mlp.norm", layer_norm(x, weights, f"{block}output.LayerNorm", eps))
        x = show(f"{own}out", x)
    return show("enc.out", x)


def transformer(
    weights: Weights,
    *,
    num_blocks: tuple[int, int],
    num_heads: int,
    eps: float,
    source: Sequence[int],
    target: Sequence[int],
    labels: Sequence[int],
    **moves: Any,
) -> dict[str, Array]:
    """Run the published encoder-decoder, LayerNorms behind the sums and waves as positions, to its loss."""
    show = Shown(moves.get("moves", {}))
    memory = _embedded(show, "emb.", weights, source)
    for index in range(num_blocks[0]):
        memory = _block(
            show, f"enc.{index}.", weights, f"encoder.blocks.{index}.", memory, None, num_heads, eps
        )
    memory = show("enc.out", memory)
    x = _embedded(show, "dec.emb.", weights, target)
    for index in range(num_blocks[1]):
        x = _block(show, f"dec.{index}.", weights, f"decoder.blocks.{index}.", x, memory, num_heads, eps)
    x = show("dec.out", x)
    table = weights.get("output.weight", weights["embeddings.token.weight"])
    logits = show("head.logits", x @ table.T + weights["output.bias"])
    show("loss", cross_entropy(logits, labels))
    return show.values


def _embedded(show: Shown, scope: str, weights: Weights, ids: Sequence[int]) -> Array:
    table = weights["embeddings.token.weight"]
    width = table.shape[1]
    x = show(f"{scope}token", table[list(ids)])
    angles = np.arange(len(ids))[:, None] / 10000 ** (2 * (np.arange(width) // 2) / width)
    is_even = np.arange(width) % 2 == 0
    position = show(f"{scope}position", np.where(is_even, np.sin(angles), np.cos(angles)))
    x = show(f"{scope}scaled", x * math.sqrt(width))
    return show(f"{scope}out", show(f"{scope}sum", x + position))


def _block(
    show: Shown,
    own: str,
    weights: Weights,
    module: str,
    x: Array,
    memory: Array | None,
    num_heads: int,
    eps: float,
) -> Array:
    sublayers = [("attn", "attention")] + ([("cross", "cross_attention")] if memory is not None else [])
    for name, part in sublayers:
        names = {"q": "query", "k": "key", "v": "value", "proj": "output"}
        names = {key: f"{module}{part}.{layer}" for key, layer in names.items()}
        is_cross = name == "cross"
        keys = memory if is_cross else x
        assert keys is not None
        is_causal = memory is not None and not is_cross
        seen = attention(show, f"{own}{name}.", x, keys, weights, names, num_heads, is_causal=is_causal)
        x = show(f"{own}{name}.sum", x + seen)
        norm = f"{module}{'cross' if is_cross else 'attention'}_norm"
        x = show(f"{own}{name}.norm", layer_norm(x, weights, norm, eps))
    inner = show(f"{own}mlp.pre", linear(x, weights, f"{module}mlp.inner"))
    inner = show(f"{own}mlp.act", np.maximum(inner, 0.0))
    x = show(f"{own}mlp.sum", x + show(f"{own}mlp.out", linear(inner, weights, f"{module}mlp.outer")))
    return show(f"{own}out", show(f"{own}mlp.norm", layer_norm(x, weights, f"{module}mlp_norm", eps)))


def attention(
    show: Shown,
    own: str,
    x: Array,
    memory: Array,
    weights: Weights,
    names: Mapping[str, str],
    num_heads: int,
    *,
    is_causal: bool = False,
) -> Array:
    """Return what attention adds to its input: head by head, then side by side, then projected."""
    q = show(f"{own}q", linear(x, weights, names["q"]))
    k = show(f"{own}k", linear(memory, weights, names["k"]))
    v = show(f"{own}v", linear(memory, weights, names["v"]))
    size = q.shape[1] // num_heads
    parts = [slice(head * size, (head + 1) * size) for head in range(num_heads)]
    raw = show(f"{own}raw", [[q[:, part] @ k[:, part].T for part in parts]])
    scores = show(f"{own}scores", raw / math.sqrt(size))
    if is_causal:
        is_later = np.arange(len(k))[None, :] > np.arange(len(q))[:, None]
        scores = show(f"{own}masked", np.where(is_later, -np.inf, scores))
    probs = show(f"{own}probs", softmax(scores))
    contexts = [probs[0, head] @ v[:, part] for head, part in enumerate(parts)]
    context = show(f"{own}context", np.concatenate(contexts, axis=1))
    return show(f"{own}proj", linear(context, weights, names["proj"]))


def linear(x: Array, weights: Weights, name: str) -> Array:
    """Return ``x`` W^T + b."""
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def layer_norm(x: Array, weights: Weights, name: str, eps: float) -> Array:
    """Return each row with mean 0 and deviation 1, times gamma, plus beta."""
    centred = x - x.mean(axis=1, keepdims=True)
    deviation = np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps)
    return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def gelu(x: Array) -> Array:
    """Return x times the share of a normal distribution below x."""
    return x * special.ndtr(x)


def softmax(x: Array) -> Array:
    """Return the probabilities of the last axis."""
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def cross_entropy(logits: Array, labels: Sequence[int]) -> float:
    """Return the surprise at the right columns, added up over the rows."""
    top = logits.max(axis=1)
    totals = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return float((totals - logits[np.arange(len(logits)), list(labels)]).sum())

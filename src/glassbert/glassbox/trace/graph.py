"""The steps of a pass, each with its formula, before anything is computed.

A formula is a line of NumPy. Its symbols are the step's inputs, weights and constants; `heads` divides the
features of (tokens, D) among the heads, (1, N, tokens, H), and `join` puts them side by side again; `take`
picks a column for each row; reductions run over the last axis. What else a formula uses is in NumPy under
that name, or is a function of the same name in every textbook: softmax, gelu, erf.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from glassbert.config import BertConfig

ACTIVATION_FORMULAS = {
    "gelu": "x * (1 + erf(x / sqrt(2))) / 2",
    "gelu_new": "x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2",
    "relu": "maximum(x, 0)",
    "silu": "x / (1 + exp(-x))",
}
LAYER_NORM = "(x - mean(x)) / sqrt(var(x) + eps) * gamma + beta"


@dataclass(frozen=True)
class Step:
    """One named result of a pass."""

    name: str
    formula: str
    """How its numbers follow from the inputs, weights and constants; empty for what the model is given."""
    dims: tuple[str, ...]
    """What each axis counts: token, target, hidden, inner, head, vocabulary, label, ..."""
    shape: tuple[int, ...]
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Names of earlier steps, by symbol."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Names of the network's parameters, by symbol."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, by symbol."""

    @property
    def is_given(self) -> bool:
        """Whether these are ids or labels, which are whole numbers and have no gradient."""
        return not self.formula

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)


@dataclass
class Graph:
    """Steps in the order of computation. Methods add some and return the name of the result."""

    sizes: Mapping[str, int]
    """The length of each kind of axis."""
    shape: BertConfig
    """Of the blocks."""
    steps: list[Step] = field(default_factory=list)

    def add(
        self,
        name: str,
        formula: str,
        dims: Iterable[str],
        inputs: Mapping[str, str] | None = None,
        weights: Mapping[str, str] | None = None,
        **constants: float,
    ) -> str:
        """Add one step."""
        dims = tuple(dims)
        shape = tuple(self.sizes[dim] for dim in dims)
        self.steps.append(Step(name, formula, dims, shape, inputs or {}, weights or {}, constants))
        return name

    def given(self, name: str, *dims: str) -> str:
        """Add whole numbers that the model is given."""
        return self.add(name, "", dims)

    def linear(
        self,
        name: str,
        x: str,
        layer: str,
        dims: Iterable[str],
        *,
        weight: str | None = None,
        has_bias: bool = True,
        rows: str = "",
        **inputs: str,
    ) -> str:
        """Add a linear layer.

        Args:
            layer: Name of the module.
            weight: Name of its matrix, if that belongs to another layer.
            rows: Which rows of ``x`` it reads, such as `[:1]`.
            inputs: What else the formula names.
        """
        weights = {"W": weight or f"{layer}.weight"} | ({"b": f"{layer}.bias"} if has_bias else {})
        formula = f"x{rows} @ W.T" + (" + b" if has_bias else "")
        return self.add(name, formula, dims, {"x": x, **inputs}, weights)

    def norm(self, name: str, x: str, layer: str, dims: Iterable[str], eps: float | None = None) -> str:
        """Add a LayerNorm."""
        weights = {"gamma": f"{layer}.weight", "beta": f"{layer}.bias"}
        return self.add(name, LAYER_NORM, dims, {"x": x}, weights, eps=eps or self.shape.layer_norm_eps)

    def activation(self, name: str, x: str, dims: Iterable[str]) -> str:
        """Add the activation that the config names."""
        return self.add(name, ACTIVATION_FORMULAS[self.shape.hidden_act], dims, {"x": x})

    def embeddings(self, scope: str, layer: str, dim: str, *, is_scaled: bool) -> str:
        """Add the way from ids to what the first block reads."""
        rows = (dim, "hidden")
        ids = self.given(f"{scope}.ids", dim)
        parts = {
            "token": self.add(
                f"{scope}.token", "table[ids]", rows, {"ids": ids}, {"table": f"{layer}.token.weight"}
            )
        }
        if not is_scaled:
            segments = self.given(f"{scope}.segments", dim)
            table = {"table": f"{layer}.segment.weight"}
            parts["segment"] = self.add(
                f"{scope}.segment", "table[segments]", rows, {"segments": segments}, table
            )
        if self.shape.positions != "rotary":
            parts["position"] = self._positions(scope, layer, dim)
        if is_scaled:
            parts["token"] = self.add(
                f"{scope}.scaled", "token * sqrt(D)", rows, {"token": parts["token"]}, D=self.sizes["hidden"]
            )
        out = self.add(f"{scope}.sum", " + ".join(parts), rows, parts)
        if not is_scaled:
            out = self.norm(f"{scope}.norm", out, f"{layer}.norm", rows)
        return self.add(f"{scope}.out", "x", rows, {"x": out})

    def _positions(self, scope: str, layer: str, dim: str) -> str:
        inputs = {"positions": self.given(f"{scope}.positions", dim)}
        if self.shape.positions == "learned":
            table = {"table": f"{layer}.position.weight"}
            return self.add(f"{scope}.position", "table[positions]", (dim, "hidden"), inputs, table)
        return self.add(
            f"{scope}.position", "sinusoids(positions, D)", (dim, "hidden"), inputs, D=self.sizes["hidden"]
        )

    def stack(
        self, scope: str, layer: str, x: str, num_blocks: int, dim: str, *, memory: str | None = None
    ) -> str:
        """Add blocks on top of each other; with a ``memory``, those of a decoder."""
        rows = (dim, "hidden")
        for index in range(num_blocks):
            x = self._block(f"{scope}.{index}", f"{layer}.blocks.{index}", x, dim, memory)
        if self.shape.norm_position == "pre":
            return self.norm(f"{scope}.out", x, f"{layer}.final_norm", rows)
        return self.add(f"{scope}.out", "x", rows, {"x": x})

    def _block(self, scope: str, layer: str, x: str, dim: str, memory: str | None) -> str:
        rows, is_pre = (dim, "hidden"), self.shape.norm_position == "pre"
        sublayers = [("attn", "attention")] + ([("cross", "cross_attention")] if memory else [])
        for name, module in [*sublayers, ("mlp", "mlp")]:
            norm = f"{layer}.{module.removesuffix('_attention')}_norm"
            place = f"{scope}.{name}"
            inner = self.norm(f"{place}.norm", x, norm, rows) if is_pre else x
            if name == "mlp":
                x = self._feed_forward(place, f"{layer}.mlp", inner, x, dim)
            else:
                source = memory if name == "cross" else None
                x = self.attention(
                    place, f"{layer}.{module}", inner, x, dim, memory=source, is_causal=bool(memory)
                )
            x = x if is_pre else self.norm(f"{place}.norm", x, norm, rows)
        return self.add(f"{scope}.out", "x", rows, {"x": x})

    def attention(
        self,
        scope: str,
        layer: str,
        x: str,
        residual: str,
        dim: str,
        *,
        memory: str | None = None,
        is_causal: bool = False,
    ) -> str:
        """Add an attention with its residual sum; of ``x`` to itself, or to a ``memory`` of source tokens."""
        keys = "token" if memory else dim
        q, k, v = self._queries_keys_values(scope, layer, x, memory or x, dim, keys)
        grid = ("text", "head", dim, keys)
        raw = self.add(f"{scope}.raw", "heads(q) @ heads(k).mT", grid, {"q": q, "k": k})
        size = self.sizes["hidden"] // self.sizes["head"]
        scores = self.add(f"{scope}.scores", "raw / sqrt(d_k)", grid, {"raw": raw}, d_k=size)
        if is_causal and memory is None:
            scores = self.add(
                f"{scope}.masked", "where(tril(ones_like(scores)), scores, -inf)", grid, {"scores": scores}
            )
        probs = self.add(f"{scope}.probs", "softmax(scores)", grid, {"scores": scores})
        rows = (dim, "hidden")
        context = self.add(f"{scope}.context", "join(probs @ heads(v))", rows, {"probs": probs, "v": v})
        proj = self.linear(f"{scope}.proj", context, f"{layer}.output", rows, has_bias=self.shape.use_bias)
        return self.add(f"{scope}.sum", "x + proj", rows, {"x": residual, "proj": proj})

    def _queries_keys_values(
        self, scope: str, layer: str, x: str, memory: str, dim: str, keys: str
    ) -> tuple[str, str, str]:
        is_rotary, has_bias = self.shape.positions == "rotary", self.shape.use_bias
        plain = ".unrotated" if is_rotary else ""
        q = self.linear(f"{scope}.q{plain}", x, f"{layer}.query", (dim, "hidden"), has_bias=has_bias)
        k = self.linear(f"{scope}.k{plain}", memory, f"{layer}.key", (keys, "hidden"), has_bias=has_bias)
        if is_rotary:
            q = self.add(f"{scope}.q", "rotated(q)", (dim, "hidden"), {"q": q})
            k = self.add(f"{scope}.k", "rotated(k)", (keys, "hidden"), {"k": k})
        v = self.linear(f"{scope}.v", memory, f"{layer}.value", (keys, "hidden"), has_bias=has_bias)
        return q, k, v

    def _feed_forward(self, scope: str, layer: str, x: str, residual: str, dim: str) -> str:
        wide, rows, has_bias = (dim, "inner"), (dim, "hidden"), self.shape.use_bias
        pre = self.linear(f"{scope}.pre", x, f"{layer}.inner", wide, has_bias=has_bias)
        inner = self.activation(f"{scope}.act", pre, wide)
        if self.shape.gated_mlp:
            gate = self.linear(f"{scope}.gate", x, f"{layer}.gate", wide, has_bias=has_bias)
            inner = self.add(f"{scope}.gated", "act * gate", wide, {"act": inner, "gate": gate})
        out = self.linear(f"{scope}.out", inner, f"{layer}.outer", rows, has_bias=has_bias)
        return self.add(f"{scope}.sum", "x + out", rows, {"x": residual, "out": out})

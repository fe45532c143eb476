"""A BERT as a graph of ONNX: the formula with padding, as every other program computes it.

Legend: B sequences, L tokens of the longest, D hidden size, N heads, H head size.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from glassbert.heads import HEADS
from glassbert.model.attention import Attention
from glassbert.model.bert import Bert
from glassbert.model.block import Block, FeedForward
from glassbert.model.heads import MaskedLanguageHead
from glassbert.model.linear import Linear
from glassbert.model.pooling import Pooling
from glassbert.model.positions import frequencies, sinusoids

OPSET, IR_VERSION = 20, 10
"""Old enough for programs of the last years, new enough for LayerNormalization and Gelu."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_BATCH, _LENGTH = "batch", "length"
_HIDDEN = np.float32(-3.4028235e38)


class _Graph:
    """Nodes and constants under names of their own."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[int, str] = {}

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return its name."""
        from onnx import helper

        name = f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def rename(self, name: str, output: str) -> str:
        """Give a result the name of an output."""
        from onnx import helper

        self.nodes.append(helper.make_node("Identity", [name], [output], name=output))
        return output

    def constant(self, value: NDArray[Any] | Tensor | float | list[int]) -> str:
        """Add numbers and return their name; a parameter that is used twice is stored once."""
        from onnx import numpy_helper

        is_parameter = isinstance(value, nn.Parameter)
        if is_parameter and id(value) in self._known:
            return self._known[id(value)]
        if isinstance(value, Tensor):
            array = value.detach().float().cpu().numpy()
        else:
            array = np.asarray(value, np.int64 if isinstance(value, list) else np.float32)
        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        if is_parameter:
            self._known[id(value)] = name
        return name

    def linear(self, layer: Linear, x: str, activation: str | None = None) -> str:
        """Return ``activation(x W^T + b)``."""
        weight = self.op("Transpose", self.constant(layer.weight), perm=[1, 0])
        y = self.op("MatMul", x, weight)
        if layer.bias is not None:
            y = self.op("Add", y, self.constant(layer.bias))
        return y if activation is None else self._activated(y, activation)

    def norm(self, layer: nn.LayerNorm, x: str) -> str:
        """Return a LayerNorm over the features."""
        gain, bias = self.constant(layer.weight), self.constant(layer.bias)
        return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=layer.eps)

    def _activated(self, y: str, activation: str) -> str:
        if activation == "silu":
            return self.op("Mul", y, self.op("Sigmoid", y))
        if activation.startswith("gelu"):
            return self.op("Gelu", y, approximate="tanh" if activation == "gelu_new" else "none")
        return self.op({"relu": "Relu", "tanh": "Tanh"}[activation], y)


def bert_graph(network: Bert, pooling: Pooling | None) -> Any:
    """Return the network as an ONNX model with dynamic numbers of texts and tokens.

    Args:
        pooling: How a text's vector is made, which then is an output too.
    """
    from onnx import TensorProto, helper

    graph = _Graph()
    hidden = _encoder(graph, network)
    outputs = {"last_hidden_state": hidden} if network.config.head == "none" else {}
    outputs |= _heads(graph, network, hidden)
    if pooling is not None:
        outputs["sentence_embedding"] = _pooled(graph, hidden, pooling)
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, [_BATCH, _LENGTH]) for name in INPUTS]
    results = [
        helper.make_tensor_value_info(graph.rename(name, output), TensorProto.FLOAT, _shape(network, output))
        for output, name in outputs.items()
    ]
    made = helper.make_graph(graph.nodes, "bert", inputs, results, graph.constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="glassbert")


def _shape(network: Bert, output: str) -> list[str | int]:
    """Return the sizes of an output."""
    config = network.config
    if output in ("start_logits", "end_logits"):
        return [_BATCH, _LENGTH]
    if output in ("pooler_output", "sentence_embedding"):
        return [_BATCH, config.encoder.hidden_size]
    if output == "last_hidden_state":
        return [_BATCH, _LENGTH, config.encoder.hidden_size]
    if output == "seq_relationship_logits" or config.head == "nsp":
        return [_BATCH, 2]
    if network.mlm is not None:
        return [_BATCH, _LENGTH, config.encoder.vocab_size]
    of_tokens = [_LENGTH] if HEADS[config.head].reads["labels"] == "tokens" else []
    return [_BATCH, *of_tokens, len(config.labels)]


def _encoder(graph: _Graph, network: Bert) -> str:
    embeddings, shape = network.encoder.embeddings, network.config.encoder
    ids, mask, segments = INPUTS
    zero, one = graph.constant([0]), graph.constant([1])
    length = graph.op("Shape", ids, start=1, end=2)
    positions = graph.op("Range", *(graph.op("Squeeze", x) for x in (zero, length, one)))
    x = graph.op("Gather", graph.constant(embeddings.token.weight), ids)
    assert embeddings.segment is not None
    assert embeddings.norm is not None
    x = graph.op("Add", x, graph.op("Gather", graph.constant(embeddings.segment.weight), segments))
    if shape.positions != "rotary":
        table = sinusoids(shape.max_position_embeddings, shape.hidden_size)
        learned = embeddings.position
        x = graph.op(
            "Add",
            x,
            graph.op("Gather", graph.constant(table if learned is None else learned.weight), positions),
        )
    x = graph.norm(embeddings.norm, x)
    visible = graph.op("Cast", graph.op("Unsqueeze", mask, graph.constant([1, 2])), to=1)
    bias = graph.op("Mul", graph.op("Sub", graph.constant(1.0), visible), graph.constant(float(_HIDDEN)))
    turns = None
    if shape.positions == "rotary":
        turns = _turns(graph, positions, shape.max_position_embeddings, shape.head_size)
    for block in network.encoder.blocks:
        assert isinstance(block, Block)
        x = _block(graph, block, x, bias, turns)
    final = network.encoder.final_norm
    return x if final is None else graph.norm(final, x)


def _turns(graph: _Graph, positions: str, num_positions: int, head_size: int) -> tuple[str, str]:
    """Return cosines and sines of the angles at each position, (L, H / 2) each."""
    angles = np.arange(num_positions)[:, None] * frequencies(head_size).numpy()
    tables = (np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))
    cos, sin = (graph.op("Gather", graph.constant(table), positions) for table in tables)
    return cos, sin


def _block(graph: _Graph, block: Block, x: str, bias: str, turns: tuple[str, str] | None) -> str:
    if block.is_pre_norm:
        inner = graph.norm(block.attention_norm, x)
        x = graph.op("Add", x, _attention(graph, block.attention, inner, bias, turns))
        return graph.op("Add", x, _feed_forward(graph, block.mlp, graph.norm(block.mlp_norm, x)))
    attended = graph.op("Add", x, _attention(graph, block.attention, x, bias, turns))
    x = graph.norm(block.attention_norm, attended)
    return graph.norm(block.mlp_norm, graph.op("Add", x, _feed_forward(graph, block.mlp, x)))


def _attention(graph: _Graph, attention: Attention, x: str, bias: str, turns: tuple[str, str] | None) -> str:
    heads = graph.constant([0, 0, attention.num_heads, -1])

    def split(layer: Linear, perm: list[int]) -> str:
        return graph.op("Transpose", graph.op("Reshape", graph.linear(layer, x), heads), perm=perm)

    q, k, v = (split(layer, [0, 2, 1, 3]) for layer in (attention.query, attention.key, attention.value))
    if turns is not None:
        q, k = _rotated(graph, q, turns), _rotated(graph, k, turns)
    scale = graph.constant((attention.query.out_features / attention.num_heads) ** -0.5)
    scores = graph.op("MatMul", graph.op("Mul", q, scale), graph.op("Transpose", k, perm=[0, 1, 3, 2]))
    probs = graph.op("Softmax", graph.op("Add", scores, bias), axis=-1)
    context = graph.op("Transpose", graph.op("MatMul", probs, v), perm=[0, 2, 1, 3])
    return graph.linear(attention.output, graph.op("Reshape", context, graph.constant([0, 0, -1])))


def _rotated(graph: _Graph, x: str, turns: tuple[str, str]) -> str:
    """Turn pairs of features, as `rotate` does; (B, N, L, H)."""
    from onnx import helper

    halves = [f"{x}_first", f"{x}_second"]
    graph.nodes.append(helper.make_node("Split", [x], halves, name=f"{x}_halves", axis=-1, num_outputs=2))
    (first, second), (cos, sin) = halves, turns
    turned = (
        graph.op("Sub", graph.op("Mul", first, cos), graph.op("Mul", second, sin)),
        graph.op("Add", graph.op("Mul", second, cos), graph.op("Mul", first, sin)),
    )
    return graph.op("Concat", *turned, axis=-1)


def _feed_forward(graph: _Graph, mlp: FeedForward, x: str) -> str:
    inner = graph.linear(mlp.inner, x, mlp.activation)
    if mlp.gate is not None:
        inner = graph.op("Mul", inner, graph.linear(mlp.gate, x))
    return graph.linear(mlp.outer, inner)


def _heads(graph: _Graph, network: Bert, hidden: str) -> dict[str, str]:
    """Return the results of the heads under the names that `transformers` gives them."""
    found: dict[str, str] = {}
    pooled, is_pretraining = "", network.config.head == "pretraining"
    if network.pooler is not None:
        first = graph.op("Gather", hidden, graph.op("Squeeze", graph.constant([0])), axis=1)
        pooled = graph.linear(network.pooler.dense, first, "tanh")
        if network.config.head == "none":
            found["pooler_output"] = pooled
    if network.mlm is not None:
        found["prediction_logits" if is_pretraining else "logits"] = _masked(graph, network.mlm, hidden)
    if network.nsp is not None:
        found["seq_relationship_logits" if is_pretraining else "logits"] = graph.linear(network.nsp, pooled)
    if network.labels is not None:
        reads_pooled = HEADS[network.config.head].reads["labels"] == "pooled"
        found["logits"] = graph.linear(network.labels.dense, pooled if reads_pooled else hidden)
    if network.span is not None:
        logits = graph.linear(network.span, hidden)
        for place, name in enumerate(("start_logits", "end_logits")):
            found[name] = graph.op("Gather", logits, graph.op("Squeeze", graph.constant([place])), axis=2)
    return found


def _masked(graph: _Graph, head: MaskedLanguageHead, hidden: str) -> str:
    features = graph.norm(head.norm, graph.linear(head.dense, hidden, head.activation))
    return graph.linear(head.decoder, features)


def _pooled(graph: _Graph, hidden: str, pooling: Pooling) -> str:
    """Return a text's vector, (B, D): mean or [CLS]; see `can_pool`."""
    if pooling.modes == ("cls",):
        vector = graph.op("Gather", hidden, graph.op("Squeeze", graph.constant([0])), axis=1)
    else:
        mask = graph.op("Cast", graph.op("Unsqueeze", INPUTS[1], graph.constant([2])), to=1)
        total, number = (
            graph.op("ReduceSum", x, graph.constant([1]), keepdims=0)
            for x in (graph.op("Mul", hidden, mask), mask)
        )
        vector = graph.op("Div", total, number)
    return graph.op("LpNormalization", vector, axis=-1, p=2) if pooling.should_normalise else vector


def can_pool(pooling: Pooling) -> bool:
    """Return whether a graph computes this pooling."""
    return pooling.modes in (("mean",), ("cls",))

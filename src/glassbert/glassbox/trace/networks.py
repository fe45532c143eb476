"""The steps of each kind of network: BERT with its heads, the Transformer, the LSTM."""

from glassbert.config import BertConfig, LstmConfig, ModelConfig, TransformerConfig
from glassbert.glassbox.trace.graph import Graph
from glassbert.heads import HEADS


def bert_graph(config: ModelConfig, *, num_tokens: int, num_predicted: int) -> Graph:
    """Return the steps of a pass through a BERT, without losses.

    Args:
        num_predicted: Tokens at which the MLM head predicts.
    """
    shape = config.encoder
    graph = Graph(
        {
            **_sizes(shape),
            "token": num_tokens,
            "predicted": num_predicted,
            "label": len(config.labels),
            "side": 2,
        },
        shape,
    )
    embedded = graph.embeddings("emb", "encoder.embeddings", "token", is_scaled=False)
    hidden = graph.stack("enc", "encoder", embedded, shape.num_hidden_layers, "token")
    _add_heads(graph, config, hidden)
    return graph


def _add_heads(graph: Graph, config: ModelConfig, hidden: str) -> None:
    """Add what sits on the encoder, in the order in which `Bert.forward` computes it."""
    parts, one = config.parts, ("text", "hidden")
    if "pooler" in parts:
        dense = graph.linear("head.pooler.dense", hidden, "pooler.dense", one, rows="[:1]")
        graph.add("head.pooled", "tanh(x)", one, {"x": dense})
    if "mlm" in parts and graph.sizes["predicted"]:
        _add_mlm(graph, config, hidden)
    if "nsp" in parts:
        graph.linear("head.nsp.logits", "head.pooled", "nsp", ("text", "side"))
    if "labels" in parts:
        is_pooled = HEADS[config.head].reads["labels"] == "pooled"
        source, rows = ("head.pooled", "text") if is_pooled else (hidden, "token")
        graph.linear("head.labels.logits", source, "labels.dense", (rows, "label"))
    if "span" in parts:
        graph.linear("head.span.logits", hidden, "span", ("token", "side"))


def _add_mlm(graph: Graph, config: ModelConfig, hidden: str) -> None:
    rows = ("predicted", "hidden")
    places = graph.given("head.mlm.places", "predicted")
    dense = graph.linear("head.mlm.dense", hidden, "mlm.dense", rows, rows="[places]", places=places)
    features = graph.norm("head.mlm.norm", graph.activation("head.mlm.act", dense, rows), "mlm.norm", rows)
    tied = "encoder.embeddings.token.weight" if config.encoder.tie_word_embeddings else None
    graph.linear("head.mlm.logits", features, "mlm.decoder", ("predicted", "vocabulary"), weight=tied)


def translator_graph(config: TransformerConfig | LstmConfig, *, num_source: int, num_target: int) -> Graph:
    """Return the steps of teacher forcing: source and target in, logits and loss of the target out."""
    is_lstm = isinstance(config, LstmConfig)
    shape = _attention_shape(config) if isinstance(config, LstmConfig) else config.encoder
    graph = Graph({**_sizes(shape), "token": num_source, "target": num_target}, shape)
    if isinstance(config, LstmConfig):
        hidden = _add_lstm(graph, config)
    else:
        source = graph.embeddings("emb", "embeddings", "token", is_scaled=True)
        memory = graph.stack("enc", "encoder", source, shape.num_hidden_layers, "token")
        target = graph.embeddings("dec.emb", "embeddings", "target", is_scaled=True)
        hidden = graph.stack("dec", "decoder", target, config.num_decoder_layers, "target", memory=memory)
    table = "token.weight" if is_lstm else "embeddings.token.weight"
    tied = table if is_lstm or shape.tie_word_embeddings else None
    logits = graph.linear("head.logits", hidden, "output", ("target", "vocabulary"), weight=tied)
    labels = graph.given("head.labels", "target")
    graph.add("loss", "-sum(take(log(softmax(logits)), labels))", (), {"logits": logits, "labels": labels})
    return graph


def _add_lstm(graph: Graph, config: LstmConfig) -> str:
    source, target = ("token", "hidden"), ("target", "hidden")
    embedded = _lstm_embeddings(graph, "emb", "token")
    memory = graph.add("enc.out", "lstm(x)", source, {"x": embedded}, _lstm_weights(config, "encoder"))
    written = _lstm_embeddings(graph, "dec.emb", "target")
    inputs = {"x": written, "memory": memory}
    weights = _lstm_weights(config, "decoder")
    hidden = graph.add("dec.lstm", "lstm(x, last(memory))", target, inputs, weights)
    if config.has_attention:
        hidden = graph.attention("dec.cross", "attention", hidden, hidden, "target", memory=memory)
    norm = graph.norm("dec.norm", hidden, "norm", target, eps=1e-5)
    return graph.add("dec.out", "x", target, {"x": norm})


def _lstm_embeddings(graph: Graph, scope: str, dim: str) -> str:
    rows, ids = (dim, "hidden"), graph.given(f"{scope}.ids", dim)
    token = graph.add(f"{scope}.token", "table[ids]", rows, {"ids": ids}, {"table": "token.weight"})
    scaled = graph.add(f"{scope}.scaled", "token * sqrt(D)", rows, {"token": token}, D=graph.sizes["hidden"])
    return graph.add(f"{scope}.out", "x", rows, {"x": scaled})


def _lstm_weights(config: LstmConfig, layer: str) -> dict[str, str]:
    """Return the parameters of a recurrent layer by the symbols that torch's documentation gives them."""
    ways = ("", "_reverse") if layer == "encoder" else ("",)
    symbols = [
        f"{kind}_l{index}{way}"
        for index in range(config.num_hidden_layers)
        for way in ways
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    return {symbol: f"{layer}.{symbol}" for symbol in symbols}


def _attention_shape(config: LstmConfig) -> BertConfig:
    return BertConfig(vocab_size=config.vocab_size, hidden_size=config.hidden_size, num_attention_heads=1)


def _sizes(shape: BertConfig) -> dict[str, int]:
    return {
        "text": 1,
        "hidden": shape.hidden_size,
        "inner": shape.intermediate_size,
        "head": shape.num_attention_heads,
        "vocabulary": shape.vocab_size,
    }

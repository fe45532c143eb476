from typing import Any

import pytest
from torch import nn

from glassbert.config import BertConfig, LstmConfig, ModelConfig, TransformerConfig
from glassbert.model.bert import Bert
from glassbert.model.depth import depth_of, flops_in_blocks, num_weights
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer

SHAPE = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    norm_position="pre",
)
BERT = Bert(ModelConfig(encoder=SHAPE, head="pretraining"))
TRANSFORMER = Transformer(TransformerConfig(encoder=SHAPE, num_decoder_layers=3))
LSTM = Lstm(LstmConfig(vocab_size=20, hidden_size=8))


@pytest.mark.parametrize(
    ("network", "name", "depth"),
    [
        (BERT, "encoder.embeddings.norm.bias", 0),
        (BERT, "encoder.blocks.0.mlp.inner.weight", 1),
        (BERT, "encoder.blocks.1.attention_norm.weight", 2),
        (BERT, "encoder.final_norm.weight", 3),
        (BERT, "mlm.decoder.weight", 0),  # tied to the token embedding
        (BERT, "mlm.decoder.bias", 3),
        (TRANSFORMER, "embeddings.token.weight", 0),
        (TRANSFORMER, "encoder.blocks.1.mlp.outer.bias", 2),
        (TRANSFORMER, "decoder.blocks.0.cross_attention.key.weight", 3),
        (TRANSFORMER, "decoder.blocks.2.mlp.outer.bias", 5),
        (TRANSFORMER, "output.bias", 6),
        (LSTM, "token.weight", 0),
        (LSTM, "decoder.weight_hh_l0", 1),
    ],
)
def test_depth_counts_embeddings_then_blocks_then_what_is_on_top(network: Any, name: str, depth: int) -> None:
    assert depth_of(network, network.get_parameter(name)) == depth


def test_layers_are_the_embeddings_and_every_block() -> None:
    assert BERT.layers() == [BERT.encoder.embeddings, *BERT.encoder.blocks]
    assert len(TRANSFORMER.layers()) == 1 + 2 + 3
    assert LSTM.layers() == [LSTM.token]


def test_only_matrices_are_counted_as_weights() -> None:
    assert num_weights(nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))) == 15


@pytest.mark.parametrize(
    ("share_read", "num_products"),
    [
        # Both blocks: four projections of 8 x 8 and two of 8 x 16; scores and sums over 10 tokens of 8.
        (1.0, 2 * (4 * 64 + 2 * 128) + 2 * (2 * 10 * 8)),
        # The last block computes keys and values only.
        (0.0, (4 * 64 + 2 * 128 + 2 * 64) + 2 * 10 * 8),
    ],
)
def test_training_costs_six_operations_for_each_product_of_the_blocks(
    share_read: float, num_products: int
) -> None:
    assert flops_in_blocks(BERT.encoder.blocks, 10, share_read) == 6 * num_products

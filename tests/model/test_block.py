import pytest
import torch
import torch.nn.functional as F
from torch import nn

from glassbert.config import BertConfig
from glassbert.model.block import Block
from glassbert.model.layout import Layout, unpack
from glassbert.model.tap import Tap

SHAPE = {
    "hidden_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "layer_norm_eps": 1e-5,
}
IGNORE = Tap(lambda _, value: value)


def config(**changes: object) -> BertConfig:
    return BertConfig(**(SHAPE | changes))  # type: ignore[arg-type]


def copy_attention(ours: nn.Module, theirs: nn.MultiheadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.query.weight, ours.key.weight, ours.value.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.query.bias, ours.key.bias, ours.value.bias]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        theirs.out_proj.bias.copy_(ours.output.bias)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("tap", [None, IGNORE])
def test_an_encoder_block_equals_torchs_encoder_layer(norm_position: str, tap: Tap | None) -> None:
    torch.manual_seed(0)
    block = Block(config(norm_position=norm_position)).eval()
    oracle = nn.TransformerEncoderLayer(
        16, 4, 24, dropout=0.0, batch_first=True, norm_first=norm_position == "pre"
    ).eval()
    copy_attention(block.attention, oracle.self_attn)
    oracle.linear1.load_state_dict(block.mlp.inner.state_dict())
    oracle.linear2.load_state_dict(block.mlp.outer.state_dict())
    layout = Layout((3, 5))
    x = torch.randn(8, 16)
    padded = unpack(x, layout)
    hidden = torch.arange(5) >= torch.tensor(layout.lengths)[:, None]
    expected = oracle(padded, src_key_padding_mask=hidden)
    torch.testing.assert_close(block(x, layout, tap=tap), expected[~hidden], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre"])
@pytest.mark.parametrize("tap", [None, IGNORE])
def test_a_decoder_block_equals_torchs_decoder_layer(norm_position: str, tap: Tap | None) -> None:
    torch.manual_seed(0)
    block = Block(config(norm_position=norm_position), is_causal=True, has_cross_attention=True).eval()
    oracle = nn.TransformerDecoderLayer(
        16, 4, 24, dropout=0.0, batch_first=True, norm_first=norm_position == "pre"
    ).eval()
    copy_attention(block.attention, oracle.self_attn)
    copy_attention(block.cross_attention, oracle.multihead_attn)
    oracle.linear1.load_state_dict(block.mlp.inner.state_dict())
    oracle.linear2.load_state_dict(block.mlp.outer.state_dict())
    x, memory = torch.randn(4, 16), torch.randn(6, 16)
    causal = nn.Transformer.generate_square_subsequent_mask(4)
    expected = oracle(x[None], memory[None], tgt_mask=causal)[0]
    got = block(x, Layout((4,)), memory=memory, memory_layout=Layout((6,)), tap=tap)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


def test_a_gated_block_multiplies_the_activation_by_the_gate() -> None:
    mlp = Block(config(gated_mlp=True, hidden_act="gelu", use_bias=False)).mlp
    x = torch.randn(3, 16)
    inner = F.gelu(x @ mlp.inner.weight.T) * (x @ mlp.gate.weight.T)
    torch.testing.assert_close(mlp(x), inner @ mlp.outer.weight.T)


def test_a_block_without_biases_has_none_in_its_projections() -> None:
    names = [name for name, _ in Block(config(use_bias=False)).named_parameters() if name.endswith("bias")]
    assert names == ["attention_norm.bias", "mlp_norm.bias"]

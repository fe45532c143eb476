"""Export to CTranslate2, an engine for translation alone, by its own converter."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import ModelError, UserError
from glassbert.model.attention import Attention
from glassbert.model.block import Block
from glassbert.model.positions import sinusoids
from glassbert.model.seq2seq import Transformer
from glassbert.model.stack import Stack
from glassbert.storage import new_folder

# Our name of an activation, and the converter's.
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu_new": "GELUTanh", "silu": "SWISH"}
# Never chosen, and still a number in half precision.
_NEVER = -1e4


def export_ctranslate2(
    network: Transformer,
    pieces: Sequence[str],
    out: str | Path,
    *,
    unknown_piece: str | None = None,
    quantization: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write ``network`` as a folder that `ctranslate2.Translator` loads; it adds the end of sources itself.

    Args:
        pieces: The vocabulary by id.
        unknown_piece: Replaces pieces that are not in the vocabulary; the start piece when not given.
        quantization: How the converter stores the numbers, such as int8; float32 when not given.
    """
    converter = _converter(network, pieces, unknown_piece)
    with new_folder(Path(out), overwrite=overwrite) as folder:
        # The converter empties the folder that it writes to, so it has one of its own.
        try:
            converter.convert(str(folder / "model"), quantization=quantization)
        except ValueError as error:
            raise UserError(f"CTranslate2 refuses to convert: {error}") from None
        for path in (folder / "model").iterdir():
            path.rename(folder / path.name)
        (folder / "model").rmdir()


def _converter(network: Transformer, pieces: Sequence[str], unknown_piece: str | None) -> Any:
    try:
        from ctranslate2.converters.converter import Converter
    except ImportError:
        raise UserError("the export needs CTranslate2; install it with `pip install ctranslate2`") from None
    config = network.config
    if config.encoder.positions == "rotary":
        raise ModelError(
            "CTranslate2 has no rotary positions in attention to the source; nothing was written"
        )
    if len(pieces) != config.vocab_size:
        raise ModelError(
            f"the vocabulary has {len(pieces)} pieces, but the model has {config.vocab_size} rows"
        )

    class OwnConverter(Converter):  # type: ignore[misc]
        """Passes our spec to the converter, which checks, quantises and saves it."""

        def _load(self) -> Any:
            spec = _spec(network)
            spec.register_source_vocabulary(list(pieces))
            spec.register_target_vocabulary(list(pieces))
            start, end = pieces[config.decoder_start_token_id], pieces[config.eos_token_id]
            spec.config.bos_token = spec.config.decoder_start_token = start
            spec.config.eos_token = end
            spec.config.unk_token = start if unknown_piece is None else unknown_piece
            spec.config.add_source_eos = True
            spec.config.layer_norm_epsilon = config.encoder.layer_norm_eps
            return spec

    return OwnConverter()


def _spec(network: Transformer) -> Any:
    from ctranslate2.specs import TransformerSpec, common_spec

    config, shape = network.config, network.config.encoder
    spec = TransformerSpec.from_config(
        (shape.num_hidden_layers, config.num_decoder_layers),
        shape.num_attention_heads,
        pre_norm=shape.norm_position == "pre",
        activation=common_spec.Activation[_ACTIVATIONS[shape.hidden_act]],
        ffn_glu=shape.gated_mlp,
        alignment_heads=shape.num_attention_heads,
    )
    tokens = _numbers(network.embeddings.token.weight)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = tokens
    positions = network.embeddings.position
    table = sinusoids(config.max_length, shape.hidden_size) if positions is None else positions.weight
    for side, stack in ((spec.encoder, network.encoder), (spec.decoder, network.decoder)):
        side.position_encodings.encodings = _numbers(table)
        _fill_stack(side, stack)
    spec.decoder.projection.weight = _numbers(network.output.weight)
    bias = network.output.bias.detach().clone()
    bias[config.decoder_start_token_id] = _NEVER  # our own decoding never writes the start either
    spec.decoder.projection.bias = _numbers(bias)
    return spec


def _fill_stack(spec: Any, stack: Stack) -> None:
    for layer, block in zip(spec.layer, stack.blocks, strict=True):
        assert isinstance(block, Block)
        _fill_attention(layer.self_attention, block.attention, num_fused=3)
        _fill_norm(layer.self_attention.layer_norm, block.attention_norm)
        if block.cross_attention is not None:
            _fill_attention(layer.attention, block.cross_attention, num_fused=1)
            _fill_norm(layer.attention.layer_norm, block.cross_norm)
        _fill_linear(layer.ffn.linear_0, block.mlp.inner)
        if block.mlp.gate is not None:
            _fill_linear(layer.ffn.linear_0_noact, block.mlp.gate)
        _fill_linear(layer.ffn.linear_1, block.mlp.outer)
        _fill_norm(layer.ffn.layer_norm, block.mlp_norm)
    if stack.final_norm is not None:
        _fill_norm(spec.layer_norm, stack.final_norm)


def _fill_attention(spec: Any, attention: Attention, *, num_fused: int) -> None:
    """Fill an attention whose first ``num_fused`` projections are one matrix; the others form the next."""
    projections = [attention.query, attention.key, attention.value]
    _fill_linear(spec.linear[0], *projections[:num_fused])
    if num_fused < len(projections):
        _fill_linear(spec.linear[1], *projections[num_fused:])
    _fill_linear(spec.linear[-1], attention.output)


def _fill_linear(spec: Any, *layers: Any) -> None:
    spec.weight = _numbers(torch.cat([layer.weight for layer in layers]))
    if layers[0].bias is not None:
        spec.bias = _numbers(torch.cat([layer.bias for layer in layers]))


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma, spec.beta = _numbers(norm.weight), _numbers(norm.bias)


def _numbers(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().numpy()

"""How often each part of a Transformer is called, and which tokens it makes depend on which."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from glassbert.glassbox.lab.words import Words
from glassbert.model.block import Block
from glassbert.model.layout import Layout
from glassbert.model.seq2seq import Transformer

_ENCODER, _DECODER = Words("encoder", "编码器"), Words("decoder", "解码器")
_PARTS = {
    "self_attention": ("attention.query", Words("{}: self-attention", "{}：自注意力")),
    "cross_attention": ("cross_attention.query", Words("{}: attention to the source", "{}：对原文的注意力")),
    "feed_forward": ("mlp.inner", Words("{}: feed-forward", "{}：前馈网络")),
    "norm": ("mlp_norm", Words("{}: Add & Norm", "{}：Add & Norm")),
}


@dataclass
class Calls:
    """How one part was used."""

    name: Words
    calls: int = 0
    rows: int = 0
    """Tokens of the largest call."""


@torch.inference_mode()
def count_calls(network: Transformer, run: Callable[[], object]) -> dict[str, Calls]:
    """Return how often ``run`` calls each part of the first blocks."""
    counts: dict[str, Calls] = {}
    hooks = []

    def count(key: str, name: Words, module: nn.Module) -> None:
        counts[key] = Calls(name)

        def hook(_: nn.Module, inputs: tuple[Tensor, ...], __: object) -> None:
            counts[key].calls += 1
            counts[key].rows = max(counts[key].rows, len(inputs[0]))

        hooks.append(module.register_forward_hook(hook))

    count("embedding", Words("embedding, both sides", "Embedding，两侧合计"), network.embeddings.token)
    for side, stack, name in (("encoder", network.encoder, _ENCODER), ("decoder", network.decoder, _DECODER)):
        for part, (path, words) in _PARTS.items():
            if side == "decoder" or part != "cross_attention":
                count(f"{side}.{part}", words.format(name), stack.blocks[0].get_submodule(path))
    try:
        run()
    finally:
        for handle in hooks:
            handle.remove()
    return counts


@dataclass(frozen=True)
class Reach:
    """How far a change of one token spreads within one part."""

    name: Words
    num_changed: int
    reason: Words


@torch.inference_mode()
def changed_rows(network: Transformer, length: int) -> dict[str, Reach]:
    """Change the token in the middle of ``length`` and count whose output changes, part by part."""
    layout, place = Layout((length,)), length // 2
    generator = torch.Generator().manual_seed(0)
    encoder, decoder = cast(Block, network.encoder.blocks[0]), cast(Block, network.decoder.blocks[0])
    cross = decoder.cross_attention
    assert cross is not None
    x = torch.randn(length, network.config.encoder.hidden_size, generator=generator)
    memory = torch.randn(x.shape, generator=generator)

    def count(part: Callable[[Tensor], Tensor], inputs: Tensor) -> int:
        other = inputs.clone()
        other[place] = other[place] + 1
        return int((part(inputs) != part(other)).any(dim=1).sum())

    own = Words("each token has its own sum", "每个 token 各算各的")
    every = Words("every token looks at every token", "每个 token 都看所有 token")
    later = Words("a token looks at itself and at earlier ones", "一个 token 看自己和前面的")
    ids = torch.arange(length) % (network.config.vocab_size - 1)
    return {
        "embedding": Reach(Words("embedding", "Embedding"), count(network.embeddings.token, ids), own),
        "feed_forward": Reach(Words("feed-forward", "前馈网络"), count(encoder.mlp, x), own),
        "norm": Reach(Words("Add & Norm", "Add & Norm"), count(encoder.mlp_norm, x), own),
        "self_attention": Reach(
            Words("self-attention", "自注意力"), count(lambda one: encoder.attention(one, layout), x), every
        ),
        "masked_self_attention": Reach(
            Words("masked self-attention", "带掩码的自注意力"),
            count(lambda one: decoder.attention(one, layout), x),
            later,
        ),
        "cross_attention": Reach(
            Words("attention to a changed source", "原文改动后，对原文的注意力"),
            count(lambda one: cross(x, layout, memory=one, memory_layout=layout), memory),
            every,
        ),
    }

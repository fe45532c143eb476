"""What happens without a token, a word, a head or a layer; and what each layer would answer.

Legend: V variants, T tokens of the item, N heads, H head size, L layers.
"""

import re
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.why.explanation import Part
from glassbert.glassbox.why.subject import Subject
from glassbert.glassbox.why.tokens import Group
from glassbert.glassbox.why.variants import glass_pass, in_parts, network_of, scores
from glassbert.inference.model import Model
from glassbert.inference.questions import Baseline
from glassbert.model.bert import Bert
from glassbert.progress import each
from glassbert.sentence import Sentence

_CONTEXT = re.compile(r"enc\.(\d+)\.attn\.context")
_BLOCK = re.compile(r"enc\.(\d+)\.out")


def occlusion(
    model: Model, subject: Subject, groups: Sequence[Group], baseline: Baseline
) -> tuple[NDArray[np.float64], float]:
    """Return how much the score falls without each group, (groups,), and the score.

    Tokens are replaced by [MASK] or [PAD], so that the others keep their positions.
    """
    if baseline == "zero":
        raise UserError("baseline='zero' is for gradients; occlusion puts 'mask' or 'pad' in a token's place")
    vocabulary = model.tokenizer.vocabulary
    blank = vocabulary.mask_id if baseline == "mask" else vocabulary.pad_id
    variants = [subject.all_ids]
    for group in groups:
        ids = subject.all_ids
        for member in group.members:
            ids[subject.flat(subject.tokens[member])] = blank
        variants.append(ids)
    whole, *without = scores(model, subject, variants)
    return whole - np.array(without), float(whole)


def without_heads(model: Model, subject: Subject) -> tuple[list[Part], float]:
    """Return how much the score falls when the context of a head is zero, head by head, and the score.

    This is the old `head_mask`: a head whose probabilities are all zero adds nothing to its block.
    """
    shape = model.config.encoder
    num_layers, num_heads = shape.num_hidden_layers, shape.num_attention_heads
    network, found = network_of(model), []
    for part in each(in_parts(1 + num_layers * num_heads, subject.num_tokens)):
        keep = torch.ones(len(part), num_layers, num_heads, dtype=torch.float32)
        for row, number in enumerate(part):
            if number:  # the first variant has all heads
                keep[row].view(-1)[number - 1] = 0.0
        found.append(masked_heads(network, subject, keep))
    whole, *without = torch.cat(found).tolist()
    names = [
        Sentence("block {layer} head {head}", layer=layer, head=head)
        for layer in range(num_layers)
        for head in range(num_heads)
    ]
    return [Part(name, whole - score) for name, score in zip(names, without, strict=True)], whole


def masked_heads(network: Bert, subject: Subject, keep: Tensor) -> Tensor:
    """Return the score of each variant, (V,), with its heads times ``keep``, (V, L, N)."""

    def sink(name: str, value: Tensor) -> Tensor:
        match = _CONTEXT.fullmatch(name)
        if match is None:
            return value
        mask = keep[:, int(match[1])].to(value)[:, None, :, None]  # (V, 1, N, 1)
        heads = value.view(len(keep), -1, keep.size(2), value.size(1) // keep.size(2))  # (V, T, N, H)
        return (heads * mask).view_as(value)

    return subject.numbers(glass_pass(network, subject, len(keep), sink), len(keep))


def without_layers(model: Model, subject: Subject) -> tuple[list[Part], float]:
    """Return how much the score falls when a block is skipped, block by block, and the score."""
    num_layers, network, found = model.config.encoder.num_hidden_layers, network_of(model), []
    for part in each(in_parts(1 + num_layers, subject.num_tokens)):
        before: list[Tensor] = []

        def sink(name: str, value: Tensor, part: range = part, before: list[Tensor] = before) -> Tensor:
            match = _BLOCK.fullmatch(name)
            if match and int(match[1]) + 1 in part:
                value = _with_rows(value, before[-1], int(match[1]) + 1 - part.start, subject.num_tokens)
            if match or name == "emb.out":
                before.append(value)
            return value

        found.append(subject.numbers(glass_pass(network, subject, len(part), sink), len(part)))
    whole, *without = torch.cat(found).tolist()
    names = (Sentence("block {layer}", layer=layer) for layer in range(len(without)))
    return [Part(name, whole - score) for name, score in zip(names, without, strict=True)], whole


def lens(model: Model, subject: Subject) -> tuple[list[Part], float]:
    """Return the score that the head would give after each layer, with its likeliest answers, and the score.

    What a block wrote goes straight to the head (nostalgebraist 2020, "logit lens"); the embeddings too.
    """
    num_layers, network, parts = model.config.encoder.num_hidden_layers, network_of(model), []
    final_norm = network.encoder.final_norm
    whole = 0.0
    for part in each(in_parts(num_layers + 1, subject.num_tokens)):
        states: dict[int, Tensor] = {}

        def sink(name: str, value: Tensor, part: range = part, states: dict[int, Tensor] = states) -> Tensor:
            match = _BLOCK.fullmatch(name)
            if match or name == "emb.out":
                states[int(match[1]) + 1 if match else 0] = value
            if name != "enc.out":
                return value
            for number in part[: num_layers - part.start]:  # the last block's state is there already
                state = states[number] if final_norm is None else final_norm(states[number])
                value = _with_rows(value, state, number - part.start, subject.num_tokens)
            return value

        output = glass_pass(network, subject, len(part), sink)
        numbers = subject.numbers(output, len(part)).tolist()
        best = subject.candidates(output, len(part)) if subject.candidates else [()] * len(part)
        for number, score, candidates in zip(part, numbers, best, strict=True):
            name = Sentence("after block {layer}", layer=number - 1) if number else Sentence("embeddings")
            parts.append(Part(name, score, candidates=tuple(candidates)))
            whole = score
    return parts, whole


def _with_rows(value: Tensor, other: Tensor, variant: int, num_tokens: int) -> Tensor:
    """Return ``value``, (V * T, D), with the rows of one variant taken from ``other``."""
    rows = slice(variant * num_tokens, (variant + 1) * num_tokens)
    value = value.clone()
    value[rows] = other[rows]
    return value

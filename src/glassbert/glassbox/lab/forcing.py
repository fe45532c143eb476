"""`lab forcing`: a target fed at once, and step by step.

Legend: T target tokens, D hidden size.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from glassbert.config import TransformerConfig
from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate, verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Cell, Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.model.init import new_transformer
from glassbert.model.layout import Batch
from glassbert.model.seq2seq import Transformer
from glassbert.progress import each
from glassbert.ranges import Range

VOCAB_SIZE = 50
_SAME = 1e-4


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A Transformer with random weights; what is measured does not depend on what it knows."""

    hidden_size: Annotated[int, Range(4, 4096)] = 64
    """Width of the blocks, a multiple of 4."""
    num_layers: Annotated[int, Range(1, 48)] = 2
    """Blocks of the encoder, and of the decoder."""
    source_length: Annotated[int, Range(1, 4096)] = 16
    """Tokens of the source."""
    num_seeds: Annotated[int, Range(1, 100)] = 3
    """Networks, and texts, that are drawn."""

    def __post_init__(self) -> None:
        if self.hidden_size % 4:
            raise UserError(f"hidden_size={self.hidden_size}; expected a multiple of 4, for the 4 heads")


@dataclass(frozen=True, kw_only=True)
class ForcingSettings(Shape):
    """How long the targets are."""

    lengths: tuple[Annotated[int, Range(1, 4096)], ...] = (4, 8, 16, 32, 64)
    """Tokens of the targets."""
    num_repeats: Annotated[int, Range(1, 100)] = 3
    """How often each is timed; the fastest counts."""


def new_network(shape: Shape, longest: int, seed: int) -> Transformer:
    """Return a Transformer that takes sequences of up to ``longest`` tokens."""
    blocks = replace(
        TransformerConfig().encoder,
        vocab_size=VOCAB_SIZE,
        hidden_size=shape.hidden_size,
        intermediate_size=4 * shape.hidden_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=4,
        max_position_embeddings=max(longest, shape.source_length),
    )
    config = TransformerConfig(encoder=blocks, num_decoder_layers=shape.num_layers)
    return new_transformer(config, seed=seed).eval()


def random_pair(shape: Shape, length: int, seed: int) -> tuple[Batch, Batch]:
    """Return a source and a target of random tokens."""
    generator = torch.Generator().manual_seed(seed)
    sides = (
        torch.randint(VOCAB_SIZE, (size,), generator=generator) for size in (shape.source_length, length)
    )
    source, target = (Batch.from_lists([side.tolist()]) for side in sides)
    return source, target


def at_once(network: Transformer, source: Batch, target: Batch) -> Tensor:
    """Return the logits behind each token from one pass, (T, vocabulary)."""
    return network.output(network(source, target))


def in_steps(network: Transformer, source: Batch, target: Batch) -> Tensor:
    """Return the same from one step a token, with keys and values kept."""
    state = network.start(source)
    hidden = [network.step(state, token.view(1, 1)) for token in target.ids]
    return network.output(torch.cat(hidden))


def from_the_start(network: Transformer, source: Batch, target: Batch) -> Tensor:
    """Return the same by feeding a longer prefix each time, and keeping nothing, as it is often described."""
    ids = target.ids.tolist()
    prefixes = (Batch.from_lists([ids[: place + 1]]) for place in range(len(ids)))
    return network.output(torch.cat([network(source, prefix)[-1:] for prefix in prefixes]))


Way = Callable[[Transformer, Batch, Batch], Tensor]
WAYS: dict[str, tuple[Words, Way]] = {
    "at_once": (Words("one pass", "一次"), at_once),
    "in_steps": (Words("step by step, cached", "逐步，有缓存"), in_steps),
    "from_the_start": (Words("step by step, whole prefix", "逐步，每次重读前缀"), from_the_start),
}


@dataclass(frozen=True)
class Timing:
    """One length and one seed."""

    difference: float
    """Largest difference of the logits of the three ways."""
    seconds: dict[str, float]


@torch.inference_mode()
def measure(settings: ForcingSettings, length: int, seed: int) -> Timing:
    """Run all three ways on one pair."""
    network = new_network(settings, max(settings.lengths), seed)
    source, target = random_pair(settings, length, seed)
    logits, seconds = {}, {}
    for name, (_, way) in WAYS.items():
        elapsed = []
        for _ in range(settings.num_repeats + 1):  # the first is to warm up
            started_at = time.perf_counter()
            logits[name] = way(network, source, target)
            elapsed.append(time.perf_counter() - started_at)
        seconds[name] = min(elapsed[1:])
    expected = logits["at_once"]
    difference = max((one - expected).abs().max().item() for one in logits.values())
    return Timing(difference, seconds)


MEANING = Words(
    "The three ways give the same logits: the look-ahead mask makes one pass do what the steps do. One pass "
    "over {} tokens takes {:.1f} times less than as many steps, because the steps wait for each other. "
    "Reading the whole prefix again at each step costs more still, and is never needed: keys and values can "
    "be kept.",
    "三种方式给出同样的 logits：前瞻掩码使一次前向等于逐步计算。{} 个 token 一次算完，比逐步算快 "
    "{:.1f} 倍，"
    "因为各步要互相等待。每步都重读整个前缀更慢，而且没有必要：键和值可以留着用。",
)


def run_forcing(settings: ForcingSettings) -> Report:
    """Compare the three ways for each length."""
    seeds = tuple(range(settings.num_seeds))
    found = {
        length: [measure(settings, length, seed) for seed in each(seeds)] for length in each(settings.lengths)
    }

    def seconds(length: int, name: str) -> Estimate:
        return Estimate.of([1000 * one.seconds[name] for one in found[length]])

    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (str(length), max(one.difference for one in timings), *(seconds(length, name) for name in WAYS))
        for length, timings in found.items()
    )
    columns = (
        Words("target tokens", "目标 token 数"),
        Words("largest difference of the logits", "logits 最大差"),
        *(Words("{}, ms", "{}，毫秒").format(words) for words, _ in WAYS.values()),
    )
    longest = max(settings.lengths)
    ratio = Estimate.of([one.seconds["in_steps"] / one.seconds["at_once"] for one in found[longest]])
    worst = max(one.difference for timings in found.values() for one in timings)
    xs = tuple(map(float, settings.lengths))
    title = Words("Time against length", "时间与长度")
    lines = tuple(
        Line.of(words, xs, [seconds(length, name) for length in settings.lengths])
        for name, (words, _) in WAYS.items()
    )
    return Report(
        meaning=MEANING.format(longest, ratio.mean),
        tables=(
            Table(Words("Same logits, different time", "logits 相同，时间不同"), columns, rows, digits=3),
        ),
        plots=(Lines(title, Words("target tokens", "目标 token 数"), Words("ms", "毫秒"), lines),),
        claims=(
            Claim(
                notes("6.1"),
                Words(
                    "In training the whole target is fed at once; the mask does the same as feeding it step "
                    "by step.",
                    "训练时一次性输入整个目标序列，掩码的效果与逐步输入相同。",
                ),
                Words("largest difference of the logits {:.1e}", "logits 最大差 {:.1e}").format(worst),
                verdict(worst < _SAME),
            ),
            Claim(
                notes("12.2"),
                Words(
                    "At inference a target of n tokens takes n loops and cannot be parallel.",
                    "预测时 n 个 token 要循环 n 次，不能并行。",
                ),
                Words(
                    "{} tokens step by step take {} times as long as at once",
                    "{} 个 token 逐步算的时间是一次算的 {} 倍",
                ).format(longest, ratio),
                ratio.above(1.0),
            ),
        ),
        seeds=seeds,
    )


EXPERIMENTS = {
    "forcing": Experiment(
        theory=Words(
            "With the look-ahead mask, the state behind a token depends only on that token and those before "
            "it. It is the same whether what follows is there or not.",
            "有了前瞻掩码，一个 token 处的状态只取决于它自己和前面的 token，后面有没有内容都一样。",
        ),
        settings=ForcingSettings,
        run=run_forcing,
        large={
            "hidden_size": 256,
            "num_layers": 4,
            "lengths": [8, 32, 128, 256],
            "num_seeds": 5,
            "num_repeats": 7,
        },
    ),
}

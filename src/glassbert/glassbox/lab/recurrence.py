"""`lab recurrence`: Transformer, LSTM with attention and LSTM without, at about equal size."""

import time
from dataclasses import dataclass
from math import log10
from typing import Annotated

import torch
from torch import Tensor, nn

from glassbert.glassbox.lab.estimate import Estimate, differences, verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.seq2seqs import NAMES, Writer, batch, copy_pairs, networks
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.training import num_parameters
from glassbert.glassbox.lab.words import Words
from glassbert.model.lstm import Lstm
from glassbert.model.seq2seq import Transformer
from glassbert.ranges import Range

SMALLEST = 1e-45


@dataclass(frozen=True, kw_only=True)
class RecurrenceSettings:
    """Sizes and lengths."""

    hidden_size: Annotated[int, Range(4, 1024)] = 32
    """Of the Transformer, a multiple of 4; the LSTMs get a width with about as many parameters."""
    lengths: tuple[Annotated[int, Range(2, 2048)], ...] = (8, 16, 32, 64)
    """Tokens of source and target."""
    num_seeds: Annotated[int, Range(2, 100)] = 3
    """Networks that are drawn."""


def reach(network: Transformer | Lstm, length: int, seed: int) -> float:
    """Return log10 of how strongly the first word written depends on a word in the middle of the source.

    Measured as the gradient of the state that writes it by the embedding of that word, relative to the word
    at the nearer end: an encoder that reads both ways is farthest from the middle.
    """
    generator = torch.Generator().manual_seed(seed)
    source, target, _ = copy_pairs(generator, 1, length)
    table = network.embeddings.token if isinstance(network, Transformer) else network.token
    seen: list[Tensor] = []

    def keep(_: nn.Module, __: object, output: Tensor) -> Tensor:
        if not seen:  # the source is embedded first
            seen.append(output.detach().requires_grad_())
            return seen[0]
        return output

    handle = table.register_forward_hook(keep)
    try:
        state = network(batch(source), batch(target[:, :1]))
    finally:
        handle.remove()
    direction = torch.randn(state.shape, generator=generator)
    (gradient,) = torch.autograd.grad((state * direction).sum(), seen)
    norms = gradient.norm(dim=1)
    return log10(max((norms[length // 2] / norms[-1]).item(), SMALLEST))


def elapsed_ms(network: Transformer | Lstm, length: int, seed: int) -> float:
    """Return the fastest of three times to learn from one pair, forward and back."""
    pair, writer, times = copy_pairs(torch.Generator().manual_seed(seed), 1, length), Writer(network), []
    for _ in range(4):  # the first is to warm up
        started_at = time.perf_counter()
        writer(pair)["loss"].backward()
        times.append(time.perf_counter() - started_at)
    return 1000 * min(times[1:])


def run_recurrence(settings: RecurrenceSettings) -> Report:
    """Count dependent steps, time them, and measure how far information reaches."""
    seeds, lengths = tuple(range(settings.num_seeds)), settings.lengths
    longest = max(lengths)
    made = [networks(settings.hidden_size, longest, seed) for seed in seeds]
    times = {
        name: {
            n: Estimate.of([elapsed_ms(one[name], n, seed) for seed, one in enumerate(made)]) for n in lengths
        }
        for name in NAMES
    }
    reaches = {
        name: {n: [reach(one[name], n, seed) for seed, one in enumerate(made)] for n in lengths}
        for name in NAMES
    }
    rows = tuple(
        (
            NAMES[name],
            num_parameters(made[0][name]),
            n,
            made[0][name].dependent_steps(n, n),
            times[name][n],
            Estimate.of(reaches[name][n]),
        )
        for name in NAMES
        for n in lengths
    )
    columns = (
        Words("network", "网络"),
        Words("parameters", "参数"),
        Words("length", "长度"),
        Words("dependent steps", "串行步数"),
        Words("ms to learn from a pair", "学习一对的毫秒数"),
        Words("log10 of the middle's influence", "log10 中间词的影响"),
    )
    xs = tuple(map(float, lengths))
    return Report(
        meaning=RECURRENCE_MEANING,
        tables=(Table(Words("Steps, time and reach", "步数、时间和距离"), columns, rows, digits=3),),
        plots=(
            Lines(
                Words("Time against length", "时间与长度"),
                columns[2],
                Words("ms", "毫秒"),
                tuple(Line.of(NAMES[name], xs, list(times[name].values())) for name in NAMES),
            ),
            Lines(
                Words("Influence of the word in the middle", "中间词的影响"),
                columns[2],
                "log10",
                tuple(
                    Line.of(NAMES[name], xs, [Estimate.of(one) for one in reaches[name].values()])
                    for name in NAMES
                ),
            ),
        ),
        claims=(*_time_claims(made[0], times, longest, min(lengths)), *_reach_claims(reaches, longest)),
        seeds=seeds,
    )


RECURRENCE_MEANING = Words(
    "A recurrent network computes a token only after the one before it, so its dependent steps grow with "
    "the length; a Transformer's do not. What a word in the middle of the source can do to the first word "
    "written fades with the distance in an LSTM without attention; attention reaches every word in one "
    "step, in an LSTM too.",
    "循环网络要等前一个 token 算完才能算下一个，串行步数随长度增长；Transformer 不会。"
    "原文中间的词对写出的第一个词的影响，在没有注意力的 LSTM 里随距离衰减；有了注意力，一步就到，LSTM "
    "也一样。",
)


def _time_claims(
    made: dict[str, Transformer | Lstm],
    times: dict[str, dict[int, Estimate]],
    longest: int,
    shortest: int,
) -> tuple[Claim, ...]:
    steps = {
        name: [network.dependent_steps(n, n) for n in (shortest, longest)] for name, network in made.items()
    }
    growth = {
        name: [a / b for a, b in zip(times[name][longest].values, times[name][shortest].values, strict=True)]
        for name in ("lstm", "transformer")
    }
    slower = differences(growth["lstm"], growth["transformer"])
    return (
        Claim(
            notes("9.1, 10.1"),
            Words(
                "An RNN computes step after step; a Transformer all tokens at once.",
                "RNN 只能一步一步算，Transformer 一次算完所有 token。",
            ),
            Words(
                "dependent steps at {} and {} tokens: LSTM {} and {}, Transformer {} and {}",
                "{} 和 {} 个 token 时的串行步数：LSTM {} 和 {}，Transformer {} 和 {}",
            ).format(shortest, longest, *steps["lstm"], *steps["transformer"]),
            verdict(
                steps["transformer"][0] == steps["transformer"][1] and steps["lstm"][0] < steps["lstm"][1]
            ),
        ),
        Claim(
            notes("9.1"),
            Words("So its time grows less with the length.", "因此它的时间随长度增长得慢。"),
            Words(
                "time at {} over time at {} tokens, LSTM minus Transformer: {}",
                "{} 与 {} 个 token 的时间之比，LSTM 减 Transformer：{}",
            ).format(longest, shortest, slower),
            slower.above(0.0),
        ),
    )


def _reach_claims(reaches: dict[str, dict[int, list[float]]], longest: int) -> tuple[Claim, ...]:
    faded = differences(reaches["transformer"][longest], reaches["lstm"][longest])
    helped = differences(reaches["lstm_attention"][longest], reaches["lstm"][longest])
    return (
        Claim(
            notes("7.1"),
            Words(
                "In an RNN what is far away gets lost; attention links any two tokens in one step.",
                "RNN 里距离越远损耗越大，注意力一步联系任意两个 token。",
            ),
            Words(
                "log10 of the middle's influence at {} tokens, Transformer minus LSTM: {}",
                "{} 个 token 时中间词影响的 log10，Transformer 减 LSTM：{}",
            ).format(longest, faded),
            faded.above(0.0),
        ),
        Claim(
            notes("10.2"),
            Words(
                "Attention is what removes the distance, in an LSTM too.",
                "消除距离的是注意力，在 LSTM 里也一样。",
            ),
            Words(
                "the same, LSTM with attention minus without: {}", "同上，有注意力的 LSTM 减没有的：{}"
            ).format(helped),
            helped.above(0.0),
        ),
    )


EXPERIMENTS = {
    "recurrence": Experiment(
        theory=Words(
            "h(t) needs h(t-1): n tokens take n dependent steps, and what a token does passes through every "
            "step between. Attention is a sum over all tokens: one step, at any distance.",
            "h(t) 需要 h(t-1)：n 个 token 要 n 个串行步，一个 token 的作用要穿过中间的每一步。"
            "注意力是对所有 token 求和：任何距离都只要一步。",
        ),
        settings=RecurrenceSettings,
        run=run_recurrence,
        large={"hidden_size": 128, "lengths": [8, 16, 32, 64, 128, 256], "num_seeds": 5},
    ),
}

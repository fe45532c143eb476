"""`lab bottleneck`: what is lost when a whole source must pass through one vector."""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from glassbert.glassbox.lab.estimate import Estimate, differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.reader import TEST_SEED, train
from glassbert.glassbox.lab.recurrence import NAMES, Copier, copy_pairs, networks, num_parameters
from glassbert.glassbox.lab.result import Cell, Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.ranges import Range


@dataclass(frozen=True, kw_only=True)
class BottleneckSettings:
    """Sizes, lengths and training."""

    hidden_size: Annotated[int, Range(4, 1024)] = 32
    """Of the Transformer, a multiple of 4; the LSTMs get a width with about as many parameters."""
    lengths: tuple[Annotated[int, Range(1, 256)], ...] = (2, 4, 8)
    """Tokens of the sources, in training and in the test."""
    num_steps: Annotated[int, Range(1, 100_000)] = 200
    """Steps of training."""
    num_pairs: Annotated[int, Range(1, 4096)] = 32
    """Pairs of a step."""
    learning_rate: Annotated[float, Range(0, 1)] = 0.01
    """Of AdamW, falling to 0."""
    num_seeds: Annotated[int, Range(2, 100)] = 2
    """Networks that are trained."""


def learn_to_copy(settings: BottleneckSettings, name: str, seed: int) -> dict[int, float]:
    """Train on all lengths; return the accuracy at each."""
    copier = Copier(networks(settings.hidden_size, max(settings.lengths), seed)[name])
    generator = torch.Generator().manual_seed(1_000_003 * (seed + 1))

    def drawn() -> tuple[Tensor, ...]:
        place = int(torch.randint(len(settings.lengths), (), generator=generator))
        return copy_pairs(generator, settings.num_pairs, settings.lengths[place])

    train(copier, drawn, settings.num_steps, settings.learning_rate, lambda pairs: pairs[2].numel())
    found = {}
    for length in settings.lengths:
        test = copy_pairs(torch.Generator().manual_seed(TEST_SEED), 128, length)
        with torch.no_grad():
            found[length] = copier(test)["accuracy"].item() / test[2].numel()
    return found


def run_bottleneck(settings: BottleneckSettings) -> Report:
    """Train all three to write their source again; measure by length."""
    seeds, longest = tuple(range(settings.num_seeds)), max(settings.lengths)
    found = {name: [learn_to_copy(settings, name, seed) for seed in seeds] for name in NAMES}
    sizes = networks(settings.hidden_size, longest, 0)

    def at(name: str, length: int) -> list[float]:
        return [one[length] for one in found[name]]

    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (NAMES[name], num_parameters(sizes[name]), *(Estimate.of(at(name, n)) for n in settings.lengths))
        for name in NAMES
    )
    columns = (
        Words("network", "网络"),
        Words("parameters", "参数"),
        *(Words("{} words", "{} 个词").format(n) for n in settings.lengths),
    )
    gap = differences(at("lstm_attention", longest), at("lstm", longest))
    better = differences(at("transformer", longest), at("lstm", longest))
    xs = tuple(map(float, settings.lengths))
    lines = tuple(
        Line.of(NAMES[name], xs, [Estimate.of(at(name, n)) for n in settings.lengths]) for name in NAMES
    )
    title = Words("Accuracy of the copy by length", "复制的准确率与长度")
    return Report(
        meaning=BOTTLENECK_MEANING,
        tables=(Table(title, columns, rows, digits=3),),
        plots=(Lines(title, Words("words", "词数"), Words("accuracy", "准确率"), lines, is_share=True),),
        claims=(
            Claim(
                notes("10.1"),
                Words(
                    "A source squeezed into one vector loses information as it gets longer.",
                    "把整个原文压进一个向量，越长损耗越大。",
                ),
                Words(
                    "accuracy at {} words, LSTM with attention minus without: {}",
                    "{} 个词时的准确率，有注意力的 LSTM 减没有的：{}",
                ).format(longest, gap),
                gap.above(0.0),
            ),
            Claim(
                notes("9.2"),
                Words(
                    "The Transformer does better than an LSTM without attention.",
                    "Transformer 比没有注意力的 LSTM 好。",
                ),
                Words("accuracy at {} words, difference: {}", "{} 个词时的准确率之差：{}").format(
                    longest, better
                ),
                better.above(0.0),
            ),
        ),
        seeds=seeds,
    )


BOTTLENECK_MEANING = Words(
    "All three learn to write their source again, by teacher forcing. The LSTM without attention has one "
    "vector for the "
    "whole source: it manages short ones and fails where the vector is too small or training too short. With "
    "attention "
    "every source word can be looked at when it is needed.",
    "三者都用 teacher forcing 学习把原文再写一遍。没有注意力的 LSTM 只有一个向量装整个原文：短的可以，"
    "向量装不下或训练不够时就不行。"
    "有注意力时，需要哪个词就看哪个词。",
)


EXPERIMENTS = {
    "bottleneck": Experiment(
        theory=Words(
            "A vector of fixed size holds a fixed amount of information, whatever the length of the source.",
            "固定大小的向量只能装固定多的信息，不管原文多长。",
        ),
        settings=BottleneckSettings,
        run=run_bottleneck,
        large={
            "hidden_size": 64,
            "lengths": [2, 4, 8, 16, 24],
            "num_steps": 1500,
            "num_seeds": 5,
            "learning_rate": 0.003,
        },
    ),
}

"""`lab bottleneck` and `lab recall`: what three kinds of networks learn, by the length of the source.

In the one, the whole source must be written again; in the other, one word from its middle.
"""

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from glassbert.glassbox.lab.estimate import Estimate, differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Cell, Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.seq2seqs import (
    FIRST_WORD,
    NAMES,
    NUM_WORDS,
    START,
    Draw,
    LengthsSettings,
    copy_pairs,
    learn_by_length,
    networks,
)
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.training import num_parameters
from glassbert.glassbox.lab.words import Words
from glassbert.progress import each
from glassbert.ranges import Range


@dataclass(frozen=True, kw_only=True)
class RecallSettings(LengthsSettings):
    """Lengths and training. An LSTM that reads both ways must carry the word over half of the length."""

    lengths: tuple[Annotated[int, Range(1, 512)], ...] = (4, 16, 32)
    """Tokens of the sources, in training and in the test."""


def middle_pairs(generator: torch.Generator, count: int, length: int) -> tuple[Tensor, ...]:
    """Return sources with one word of a second set in the middle, and that word as what must be written."""
    num_noise = NUM_WORDS // 2
    source = torch.randint(FIRST_WORD, FIRST_WORD + num_noise, (count, length), generator=generator)
    word = torch.randint(FIRST_WORD + num_noise, FIRST_WORD + NUM_WORDS, (count, 1), generator=generator)
    source[:, length // 2 : length // 2 + 1] = word
    return source, torch.full((count, 1), START), word


@dataclass(frozen=True)
class Found:
    """The accuracy of each kind of network, by seed and length."""

    settings: LengthsSettings
    accuracies: dict[str, list[dict[int, float]]]

    @classmethod
    def by_training(cls, settings: LengthsSettings, draw: Draw) -> "Found":
        """Train every kind with every seed."""
        seeds = range(settings.num_seeds)
        return cls(
            settings,
            {
                name: [learn_by_length(settings, name, draw, seed) for seed in each(seeds)]
                for name in each(tuple(NAMES))
            },
        )

    def at(self, name: str, length: int) -> list[float]:
        """Return the accuracy of each seed at one length."""
        return [one[length] for one in self.accuracies[name]]

    def gain(self, better: str, worse: str) -> Estimate:
        """Return how much more accurate one kind is than another at the greatest length."""
        longest = max(self.settings.lengths)
        return differences(self.at(better, longest), self.at(worse, longest))

    def loss_with_length(self, name: str) -> Estimate:
        """Return how much of its accuracy a kind loses from the smallest length to the greatest."""
        lengths = self.settings.lengths
        return differences(self.at(name, min(lengths)), self.at(name, max(lengths)))

    def more_lost(self, worse: str, better: str) -> Estimate:
        """Return how much more one kind loses than another: long sources are harder to learn for both."""
        return differences(self.loss_with_length(worse).values, self.loss_with_length(better).values)

    def table_and_plot(self, title: Words) -> tuple[Table, Lines]:
        """Return the accuracies by length."""
        lengths = self.settings.lengths
        sizes = networks(self.settings.hidden_size, max(lengths), 0, num_layers=self.settings.num_layers)
        estimates = {name: [Estimate.of(self.at(name, n)) for n in lengths] for name in NAMES}
        rows: tuple[tuple[Cell, ...], ...] = tuple(
            (NAMES[name], num_parameters(sizes[name]), *estimates[name]) for name in NAMES
        )
        columns = (
            Words("network", "网络"),
            Words("parameters", "参数"),
            *(Words("{} words", "{} 个词").format(n) for n in lengths),
        )
        lines = tuple(Line.of(NAMES[name], tuple(map(float, lengths)), estimates[name]) for name in NAMES)
        x_name, y_name = Words("words of the source", "原文词数"), Words("accuracy", "准确率")
        return Table(title, columns, rows, digits=3), Lines(title, x_name, y_name, lines, is_share=True)

    def report(self, title: Words, meaning: Words, claims: tuple[Claim, ...]) -> Report:
        """Return the report of an experiment."""
        table, plot = self.table_and_plot(title)
        seeds = tuple(range(self.settings.num_seeds))
        return Report(meaning=meaning, tables=(table,), plots=(plot,), claims=claims, seeds=seeds)


def run_bottleneck(settings: LengthsSettings) -> Report:
    """Train all three to write their source again; measure by length."""
    found = Found.by_training(settings, copy_pairs)
    longest = max(settings.lengths)
    lost, gap = found.more_lost("lstm", "lstm_attention"), found.gain("lstm_attention", "lstm")
    claims = (
        Claim(
            notes("10.1"),
            Words(
                "A source squeezed into one vector loses information as it gets longer.",
                "把整个原文压进一个向量，越长损耗越大。",
            ),
            Words(
                "accuracy lost from {} words to {}, LSTM without attention minus with it, after {} steps: {}",
                "从 {} 个词到 {} 个词损失的准确率，没有注意力的 LSTM 减有注意力的，训练 {} 步之后：{}",
            ).format(min(settings.lengths), longest, settings.num_steps, lost),
            lost.above(0.0),
        ),
        Claim(
            notes("10.2"),
            Words(
                "Attention to all states of the source solves the problem of one fixed vector.",
                "用注意力看原文的所有状态，解决了一个固定向量的问题。",
            ),
            Words(
                "accuracy at {} words, LSTM with attention minus without: {}",
                "{} 个词时的准确率，有注意力的 LSTM 减没有的：{}",
            ).format(longest, gap),
            gap.above(0.0),
        ),
        _transformer_wins(
            found,
            "lstm",
            Words(
                "The Transformer is far stronger than an LSTM without attention.",
                "Transformer 远胜于没有注意力的 LSTM。",
            ),
        ),
        _transformer_wins(
            found,
            "lstm_attention",
            Words(
                "The Transformer is far stronger than an LSTM, one with attention too.",
                "Transformer 远胜于 LSTM，有注意力的 LSTM 也一样。",
            ),
        ),
    )
    return found.report(
        Words("Accuracy of the copy by length", "复制的准确率与长度"), BOTTLENECK_MEANING, claims
    )


def _transformer_wins(found: Found, over: str, statement: Words) -> Claim:
    better = found.gain("transformer", over)
    return Claim(
        notes("9.2"),
        statement,
        Words(
            "accuracy at {} words after {} steps of training, difference: {}",
            "训练 {1} 步之后，{0} 个词时的准确率之差：{2}",
        ).format(max(found.settings.lengths), found.settings.num_steps, better),
        better.above(0.0),
    )


BOTTLENECK_MEANING = Words(
    "All three learn to write their source again, by teacher forcing. The LSTM without attention has one "
    "vector for the whole source: it manages short ones and fails where the vector is too small or training "
    "too short. With attention every source word can be looked at when it is needed, in an LSTM too.",
    "三者都用教师强制学习把原文再写一遍。没有注意力的 LSTM 只有一个向量装整个原文：短的可以，"
    "向量装不下或训练不够时就不行。有注意力时，需要哪个词就看哪个词，LSTM 也一样。",
)


def run_recall(settings: RecallSettings) -> Report:
    """Train all three to write the one word in the middle that counts; measure by length."""
    found = Found.by_training(settings, middle_pairs)
    longest = max(settings.lengths)
    lost, better = found.loss_with_length("lstm"), found.gain("transformer", "lstm")
    kept = found.loss_with_length("transformer")
    claims = (
        Claim(
            notes("7.1"),
            Words(
                "The farther away a word is, the more of it an LSTM loses.",
                "距离越远，LSTM 对这个词的信息损耗越大。",
            ),
            Words(
                "LSTM without attention, accuracy over {} words minus over {}: {}",
                "没有注意力的 LSTM，隔 {} 个词时的准确率减隔 {} 个词时的：{}",
            ).format(min(settings.lengths) // 2, longest // 2, lost),
            lost.above(_LITTLE),
        ),
        Claim(
            notes("7.2"),
            Words("Attention gets at far words without that loss.", "自注意力取远处的词，没有这种传递损耗。"),
            Words(
                "Transformer, accuracy over {} words minus over {}: {}",
                "Transformer，隔 {} 个词时的准确率减隔 {} 个词时的：{}",
            ).format(min(settings.lengths) // 2, longest // 2, kept),
            kept.about(0.0, _LITTLE),
        ),
        Claim(
            notes("9.2"),
            Words(
                "The newer model does not always win: LSTMs still have their uses.",
                "不是越先进的模型就越无敌，LSTM 依然大有用武之地。",
            ),
            Words(
                "accuracy over {} words, Transformer minus LSTM without attention: {}",
                "隔 {} 个词时的准确率，Transformer 减没有注意力的 LSTM：{}",
            ).format(longest // 2, better),
            better.below(_LITTLE),
        ),
    )
    return found.report(
        Words("Accuracy of the recall by length", "找回的准确率与长度"), RECALL_MEANING, claims
    )


_LITTLE = 0.05
RECALL_MEANING = Words(
    "One word in the middle of the source must be written; it can be one of four, so guessing has 0.25. "
    "Attention looks at it in one step. An LSTM that reads both ways has to carry it over half of the "
    "source, and it can learn to: its gates let one word pass unchanged. Before training the influence of a "
    "far word does fade (`lab recurrence`), and what one vector cannot keep is every word of a long source "
    "(`lab bottleneck`).",
    "要写出原文正中的那个词；它只可能是四个词之一，随机猜的准确率是 0.25。注意力一步就看到它。"
    "双向的 LSTM 要带着它走过半个原文，这是学得会的：门可以让一个词原样通过。"
    "训练之前，远处的词的影响确实会衰减（`lab recurrence`）；"
    "一个向量装不下的，是长原文里的每一个词（`lab bottleneck`）。",
)
EXPERIMENTS = {
    "bottleneck": Experiment(
        theory=Words(
            "A vector of fixed size holds a fixed amount of information, whatever the length of the source.",
            "固定大小的向量只能装固定多的信息，不管原文多长。",
        ),
        settings=LengthsSettings,
        run=run_bottleneck,
        large={"lengths": [2, 4, 8, 16], "num_steps": 1000, "num_seeds": 5},
    ),
    "recall": Experiment(
        theory=Words(
            "In an LSTM a word passes through as many steps as there are words behind it, and each may "
            "weaken it; attention takes one step to any word.",
            "在 LSTM 里，一个词要穿过它后面的每一步，每一步都可能削弱它；注意力到任何词都只要一步。",
        ),
        settings=RecallSettings,
        run=run_recall,
        large={"lengths": [4, 16, 64, 256], "num_seeds": 5},
    ),
}

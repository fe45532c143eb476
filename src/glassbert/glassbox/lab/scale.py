"""`lab scale`: what training loses when dot products are not divided by sqrt(d_k)."""

from dataclasses import dataclass
from typing import Annotated

from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.projections import (
    NEAR,
    Found,
    TaskName,
    accuracies,
    learn_all,
    tables_and_plots,
    task_name,
)
from glassbert.glassbox.lab.reader import ReaderSettings, Variant
from glassbert.glassbox.lab.result import Claim, Report
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.ranges import Range


@dataclass(frozen=True, kw_only=True)
class ScaleSettings(ReaderSettings):
    """Which sizes of a head."""

    sizes: tuple[Annotated[int, Range(1, 1024)], ...] = (8, 64)
    """Values of d_k: the hidden size is divided into heads of this size."""
    tasks: tuple[TaskName, ...] = ("previous",)
    """copy, previous, induction, brackets, neighbours, mlm."""
    hidden_size: Annotated[int, Range(8, 1024)] = 64
    """Features of a token, a multiple of every size."""
    learning_rate: Annotated[float, Range(0, 1)] = 0.003
    """Of AdamW, falling to 0."""

    def __post_init__(self) -> None:
        for size in self.sizes:
            if self.hidden_size % size:
                raise UserError(f"sizes: got {size}; expected a divisor of hidden_size={self.hidden_size}")


def _row(size: int, *, is_scaled: bool) -> str:
    return f"{size}{'' if is_scaled else ' unscaled'}"


def run_scale(settings: ScaleSettings) -> Report:
    """Train networks with and without the scale for each d_k."""
    kinds = [(size, is_scaled) for size in settings.sizes for is_scaled in (True, False)]
    variants = {
        _row(size, is_scaled=is_scaled): Variant(num_heads=settings.hidden_size // size, is_scaled=is_scaled)
        for size, is_scaled in kinds
    }
    names = {
        _row(size, is_scaled=is_scaled): (
            Words("d_k = {}", "d_k = {}") if is_scaled else Words("d_k = {}, no scale", "d_k = {}，不缩放")
        ).format(size)
        for size, is_scaled in kinds
    }
    found = learn_all(variants, settings.tasks, settings)
    table, plots = tables_and_plots(found, names, settings.tasks, "d_k")
    return Report(
        meaning=MEANING,
        tables=(table,),
        plots=plots,
        claims=tuple(_claim(found, settings, task) for task in settings.tasks),
        seeds=tuple(range(settings.num_seeds)),
    )


def _claim(found: Found, settings: ScaleSettings, task: TaskName) -> Claim:
    largest = max(settings.sizes)
    with_scale, without = (
        accuracies(found, _row(largest, is_scaled=is_scaled), task) for is_scaled in (True, False)
    )
    gain = differences(with_scale, without)
    return Claim(
        notes("11.1"),
        Words(
            "Without the scale, training converges badly when d_k is large ({}).",
            "不缩放时，d_k 较大的模型收敛困难（{}）。",
        ).format(task_name(task)),
        Words(
            "d_k = {}, accuracy after {} steps, with the scale minus without: {}",
            "d_k = {}，{} 步之后的准确率，缩放减不缩放：{}",
        ).format(largest, settings.num_steps, gain),
        gain.above(NEAR),
    )


MEANING = Words(
    "All networks have the same parameters, seeds and sequences. Where d_k is small, the scale changes "
    "little. Where it is large, unscaled scores are large from the first step: softmax picks one token at "
    "random, hardly any gradient reaches the queries and keys, and training has to find its way out first.",
    "所有网络的参数量、随机种子和序列都相同。d_k 小时，缩放影响不大；d_k 大时，不缩放的分数一开始就很大："
    "softmax 随机盯住一个 token，几乎没有梯度传回 q 和 k，训练要先从这里走出来。",
)
EXPERIMENTS = {
    "scale": Experiment(
        theory=Words(
            "At the start q.k has a variance of about d_k. Without the scale, softmax of it is close to one "
            "hot for large d_k, and its gradient close to 0.",
            "训练开始时 q.k 的方差约为 d_k。不缩放时，d_k 一大，softmax 就接近 one-hot，梯度接近 0。",
        ),
        settings=ScaleSettings,
        run=run_scale,
        large={
            "num_seeds": 5,
            "num_steps": 250,
            "sizes": [8, 16, 32, 64],
            "tasks": ["previous", "copy", "brackets"],
        },
    ),
}

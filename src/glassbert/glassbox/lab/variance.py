"""`lab variance`: how large q.k gets with d_k, for random vectors and for a model's own.

Legend: Q queries, K keys of each, H head size (d_k).
"""

from dataclasses import dataclass
from math import sqrt
from typing import Annotated

import torch
from torch import Tensor

from glassbert.glassbox.lab.estimate import Estimate, differences, verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.inside import Inside, look_inside
from glassbert.glassbox.lab.result import Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.ranges import Range

_TOLERANCE = 0.1


@dataclass(frozen=True, kw_only=True)
class VarianceSettings:
    """Which vectors are multiplied."""

    sizes: tuple[Annotated[int, Range(1, 8192)], ...] = (4, 16, 64, 256, 1024)
    """Values of d_k for random vectors."""
    num_queries: Annotated[int, Range(2, 4096)] = 128
    """Random queries of each seed."""
    num_keys: Annotated[int, Range(2, 1024)] = 32
    """Random keys that each query is compared with."""
    num_seeds: Annotated[int, Range(2, 100)] = 5
    """How often random vectors are drawn."""
    model: str = "demo"
    """The model whose queries and keys are measured."""
    text: str = "The river flows through the old city and into the sea."
    """What the model reads."""


@dataclass(frozen=True)
class Scores:
    """Statistics of some scores."""

    variance: float
    top: float
    """Mean of the largest probability."""
    slope: float
    """Mean norm of the Jacobian of softmax: how much of a gradient passes back through it."""
    mean: float


@dataclass(frozen=True)
class BlockScores:
    """The queries, keys and scores of one block of a model."""

    raw: Scores
    scaled: Scores
    q_variance: float
    k_variance: float
    apart: float
    """Norm of q - k, divided by the larger norm: 0 if queries and keys are the same."""


def measure(scores: Tensor) -> Scores:
    """Measure scores, (..., K), over which softmax runs along the last dimension."""
    probs = scores.softmax(dim=-1)
    # |diag(y) - y y^T|^2 = sum y^2 - 2 sum y^3 + (sum y^2)^2, without building the matrix.
    squares = probs.square().sum(-1)
    norms = (squares - 2 * probs.pow(3).sum(-1) + squares.square()).clamp(min=0).sqrt()
    top, slope = probs.amax(-1).mean().item(), norms.mean().item()
    return Scores(scores.var().item(), top, slope, scores.mean().item())


def random_scores(settings: VarianceSettings, size: int, seed: int) -> Tensor:
    """Return dot products of vectors whose features have mean 0 and variance 1, (Q, K)."""
    generator = torch.Generator().manual_seed(seed)
    queries = torch.randn(settings.num_queries, 1, size, generator=generator)
    keys = torch.randn(settings.num_queries, settings.num_keys, size, generator=generator)
    return (queries * keys).sum(-1)


MEANING = Words(
    "For random vectors the variance of q.k is d_k, and dividing by sqrt(d_k) brings it back to 1 and keeps "
    "the gradient of softmax alive at any size. A trained model's queries and keys are not independent and "
    "have no unit variance, so its scaled scores do not have variance 1: training sets their size, and the "
    "scale only decides where it starts.",
    "随机向量的 q.k 方差就是 d_k，除以 sqrt(d_k) 让它回到 1，softmax 的梯度在任何维度下都还在。"
    "训练好的模型，q 和 k 既不独立，方差也不是 1，缩放后的分数方差并不等于 1："
    "分数多大由训练决定，缩放只决定从哪里开始。",
)


def run(settings: VarianceSettings) -> Report:
    """Measure random vectors of each size, then the heads of the model."""
    seeds = tuple(range(settings.num_seeds))
    raw: dict[int, list[Scores]] = {}
    scaled: dict[int, list[Scores]] = {}
    for size in settings.sizes:
        drawn = [random_scores(settings, size, seed) for seed in seeds]
        raw[size] = [measure(scores) for scores in drawn]
        scaled[size] = [measure(scores / sqrt(size)) for scores in drawn]
    inside = look_inside(settings.model, settings.text)
    of_model = [measure_block(inside, layer) for layer in range(len(inside.blocks))]
    return Report(
        meaning=MEANING,
        steps=inside.unread,
        tables=(_random_table(raw, scaled), _model_table(inside, of_model)),
        plots=_plots(raw, scaled),
        claims=(*_random_claims(raw, scaled), *_model_claims(of_model)),
        seeds=seeds,
    )


def measure_block(inside: Inside, layer: int) -> BlockScores:
    """Measure the scores of a block without and with the scale."""
    raw = inside.values[f"enc.{layer}.attn.raw"]  # (1, heads, T, T)
    q, k = (inside.values[f"enc.{layer}.attn.{side}"] for side in "qk")
    return BlockScores(
        raw=measure(raw),
        scaled=measure(raw / sqrt(inside.network.config.encoder.head_size)),
        q_variance=q.var().item(),
        k_variance=k.var().item(),
        apart=((q - k).norm() / max(q.norm(), k.norm())).item(),
    )


def _mean(found: list[Scores], name: str) -> Estimate:
    return Estimate.of([getattr(one, name) for one in found])


def _random_table(raw: dict[int, list[Scores]], scaled: dict[int, list[Scores]]) -> Table:
    rows = tuple(
        (
            str(size),
            _mean(raw[size], "variance"),
            _mean(scaled[size], "variance"),
            _mean(raw[size], "top"),
            _mean(scaled[size], "top"),
            _mean(raw[size], "slope"),
            _mean(scaled[size], "slope"),
        )
        for size in raw
    )
    columns = (
        "d_k",
        Words("variance of q.k", "q.k 的方差"),
        Words("scaled", "缩放后"),
        Words("largest probability", "最大概率"),
        Words("scaled", "缩放后"),
        Words("norm of softmax's Jacobian", "softmax 雅可比矩阵的范数"),
        Words("scaled", "缩放后"),
    )
    return Table(Words("Random vectors", "随机向量"), columns, rows, digits=3)


def _model_table(inside: Inside, found: list[BlockScores]) -> Table:
    size = inside.network.config.encoder.head_size
    rows = tuple(
        (
            str(layer),
            size,
            one.q_variance,
            one.k_variance,
            one.raw.variance,
            one.scaled.variance,
            one.raw.top,
            one.scaled.top,
            one.raw.slope,
            one.scaled.slope,
        )
        for layer, one in enumerate(found)
    )
    columns = (
        Words("block", "block"),
        "d_k",
        Words("variance of q", "q 的方差"),
        Words("variance of k", "k 的方差"),
        Words("variance of q.k", "q.k 的方差"),
        Words("scaled", "缩放后"),
        Words("largest probability, unscaled", "最大概率，未缩放"),
        Words("scaled", "缩放后"),
        Words("Jacobian, unscaled", "雅可比矩阵的范数，未缩放"),
        Words("scaled", "缩放后"),
    )
    return Table(Words("The model's own queries and keys", "模型自己的 q 和 k"), columns, rows, digits=3)


def _plots(raw: dict[int, list[Scores]], scaled: dict[int, list[Scores]]) -> tuple[Lines, ...]:
    sizes = tuple(raw)
    log = Words("log2 of d_k", "log2 d_k")
    xs = tuple(torch.tensor(sizes).log2().tolist())

    def both(name: str, title: Words) -> Lines:
        return Lines(
            title,
            log,
            title,
            (
                Line.of("q.k", xs, [_mean(raw[size], name) for size in sizes]),
                Line.of("q.k / sqrt(d_k)", xs, [_mean(scaled[size], name) for size in sizes]),
            ),
            is_share=True,
        )

    return (
        both("top", Words("largest probability", "最大概率")),
        both("slope", Words("norm of softmax's Jacobian", "softmax 雅可比矩阵的范数")),
    )


def _random_claims(raw: dict[int, list[Scores]], scaled: dict[int, list[Scores]]) -> tuple[Claim, ...]:
    largest = max(raw)
    ratio = Estimate.of([one.variance / largest for one in raw[largest]])
    unit = _mean(scaled[largest], "variance")
    gain = differences([one.slope for one in scaled[largest]], [one.slope for one in raw[largest]])
    middle = Estimate.of([one.mean / sqrt(largest) for one in raw[largest]])
    return (
        Claim(
            notes("11.3"),
            Words(
                "q.k of independent features with mean 0 and variance 1 has mean 0 and variance d_k.",
                "分量独立、均值 0、方差 1 的 q 和 k，点积的均值是 0，方差是 d_k。",
            ),
            Words(
                "d_k = {}: variance / d_k {}, mean / sqrt(d_k) {}",
                "d_k = {}：方差 / d_k {}，均值 / sqrt(d_k) {}",
            ).format(largest, ratio, middle),
            ratio.about(1.0, _TOLERANCE),
        ),
        Claim(
            notes("11.3"),
            Words("Divided by sqrt(d_k), the variance is 1.", "除以 sqrt(d_k) 之后方差为 1。"),
            Words("at d_k = {}: {}", "d_k = {} 时：{}").format(largest, unit),
            unit.about(1.0, _TOLERANCE),
        ),
        Claim(
            notes("11.1"),
            Words(
                "Without the scale, large d_k drives softmax to where its gradient is very small.",
                "不缩放时，d_k 增大会把 softmax 推入梯度非常小的区域。",
            ),
            Words(
                "norm of the Jacobian at d_k = {}: scaled minus unscaled {}",
                "d_k = {} 时雅可比矩阵的范数：缩放减未缩放 {}",
            ).format(largest, gain),
            gain.above(0.0),
        ),
    )


def _model_claims(found: list[BlockScores]) -> tuple[Claim, ...]:
    trained, apart = [one.scaled.variance for one in found], [one.apart for one in found]
    return (
        Claim(
            notes("11.1"),
            Words(
                "q and k have mean 0 and variance 1, so the scaled scores of a model have variance 1.",
                "q 和 k 均值 0、方差 1，因此模型里缩放后的分数方差为 1。",
            ),
            Words("by block: {}", "各 block：{}").format(", ".join(f"{one:.3g}" for one in trained)),
            verdict(all(abs(one - 1) < 0.25 for one in trained)),
        ),
        Claim(
            notes("7.1, 7.2"),
            Words("In self-attention Q = K = V.", "在 self-attention 中，Q = K = V。"),
            Words(
                "only their input is the same; norm of q - k over that of the larger one, by block: {}",
                "相同的只是它们的输入；q - k 的范数与较大者的范数之比，各 block：{}",
            ).format(", ".join(f"{one:.3g}" for one in apart)),
            verdict(all(one < _TOLERANCE for one in apart)),
        ),
    )


EXPERIMENTS = {
    "variance": Experiment(
        theory=Words(
            "If the features of q and k are independent with mean 0 and variance 1, each product has "
            "variance 1 and the sum of d_k of them has variance d_k; divided by sqrt(d_k), variance 1.",
            "若 q 和 k 的各分量独立、均值 0、方差 1，则每个乘积方差为 1，d_k 个相加方差为 d_k；除以 "
            "sqrt(d_k) 后方差为 1。",
        ),
        settings=VarianceSettings,
        run=run,
        large={"num_queries": 1024, "num_seeds": 20},
    ),
}

"""`lab depth`: stacks with and without residuals and LayerNorm, what flows up and what flows back.

Legend: T tokens, D hidden size.
"""

from dataclasses import dataclass
from math import log10
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from glassbert.config import BertConfig
from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate, differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Claim, Line, Lines, Report, Table
from glassbert.glassbox.lab.sources import OURS, notes
from glassbert.glassbox.lab.words import Words
from glassbert.model.attention import Attention
from glassbert.model.block import FeedForward, Sublayer, layer_norm
from glassbert.model.init import initialise_evenly
from glassbert.model.layout import Layout
from glassbert.progress import each
from glassbert.ranges import Range

NormPlace = Literal["post", "pre", "none"]
SMALLEST = 1e-45


@dataclass(frozen=True, kw_only=True)
class DepthSettings:
    """How deep and wide the stacks are."""

    num_layers: Annotated[int, Range(2, 200)] = 24
    """Blocks of each stack."""
    hidden_size: Annotated[int, Range(4, 2048)] = 64
    """Features of a token, a multiple of 4."""
    length: Annotated[int, Range(2, 512)] = 16
    """Tokens of a sequence."""
    num_seeds: Annotated[int, Range(2, 100)] = 5
    """Stacks, and inputs, that are drawn."""

    def __post_init__(self) -> None:
        if self.hidden_size % 4:
            raise UserError(f"hidden_size={self.hidden_size}; expected a multiple of 4, for the 4 heads")


@dataclass(frozen=True)
class Variant:
    """What a block is made of."""

    name: Words
    has_residual: bool
    norm: NormPlace


VARIANTS = {
    "post": Variant(Words("as published: residual, norm after", "原版：残差，后归一化"), True, "post"),
    "pre": Variant(Words("residual, norm before", "残差，前归一化"), True, "pre"),
    "no_residual": Variant(Words("no residual", "去掉残差"), False, "post"),
    "no_norm": Variant(Words("no LayerNorm", "去掉 LayerNorm"), True, "none"),
    "neither": Variant(Words("neither", "两者都去掉"), False, "none"),
}


class BareBlock(nn.Module):
    """The product's attention and feed-forward, with residual and LayerNorm as the variant says."""

    def __init__(self, config: BertConfig, variant: Variant) -> None:
        super().__init__()
        self.variant = variant
        self.attention, self.mlp = Attention(config), FeedForward(config)
        self.norms = nn.ModuleList([layer_norm(config), layer_norm(config)])

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Map (T, D) to (T, D)."""
        x = self._sublayer(
            x, self.norms[0], lambda inner, residual: self.attention(inner, layout, residual=residual)
        )
        return self._sublayer(x, self.norms[1], lambda inner, residual: self.mlp(inner, residual=residual))

    def _sublayer(self, x: Tensor, norm: nn.Module, sublayer: Sublayer) -> Tensor:
        inner = norm(x) if self.variant.norm == "pre" else x
        y = sublayer(inner, x if self.variant.has_residual else torch.zeros_like(x))
        return norm(y) if self.variant.norm == "post" else y


@dataclass(frozen=True)
class Flow:
    """One stack, from its input (place 0) to its last block."""

    variances: list[float]
    gradients: list[float]
    """Norm of the gradient of a loss on the output, at each place."""
    distinct: float
    """Share of the output that differs from token to token: 0 if the stack has made all tokens the same."""


def measure(settings: DepthSettings, variant: Variant, seed: int) -> Flow:
    """Send random tokens up a fresh stack and a random gradient back."""
    config = BertConfig(
        vocab_size=2, hidden_size=settings.hidden_size, intermediate_size=4 * settings.hidden_size,
        num_attention_heads=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    stack = nn.ModuleList(BareBlock(config, variant) for _ in range(settings.num_layers))
    initialise_evenly(stack, generator)
    stack.double()
    x = torch.randn(settings.length, settings.hidden_size, generator=generator).double().requires_grad_()
    layout, places = Layout((settings.length,)), [x]
    for block in stack:
        places.append(block(places[-1], layout))
    direction = torch.randn(x.shape, generator=generator).double()
    gradients = torch.autograd.grad((places[-1] * direction).sum(), places)
    last = places[-1].detach()
    return Flow(
        [place.detach().var().item() for place in places],
        [gradient.norm().item() for gradient in gradients],
        ((last - last.mean(dim=0)).norm() / last.norm()).item(),
    )


def _log(value: float) -> float:
    return log10(max(value, SMALLEST))


MEANING = Words(
    "Without residuals, attention averages until all tokens are the same: what tells them apart is "
    "10^{0:.0f} of the output. The gradient that reaches the input has then shrunk {1:.0f} orders of "
    "magnitude more, unless a LayerNorm scales it up again. Without LayerNorm the variance grows by {2:.1f} "
    "orders of magnitude through {3} blocks. Deep stacks need both.",
    "去掉残差，注意力不断取平均，直到所有 token 都一样：token 间的差异只占输出的 10^{0:.0f}。"
    "传到输入的梯度也多缩小 {1:.0f} 个数量级，除非 LayerNorm 又把它放大。"
    "去掉 LayerNorm，方差在 {3} 个 block 里增长 {2:.1f} 个数量级。深的堆叠两者都需要。",
)


def run(settings: DepthSettings) -> Report:
    """Measure every variant with every seed."""
    seeds = tuple(range(settings.num_seeds))
    found = {
        name: [measure(settings, variant, seed) for seed in each(seeds)]
        for name, variant in each(tuple(VARIANTS.items()))
    }
    growth = {
        name: [_log(one.variances[-1] / one.variances[0]) for one in flows] for name, flows in found.items()
    }
    fading = {
        name: [_log(one.gradients[0] / one.gradients[-1]) for one in flows] for name, flows in found.items()
    }
    rows = tuple(
        (
            variant.name,
            Estimate.of(growth[name]),
            Estimate.of(fading[name]),
            Estimate.of([_log(one.distinct) for one in found[name]]),
        )
        for name, variant in VARIANTS.items()
    )
    columns = (
        Words("stack", "堆叠方式"),
        Words("log10 of variance, last / input", "log10 方差，末层 / 输入"),
        Words("log10 of gradient, input / last", "log10 梯度，输入 / 末层"),
        Words("log10 of what tells tokens apart", "log10 token 间差异的占比"),
    )
    return Report(
        meaning=MEANING.format(
            Estimate.of([_log(one.distinct) for one in found["no_residual"]]).mean,
            differences(fading["no_norm"], fading["neither"]).mean,
            Estimate.of(growth["no_norm"]).mean,
            settings.num_layers,
        ),
        tables=(
            Table(
                Words("Through {} blocks", "经过 {} 个 block").format(settings.num_layers),
                columns,
                rows,
                digits=3,
            ),
        ),
        plots=(_plot(found, "variances"), _plot(found, "gradients")),
        claims=_claims(found, growth, fading),
        seeds=seeds,
    )


def _plot(found: dict[str, list[Flow]], what: Literal["variances", "gradients"]) -> Lines:
    titles = {
        "variances": Words("log10 of the variance", "log10 方差"),
        "gradients": Words("log10 of the gradient's norm", "log10 梯度范数"),
    }
    lines = []
    for name, flows in found.items():
        places = range(len(flows[0].variances))
        points = [Estimate.of([_log(getattr(flow, what)[place]) for flow in flows]) for place in places]
        lines.append(Line.of(VARIANTS[name].name, tuple(map(float, places)), points))
    return Lines(titles[what], Words("block", "block"), titles[what], tuple(lines))


def _claims(
    found: dict[str, list[Flow]], growth: dict[str, list[float]], fading: dict[str, list[float]]
) -> tuple[Claim, ...]:
    carried = differences(fading["no_norm"], fading["neither"])
    with_norm = differences(fading["post"], fading["no_residual"])
    apart = differences(*([_log(one.distinct) for one in found[name]] for name in ("post", "no_residual")))
    grown, kept = Estimate.of(growth["no_norm"]), Estimate.of([abs(one) for one in growth["post"]])
    return (
        Claim(
            notes("5.3"),
            Words("The residual carries information deeper.", "残差连接把信息传递得更深。"),
            Words(
                "log10 of the gradient at the input, with minus without: {} without LayerNorm, {} with it",
                "输入处梯度的 log10，有残差减无残差：无 LayerNorm 时 {}，有 LayerNorm 时 {}",
            ).format(carried, with_norm),
            carried.above(0.0),
        ),
        Claim(
            OURS,
            Words("Without residuals tokens lose what tells them apart.", "没有残差，token 失去彼此的区别。"),
            Words(
                "log10 of what tells tokens apart in the output, with residuals minus without: {}",
                "输出中 token 间差异占比的 log10，有残差减无残差：{}",
            ).format(apart),
            apart.above(0.0),
        ),
        Claim(
            notes("5.3"),
            Words(
                "Without LayerNorm values get too large or too small with depth; with it they do not.",
                "没有 LayerNorm，数值会随深度过大或过小；有则不会。",
            ),
            Words(
                "log10 of the variance's growth: {} without, {} with", "方差增长的 log10：无 {}，有 {}"
            ).format(grown, kept),
            grown.above(max(1.0, kept.high)),
        ),
    )


EXPERIMENTS = {
    "depth": Experiment(
        theory=Words(
            "x + f(x) lets a gradient pass by f unchanged; f(x) alone multiplies it by the slope of f at "
            "every block. Sums of random values grow with each block unless something scales them back.",
            "x + f(x) 让梯度绕过 f 原样通过；只有 f(x) 时，每个 block 都要乘一次 f 的斜率。"
            "随机值不断相加会越来越大，除非有东西把它缩回去。",
        ),
        settings=DepthSettings,
        run=run,
        large={"num_layers": 48, "hidden_size": 256, "length": 64, "num_seeds": 10},
    ),
}

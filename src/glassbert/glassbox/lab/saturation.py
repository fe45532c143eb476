"""`lab saturation`: softmax of [a, a, 2a] and its derivative as a grows."""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Annotated

import torch
from torch import Tensor

from glassbert.glassbox.lab.arithmetic import short
from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Claim, Line, Lines, Report, Steps, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.ranges import Range

CURVE = torch.linspace(0, 15, 61, dtype=torch.float64)
_VANISHED = 1e-3


@dataclass(frozen=True, kw_only=True)
class SaturationSettings:
    """Which inputs softmax gets."""

    pattern: tuple[Annotated[float, Range(-10, 10)], ...] = (1.0, 1.0, 2.0)
    """The input, before it is multiplied by each scale; the last one is looked at."""
    scales: tuple[Annotated[float, Range(-1000, 1000)], ...] = (1.0, 5.0, 10.0, 100.0)
    """What the pattern is multiplied by: the a of [a, a, 2a]."""


def softmax(pattern: tuple[float, ...], scale: float) -> Tensor:
    """Return the probabilities in float64."""
    return torch.tensor(pattern, dtype=torch.float64).mul(scale).softmax(dim=0)


def jacobian(probs: Tensor) -> Tensor:
    """Return the derivative of each probability by each input: y_i * ([i = j] - y_j)."""
    return probs.diag() - torch.outer(probs, probs)


def exactly(pattern: tuple[float, ...], scale: float) -> Decimal:
    """Return the last probability to fifty digits."""
    with localcontext(prec=50):
        top = Decimal(pattern[-1])
        return 1 / sum((((Decimal(one) - top) * Decimal(scale)).exp() for one in pattern), Decimal(0))


MEANING = Words(
    "The larger the inputs, the more of the probability the largest one takes, and the smaller every entry "
    "of the Jacobian: no input can change the output any more, so no gradient passes back through it. It is "
    "the differences between the inputs that count; a constant added to all of them changes nothing.",
    "输入越大，最大的那个分量占去的概率越多，雅可比矩阵的每个元素就越小：哪个输入都不再能改变输出，"
    "梯度也就传不回去。起作用的是输入之间的差；给所有输入加同一个常数，什么都不变。",
)


def run(settings: SaturationSettings) -> Report:
    """Compute probabilities and Jacobians for each scale."""
    found = [(scale, softmax(settings.pattern, scale)) for scale in settings.scales]
    last = len(settings.pattern) - 1
    rows = []
    for scale, probs in found:
        slopes = jacobian(probs)
        largest = slopes.abs().max().item()
        rows.append(
            (
                f"{scale:g}",
                f"{exactly(settings.pattern, scale):.16f}",
                slopes[last, last].item(),
                slopes[last, 0].item(),
                largest,
            )
        )
    columns = (
        "a",
        f"y{last + 1}",
        f"dy{last + 1}/dx{last + 1} = y{last + 1}*(1-y{last + 1})",
        f"dy{last + 1}/dx1 = -y{last + 1}*y1",
        Words("largest entry of the Jacobian", "雅可比矩阵的最大元素"),
    )
    table = Table(
        Words("Softmax of a * {}", "a * {} 的 softmax").format(list(settings.pattern)), columns, tuple(rows)
    )
    return Report(
        meaning=MEANING,
        steps=(_derivative(found[0][0], found[0][1]),),
        tables=(table, *(_jacobian_table(scale, probs) for scale, probs in found)),
        plots=(_plot(settings),),
        claims=(*_claims(settings), _autograd_claim(settings)),
    )


def _derivative(scale: float, probs: Tensor) -> Steps:
    """Return both cases of the derivative with numbers."""
    y = probs.tolist()
    last = len(y)
    return Steps(
        Words("Both cases of the derivative, at a = {:g}", "导数的两种情况，a = {:g}").format(scale),
        (
            f"i = j: dy{last}/dx{last} = y{last}*(1-y{last}) = {short(y[-1])}*(1-{short(y[-1])}) = "
            f"{y[-1] * (1 - y[-1]):.10f}",
            f"i != j: dy{last}/dx1 = -y{last}*y1 = -{short(y[-1])}*{short(y[0])} = {-y[-1] * y[0]:.10f}",
            Words("each row adds up to 0: {}", "每一行之和为 0：{}").format(
                " + ".join(short(one) for one in jacobian(probs)[-1].tolist())
            ),
        ),
    )


def _jacobian_table(scale: float, probs: Tensor) -> Table:
    names = [f"x{place + 1}" for place in range(len(probs))]
    rows = tuple((f"dy{place + 1}", *row) for place, row in enumerate(jacobian(probs).tolist()))
    return Table(
        Words("Jacobian at a = {:g}", "雅可比矩阵，a = {:g}").format(scale),
        ("", *(f"d{name}" for name in names)),
        rows,
    )


def _plot(settings: SaturationSettings) -> Lines:
    probs = [softmax(settings.pattern, scale) for scale in CURVE.tolist()]
    xs = tuple(CURVE.tolist())
    last = len(settings.pattern)
    return Lines(
        Words("Saturation", "饱和"),
        "a",
        Words("share", "数值"),
        (
            Line(f"y{last}", xs, tuple(one[-1].item() for one in probs)),
            Line(
                Words("largest entry of the Jacobian", "雅可比矩阵的最大元素"),
                xs,
                tuple(jacobian(one).abs().max().item() for one in probs),
            ),
        ),
        is_share=True,
    )


def _claims(settings: SaturationSettings) -> list[Claim]:
    largest = max(settings.scales)
    probs = softmax(settings.pattern, largest)
    entry = jacobian(probs).abs().max().item()
    claims = [
        Claim(
            notes("11.2"),
            Words(
                "With large inputs, softmax gives nearly all probability to the largest; all gradients "
                "vanish.",
                "输入的数量级较大时，softmax 几乎把全部概率给最大的分量，所有梯度都消失为 0。",
            ),
            Words(
                "a = {:g}: largest probability {:.6g}, largest entry of the Jacobian {:.3g}",
                "a = {:g}：最大概率 {:.6g}，雅可比矩阵最大元素 {:.3g}",
            ).format(largest, probs.max().item(), entry),
            verdict(entry < _VANISHED),
        )
    ]
    if settings == SaturationSettings():
        exact = [f"{exactly(settings.pattern, scale):.16f}" for scale in (1.0, 10.0)]
        rest = 1 - exactly(settings.pattern, 100.0)
        claims.append(
            Claim(
                notes("11.2"),
                Words(
                    "y3 is 0.5761168847658291 for a = 1, 0.9999092083843412 for a = 10 and 1.0 for a = 100.",
                    "a = 1 时 y3 = 0.5761168847658291，a = 10 时 0.9999092083843412，a = 100 时 1.0。",
                ),
                Words(
                    "{}, {} (the last digit in the notes is rounding), and 1 - {:.1e}, which float64 rounds "
                    "to 1",
                    "{}、{}（讲义的末位是舍入误差），以及 1 - {:.1e}，float64 舍入为 1",
                ).format(*exact, rest),
                verdict(True),
            )
        )
    return claims


def _autograd_claim(settings: SaturationSettings) -> Claim:
    inputs = torch.tensor(settings.pattern, dtype=torch.float64) * settings.scales[0]
    by_torch = torch.autograd.functional.jacobian(lambda x: x.softmax(dim=0), inputs)
    difference = (by_torch - jacobian(inputs.softmax(dim=0))).abs().max().item()
    return Claim(
        notes("11.2"),
        Words(
            "dy_i/dx_j is y_i*(1-y_i) for i = j and -y_i*y_j otherwise.",
            "i = j 时 dy_i/dx_j = y_i*(1-y_i)，否则为 -y_i*y_j。",
        ),
        Words("largest difference from autograd {:.1e}", "与自动求导最大相差 {:.1e}").format(difference),
        verdict(difference < 1e-12),
    )


EXPERIMENTS = {
    "saturation": Experiment(
        theory=Words(
            "y_i = e^x_i / sum(e^x_j). Its derivative has two cases: y_i*(1-y_i) for the same place, "
            "-y_i*y_j for another one. When one y is near 1 and the others near 0, both are near 0.",
            "y_i = e^x_i / sum(e^x_j)。导数分两种情况：同一位置 y_i*(1-y_i)，不同位置 -y_i*y_j。"
            "当一个 y 接近 1、其余接近 0 时，两者都接近 0。",
        ),
        settings=SaturationSettings,
        run=run,
    ),
}

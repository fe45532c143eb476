"""`lab waves`: the sinusoid k positions on as a matrix times the one here."""

from dataclasses import dataclass
from math import cos, sin
from typing import Annotated

from glassbert.errors import UserError
from glassbert.glassbox.lab.arithmetic import result, short
from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment, check_place
from glassbert.glassbox.lab.result import Claim, Matrix, Report, Steps, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.words import Words
from glassbert.model.positions import WAVELENGTH_BASE, sinusoids, turning
from glassbert.ranges import Range

_ROUNDING = 1e-5  # the table is float32


@dataclass(frozen=True, kw_only=True)
class WavesSettings:
    """Which positions are compared."""

    num_features: Annotated[int, Range(2, 1024)] = 8
    """Features of a position, an even number."""
    distance: Annotated[int, Range(0, 10_000)] = 3
    """How far on: the k of PE(pos + k)."""
    position: int = 5
    """The position whose arithmetic is written out."""
    num_positions: Annotated[int, Range(1, 10_000)] = 512
    """Positions that the matrix is tried on."""

    def __post_init__(self) -> None:
        check_place("position", self.position, self.num_positions)
        if self.num_features % 2:
            raise UserError(
                f"num_features={self.num_features}; expected an even number, a sine and a cosine for each "
                f"wave"
            )


MEANING = Words(
    "One matrix M turns PE(pos) into PE(pos + {0}) for every pos: pairs of features are rotated, each by "
    "its own angle, and pos does not enter. A head can learn M and so look {0} tokens ahead from anywhere.",
    "同一个矩阵 M 把任意 pos 的 PE(pos) 变成 PE(pos + {0})：特征两两旋转，各转各的角度，与 pos 无关。"
    "一个注意力头学会 M，就能在任何位置看向后面第 {0} 个 token。",
)


def run(settings: WavesSettings) -> Report:
    """Multiply every position by one matrix and compare with the position k on."""
    table = sinusoids(settings.num_positions + settings.distance, settings.num_features)
    matrix = turning(settings.distance, settings.num_features)
    here, there = table[: settings.num_positions], table[settings.distance :]
    worst = (here @ matrix.T - there).abs().max().item()
    names = tuple(f"{kind}{pair}" for pair in range(settings.num_features // 2) for kind in ("sin", "cos"))
    rows = tuple((name, *row) for name, row in zip(names, matrix.tolist(), strict=True))
    title = Words("The matrix for k = {}", "k = {} 的矩阵").format(settings.distance)
    # A matrix of a thousand rows is for JSON and plots.
    tables = (Table(title, ("", *names), rows),) if settings.num_features <= 16 else ()
    return Report(
        meaning=MEANING.format(settings.distance),
        steps=(_steps(settings),),
        tables=tables,
        plots=(
            Matrix(
                title, tuple(map(tuple, matrix.tolist())), names, names if settings.num_features <= 8 else ()
            ),
        ),
        claims=(
            Claim(
                notes("5.4"),
                Words("PE(pos+k) is a linear function of PE(pos).", "PE(pos+k) 是 PE(pos) 的线性函数。"),
                Words(
                    "one matrix for {} positions: largest error {:.1e}",
                    "{} 个位置共用一个矩阵：最大误差 {:.1e}",
                ).format(settings.num_positions, worst),
                verdict(worst < _ROUNDING),
            ),
        ),
    )


def _steps(settings: WavesSettings) -> Steps:
    lines = []
    for pair in range(settings.num_features // 2):
        frequency = WAVELENGTH_BASE ** (-2 * pair / settings.num_features)
        a, b = settings.position * frequency, settings.distance * frequency
        for name, symbols, terms, exact in (
            (f"sin{pair}", "sin(a)cos(b) + cos(a)sin(b)", ((sin(a), cos(b)), (cos(a), sin(b))), sin(a + b)),
            (f"cos{pair}", "cos(a)cos(b) - sin(a)sin(b)", ((cos(a), cos(b)), (sin(a), -sin(b))), cos(a + b)),
        ):
            numbers = " + ".join(f"{short(x)}*{short(y)}" for x, y in terms)
            lines.append(
                f"{name}({settings.position}+{settings.distance}) = {symbols} = {numbers} = {result(exact)}"
            )
    return Steps(
        Words(
            "a = pos * frequency, b = k * frequency; only a depends on pos",
            "a = pos * 频率，b = k * 频率；只有 a 与 pos 有关",
        ),
        tuple(lines),
    )


EXPERIMENTS = {
    "waves": Experiment(
        theory=Words(
            "sin(a + b) = sin a cos b + cos a sin b, and cos(a + b) = cos a cos b - sin a sin b: for a "
            "fixed k, cos b and sin b are constants.",
            "sin(a + b) = sin a cos b + cos a sin b，cos(a + b) = cos a cos b - sin a sin b：k 固定时，cos b "
            "和 sin b 是常数。",
        ),
        settings=WavesSettings,
        run=run,
        large={"num_features": 512, "num_positions": 5000},
    ),
}

"""`lab unit`, `cell` and `norm`: arithmetic of a real model written out, for any layer, head and token."""

from dataclasses import dataclass
from math import exp, fsum, sqrt
from typing import Annotated

from torch import Tensor, nn

from glassbert.errors import ModelError
from glassbert.glassbox.lab.arithmetic import contributions, result, short
from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment, check_place
from glassbert.glassbox.lab.inside import Inside, look_inside
from glassbert.glassbox.lab.result import Cell, Claim, Report, Steps, Table
from glassbert.glassbox.lab.sources import THEORY
from glassbert.glassbox.lab.words import Words
from glassbert.model.linear import ACTIVATIONS
from glassbert.ranges import CountOrNone, Range

TEXT = "The river flows into the sea."
_SAME = 1e-9
_LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where in which model."""

    model: str = "demo"
    """Model folder, or demo."""
    text: str = TEXT
    """What the model reads."""
    layer: CountOrNone = 0
    """The block, from 0."""
    token: CountOrNone = 2
    """The token, from 0, which is [CLS]."""
    num_rows: Annotated[int, Range(0, 100_000)] = 8
    """Terms of a long sum to show one by one, the largest; the others are one row."""


@dataclass(frozen=True, kw_only=True)
class UnitSettings(Place):
    """One unit of a feed-forward layer."""

    unit: CountOrNone = 0
    """The unit, from 0."""


@dataclass(frozen=True, kw_only=True)
class CellSettings(Place):
    """One cell of an attention matrix."""

    head: CountOrNone = 0
    """The head, from 0."""
    key: CountOrNone = 3
    """The token that is looked at."""


@dataclass(frozen=True, kw_only=True)
class NormSettings(Place):
    """One feature of one token behind a LayerNorm."""

    feature: CountOrNone = 0
    """The feature, from 0."""


def _about(inside: Inside, settings: Place) -> Words:
    piece = inside.pieces[settings.token]
    return Words("{} reads {}; block {}, token {} ({})", "{} 读入 {}；block {}，token {}（{}）").format(
        settings.model, " ".join(inside.pieces), settings.layer, settings.token, piece
    )


def _opened(settings: Place) -> Inside:
    inside = look_inside(settings.model, settings.text)
    inside.block(settings.layer)
    inside.check_token("token", settings.token)
    return inside


def _agrees(found: float, expected: float) -> Claim:
    return Claim(
        THEORY,
        Words("The sum written out is what the model computes.", "写出来的和就是模型算的数。"),
        Words("{:.10f} and {:.10f}", "{:.10f} 与 {:.10f}").format(found, expected),
        verdict(abs(found - expected) < _SAME * max(1.0, abs(expected))),
    )


UNIT_MEANING = Words(
    "{}. Unit {} adds up {} products and a bias; {} turns {:.6f} into {:.6f}. The layer has {} such units, "
    "and the second projection spreads each over all {} features.",
    "{}。单元 {} 把 {} 个乘积和一个偏置相加；{} 把 {:.6f} 变成 {:.6f}。这一层有 {} 个这样的单元，"
    "第二个投影把每个单元分给全部 {} 个特征。",
)


def run_unit(settings: UnitSettings) -> Report:
    """Write out one unit: its sum before the activation, the activation, and where its output goes."""
    inside = _opened(settings)
    mlp = inside.block(settings.layer).mlp
    check_place("unit", settings.unit, mlp.inner.out_features)
    name = f"enc.{settings.layer}."
    is_pre_norm = inside.block(settings.layer).is_pre_norm
    read = inside.values[f"{name}mlp.norm" if is_pre_norm else f"{name}attn.norm"][settings.token]
    weights = mlp.inner.weight[settings.unit]
    bias = mlp.inner.bias[settings.unit].item() if mlp.inner.bias is not None else 0.0
    table, pre = contributions(
        Words("x W^T + b of unit {}", "单元 {} 的 x W^T + b").format(settings.unit),
        (Words("input", "输入"), Words("weight", "权重")),
        zip(read.tolist(), weights.tolist(), strict=True),
        num_rows=settings.num_rows,
        extra=[(Words("bias", "偏置"), bias)],
    )
    act = ACTIVATIONS[mlp.activation](inside.values[f"{name}mlp.pre"].new_tensor(pre)).item()
    outer = mlp.outer.weight[:, settings.unit]
    strongest = int(outer.abs().argmax())
    return Report(
        meaning=UNIT_MEANING.format(
            _about(inside, settings),
            settings.unit,
            len(weights),
            mlp.activation,
            pre,
            act,
            mlp.inner.out_features,
            len(outer),
        ),
        steps=(
            *inside.unread,
            Steps(
                Words("From the sum to the output", "从和到输出"),
                (
                    f"{mlp.activation}({short(pre)}) = {result(act)}",
                    Words(
                        "its largest share goes to feature {}: {} * {} = {}",
                        "占比最大的是特征 {}：{} * {} = {}",
                    ).format(
                        strongest,
                        short(act),
                        short(outer[strongest].item()),
                        result(act * outer[strongest].item()),
                    ),
                ),
            ),
        ),
        tables=(table,),
        claims=(
            _agrees(pre, inside.values[f"{name}mlp.pre"][settings.token, settings.unit].item()),
            _agrees(act, inside.values[f"{name}mlp.act"][settings.token, settings.unit].item()),
        ),
    )


@dataclass(frozen=True)
class AttentionRow:
    """The scores of one query with every key, and what softmax makes of them."""

    size: int
    """d_k."""
    scores: list[float]
    exps: list[float]
    probs: list[float]

    @classmethod
    def of(cls, query: list[float], keys: list[list[float]]) -> "AttentionRow":
        """Compute the row as it is taught."""
        scores = [fsum(a * b for a, b in zip(query, key, strict=True)) / sqrt(len(query)) for key in keys]
        if not max(scores) < _LARGEST_EXPONENT:
            raise ModelError(f"a score of {max(scores):g} is too large for e^score; look at another token")
        exps = [exp(score) for score in scores]
        total = fsum(exps)
        return cls(len(query), scores, exps, [one / total for one in exps])

    def lines(self, raw: float, key: int) -> Steps:
        """Return the way from q.k to the weight of one key."""
        score, total = self.scores[key], fsum(self.exps)
        return Steps(
            Words("From q.k to the weight", "从 q.k 到权重"),
            (
                f"score = q.k / sqrt(d_k) = {short(raw)} / sqrt({self.size}) = {result(score)}",
                Words("masked score = {} (visible)", "掩码后的分数 = {}（可见）").format(result(score)),
                f"e^{short(score)} = {result(self.exps[key])}",
                f"sum = {' + '.join(f'{one:.4f}' for one in self.exps)} = {result(total)}",
                f"weight = {short(self.exps[key])} / {short(total)} = {result(self.probs[key])}",
            ),
        )

    def table(self, pieces: tuple[str, ...], query: str) -> Table:
        """Return all keys."""
        parts = zip(pieces, self.scores, self.exps, self.probs, strict=True)
        rows = tuple(
            (f"{place} {piece}", score * sqrt(self.size), score, score, one, prob)
            for place, (piece, score, one, prob) in enumerate(parts)
        )
        masked, share = Words("masked", "掩码后"), Words("/ sum", "/ 总和")
        columns = (Words("key", "键"), "q.k", f"/ sqrt({self.size})", masked, "exp", share)
        title = Words("The whole row: every key that {} can look at", "整行：{} 能看到的每个键").format(query)
        return Table(title, columns, rows, digits=6, is_fixed=True)


CELL_MEANING = Words(
    "{}, head {}. It gives {:.4f} of its attention to token {}: the score {:.4f} against those of all "
    "others. An encoder hides no token, so the mask changes nothing; a decoder sets what comes after to "
    "-inf, and exp makes that 0.",
    "{}，第 {} 个头。它把 {:.4f} 的注意力给了 token {}：分数 {:.4f} 与其他所有分数相比的结果。"
    "编码器不遮任何 token，所以掩码没有改变什么；解码器把后面的位置设为 -inf，exp 之后就是 0。",
)


def run_cell(settings: CellSettings) -> Report:
    """Write out one attention weight: q.k by dimension, scale, mask, exp, sum."""
    inside = _opened(settings)
    inside.check_token("key", settings.key)
    name = f"enc.{settings.layer}.attn."
    q = inside.head_of(f"{name}q", settings.head)[settings.token]
    keys = inside.head_of(f"{name}k", settings.head)
    table, raw = contributions(
        Words("q.k for {} -> {}", "{} -> {} 的 q.k").format(
            inside.pieces[settings.token], inside.pieces[settings.key]
        ),
        ("q", "k"),
        zip(q.tolist(), keys[settings.key].tolist(), strict=True),
        num_rows=settings.num_rows,
    )
    row = AttentionRow.of(q.tolist(), keys.tolist())
    score, prob = row.scores[settings.key], row.probs[settings.key]
    expected = inside.values[f"{name}probs"][0, settings.head, settings.token, settings.key].item()
    return Report(
        meaning=CELL_MEANING.format(_about(inside, settings), settings.head, prob, settings.key, score),
        steps=(*inside.unread, row.lines(raw, settings.key)),
        tables=(table, row.table(inside.pieces, inside.pieces[settings.token])),
        claims=(
            _agrees(raw, inside.values[f"{name}raw"][0, settings.head, settings.token, settings.key].item()),
            _agrees(prob, expected),
        ),
    )


NORM_MEANING = Words(
    "{}. Gamma multiplies a feature after it was normalised over its own token's {} features. There is one "
    "gamma and one beta per feature, {} numbers in all, and every token uses the same ones: the columns "
    "gamma and beta are constant, the columns mean and variance are not.",
    "{}。gamma 乘的是某个特征在自己那个 token 的 {} 个特征上标准化之后的值。每个特征一个 gamma 一个 "
    "beta，"
    "共 {} 个数，所有 token 共用：gamma 和 beta 两列不变，均值和方差两列各不相同。",
)


def run_norm(settings: NormSettings) -> Report:
    """Write out the LayerNorm behind the feed-forward layer for one feature of one token."""
    inside = _opened(settings)
    block = inside.block(settings.layer)
    norm, name = block.mlp_norm, f"enc.{settings.layer}."
    check_place("feature", settings.feature, norm.normalized_shape[0])
    source = inside.values[f"{name}attn.sum" if block.is_pre_norm else f"{name}mlp.sum"]  # (T, D)
    x = source[settings.token].tolist()
    mean = fsum(x) / len(x)
    variance = fsum((one - mean) ** 2 for one in x) / len(x)
    place = settings.feature
    gamma, beta = norm.weight[place].item(), norm.bias[place].item()
    normal = (x[place] - mean) / sqrt(variance + norm.eps)
    found = gamma * normal + beta
    rows = tuple(
        _norm_row(f"{number} {piece}", row, norm, place)
        for number, (piece, row) in enumerate(zip(inside.pieces, source, strict=True))
    )
    columns = (
        "token",
        Words("mean of its features", "自身特征的均值"),
        Words("variance", "方差"),
        f"x[{place}]",
        Words("normalised", "标准化后"),
        "gamma",
        "beta",
        Words("output", "输出"),
    )
    size = len(x)
    return Report(
        meaning=NORM_MEANING.format(_about(inside, settings), size, 2 * size),
        steps=(
            *inside.unread,
            Steps(
                Words("Feature {} of token {}", "token {1} 的第 {0} 个特征").format(place, settings.token),
                (
                    f"mean = ({short(x[0])} + {short(x[1])} + ... + {short(x[-1])}) / {size} = "
                    f"{result(mean)}",
                    f"variance = sum((x - mean)^2) / {size} = {result(variance)}",
                    f"normalised = ({short(x[place])} - {short(mean)}) / sqrt({short(variance)} + "
                    f"{norm.eps:g}) = {result(normal)}",
                    f"output = gamma*normalised + beta = {short(gamma)}*{short(normal)} + {short(beta)} = "
                    f"{result(found)}",
                ),
            ),
        ),
        tables=(
            Table(
                Words("The same feature of every token", "每个 token 的同一个特征"),
                columns,
                rows,
                digits=6,
                is_fixed=True,
            ),
        ),
        claims=(_agrees(found, inside.values[f"{name}mlp.norm"][settings.token, place].item()),),
    )


def _norm_row(name: str, row: Tensor, norm: nn.LayerNorm, place: int) -> tuple[Cell, ...]:
    """Return what the LayerNorm does to one feature of one token, whose features are ``row``, (D,)."""
    mean, variance = row.mean(), row.var(correction=0)
    normal = (row[place] - mean) / (variance + norm.eps).sqrt()
    values = (mean, variance, row[place], normal, norm.weight[place], norm.bias[place], norm(row)[place])
    return (name, *(value.item() for value in values))


EXPERIMENTS = {
    "unit": Experiment(
        theory=Words(
            "A unit is a row of the first projection: the sum of all inputs times its weights, plus its "
            "bias, through the activation.",
            "一个单元就是第一个投影的一行：所有输入乘以它的权重相加，加偏置，再过激活函数。",
        ),
        settings=UnitSettings,
        run=run_unit,
    ),
    "cell": Experiment(
        theory=Words(
            "weight = exp(q.k / sqrt(d_k)) / sum over all visible keys of the same.",
            "权重 = exp(q.k / sqrt(d_k)) / 对所有可见键求和。",
        ),
        settings=CellSettings,
        run=run_cell,
    ),
    "norm": Experiment(
        theory=Words(
            "output = gamma * (x - mean) / sqrt(variance + eps) + beta, with mean and variance over the "
            "features of one token.",
            "输出 = gamma * (x - 均值) / sqrt(方差 + eps) + beta，均值和方差取自同一个 token 的所有特征。",
        ),
        settings=NormSettings,
        run=run_norm,
    ),
}

"""`lab heads`: what many heads give that one does not, and how far apart the heads of a model look."""

from dataclasses import dataclass
from itertools import combinations
from statistics import mean
from typing import Annotated

from torch import Tensor

from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate, verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.inside import Inside, look_inside
from glassbert.glassbox.lab.projections import (
    LARGE,
    ONE_PLACE,
    TaskName,
    gain_claim,
    learn_all,
    tables_and_plots,
)
from glassbert.glassbox.lab.reader import ReaderSettings, Variant
from glassbert.glassbox.lab.result import Cell, Claim, Report, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.training import num_parameters
from glassbert.glassbox.lab.words import Text, Words
from glassbert.ranges import Range


@dataclass(frozen=True, kw_only=True)
class HeadsSettings(ReaderSettings):
    """Which numbers of heads."""

    tasks: tuple[TaskName, ...] = ("neighbours",)
    """copy, previous, induction, brackets, neighbours, mlm."""
    num_heads: tuple[Annotated[int, Range(1, 8)], ...] = (1, 2, 8)
    """Heads of each attention: divisors of the hidden size."""
    num_steps: Annotated[int, Range(1, 100_000)] = 120
    """Steps of training."""
    model: str = "demo"
    """The model whose heads are compared."""
    text: str = "The river flows through the old city and into the sea."
    """What the model reads."""


def distance(probs: Tensor) -> float:
    """Return how far apart two heads look, from 0 for the same shares to 1 for no token in common.

    It is half of the summed difference of their attention, the mean over pairs of heads and tokens.

    Args:
        probs: Attention of a block, (heads, T, T).
    """
    pairs = list(combinations(range(len(probs)), 2))
    first, second = (probs[[pair[side] for pair in pairs]] for side in (0, 1))
    return ((first - second).abs().sum(-1) / 2).mean().item()


def distances(inside: Inside, num_seeds: int) -> tuple[list[float], Estimate]:
    """Return the distance of a model's heads by block, and that of networks that were not trained."""

    def of(values: dict[str, Tensor]) -> list[float]:
        return [distance(values[f"enc.{block}.attn.probs"][0]) for block in range(len(inside.blocks))]

    fresh = [mean(of(inside.untrained(seed))) for seed in range(num_seeds)]
    return of(inside.values), Estimate.of(fresh)


def run_heads(settings: HeadsSettings) -> Report:
    """Train networks that differ in the number of heads only; compare the heads of a model."""
    inside = look_inside(settings.model, settings.text)
    if inside.network.config.encoder.num_attention_heads == 1:
        raise UserError(f"model={settings.model}: its blocks have one head; expected several to compare")
    variants = {str(count): Variant(num_heads=count) for count in settings.num_heads}
    found = learn_all(variants, settings.tasks, settings)
    names: dict[str, Text] = {
        name: Words("{} head" + "s" * (name != "1"), "{} 个头").format(name) for name in found
    }
    table, plots = tables_and_plots(found, names, settings.tasks, Words("heads", "头数"))
    fewest, most = str(min(settings.num_heads)), str(max(settings.num_heads))
    statement = Words(
        "Many heads do better than one at equal parameters ({}).", "参数相同，多个头比一个头好（{}）。"
    )
    better = (gain_claim(found, (most, fewest), task, notes("8.1"), statement) for task in settings.tasks)
    sizes = {name: learned[settings.tasks[0]][0].num_parameters for name, learned in found.items()}
    trained, fresh = distances(inside, settings.num_seeds)
    return Report(
        meaning=MEANING,
        steps=inside.unread,
        tables=(table, _distance_table(trained, fresh)),
        plots=plots,
        claims=(*better, _apart(trained, fresh), _same_size(sizes), _is_not_just_joined(inside)),
        seeds=tuple(range(settings.num_seeds)),
    )


def _distance_table(trained: list[float], fresh: Estimate) -> Table:
    rows: tuple[tuple[Cell, ...], ...] = (
        *((Words("block {}", "block {}").format(block), one) for block, one in enumerate(trained)),
        (Words("not trained, all blocks", "未训练，所有 block"), fresh),
    )
    title = Words(
        "How far apart two heads look: 0 the same, 1 nothing in common",
        "两个头看的相差多少：0 完全相同，1 毫无交集",
    )
    return Table(title, (Words("heads of", "哪里的头"), Words("distance", "距离")), rows, digits=3)


def _apart(trained: list[float], fresh: Estimate) -> Claim:
    return Claim(
        notes("8.1"),
        Words("Heads attend to different things.", "不同的头关注不同方面的信息。"),
        Words(
            "distance of two heads of the model {:.3f}, of heads that were not trained {}",
            "模型里两个头的距离 {:.3f}，未训练的头 {}",
        ).format(mean(trained), fresh),
        verdict(mean(trained) > fresh.high),
    )


def _same_size(sizes: dict[str, int]) -> Claim:
    return Claim(
        notes("8.2"),
        Words(
            "The only difference from one head is that the features are divided among the heads.",
            "与单头唯一的区别，是把特征维切分给各个头。",
        ),
        Words("parameters by number of heads: {}", "各头数的参数量：{}").format(
            ", ".join(f"{name}: {size:,}" for name, size in sizes.items())
        ),
        verdict(len(set(sizes.values())) == 1),
    )


def _is_not_just_joined(inside: Inside) -> Claim:
    attention = inside.block(0).attention
    return Claim(
        notes("8.2"),
        Words(
            "The heads side by side are the result of multi-head attention.",
            "把各头的结果直接拼接，就是多头注意力的结果。",
        ),
        Words(
            "a fourth matrix follows and mixes the heads: {0:,} of {1:,} parameters of the model's attention",
            "拼接之后还有第四个矩阵把各头混合：占模型里注意力 {1:,} 个参数中的 {0:,} 个",
        ).format(num_parameters(attention.output), num_parameters(attention)),
        verdict(False),
    )


MEANING = Words(
    "The parameters are the same for any number of heads: the same matrices are cut into more slices. One "
    "head has one distribution over the tokens, so it mixes what it looks at. A mixture of two places can "
    "still be taken apart if their weights differ; of four places it can hardly be, and there many heads "
    "win. Where one place holds the answer, one head is enough.",
    "头数不同，参数一样多：只是把同样的矩阵切成更多份。一个头对所有 token 只有一个分布，"
    "看到的东西混在一起。混了两个位置，只要权重不同还能分开；混了四个位置就很难分开，"
    "这时多个头明显更好。答案只在一个位置时，一个头就够了。",
)
EXPERIMENTS = {
    "heads": Experiment(
        theory=Words(
            "h heads of d / h features need the same four d x d matrices as one head of d features. Each "
            "has its own softmax, so h heads can read h places without mixing them.",
            "h 个 d / h 维的头，与一个 d 维的头，都是同样的四个 d x d 矩阵。每个头各有自己的 softmax，"
            "h 个头能读 h 个位置而不混在一起。",
        ),
        settings=HeadsSettings,
        run=run_heads,
        large={**LARGE, "num_layers": 1, "tasks": ["neighbours", *ONE_PLACE]},
    ),
}

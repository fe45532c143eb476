"""`lab projections` and `lab order`: what attention needs, on tasks that show it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from glassbert.glassbox.lab.estimate import Estimate, Verdict, differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.reader import (
    Learned,
    PositionKind,
    Projections,
    ReaderSettings,
    Variant,
    learn,
)
from glassbert.glassbox.lab.result import Bars, Claim, Plot, Report, Table
from glassbert.glassbox.lab.small_language import pretrain, texts
from glassbert.glassbox.lab.sources import THEORY, notes
from glassbert.glassbox.lab.toys import TOYS
from glassbert.glassbox.lab.training import TEST_SEED, num_parameters
from glassbert.glassbox.lab.words import Text, Words
from glassbert.progress import each

TaskName = Literal["copy", "previous", "induction", "brackets", "neighbours", "mlm"]
MLM = Words("small MLM", "小型 MLM")
NUM_TEST_SENTENCES = 300
NEAR = 0.02
"""Accuracies that differ by less are called equal."""

PROJECTIONS: dict[Projections, Words] = {
    "qkv": Words("(Q, K, V)", "(Q, K, V)"),
    "qv_shared": Words("(Q, V), shared: K uses Wq; as (K, V) shared", "(Q, V) 共用：K 用 Wq；即 (K, V) 共用"),
    "qv_removed": Words("(Q, V), removed: K is x", "(Q, V) 去掉：K 就是 x"),
    "kv_removed": Words("(K, V), removed: Q is x", "(K, V) 去掉：Q 就是 x"),
    "v_shared": Words("(V), shared: one matrix for all", "(V) 共用：三者同一个矩阵"),
    "v_removed": Words("(V), removed: Q and K are x", "(V) 去掉：Q 和 K 就是 x"),
}
POSITIONS: dict[PositionKind, Words] = {
    "none": Words("no positions", "没有位置"),
    "learned": Words("learned table", "学习的位置表"),
    "sinusoidal": Words("sinusoids", "正弦位置"),
    "rotary": Words("rotary", "旋转位置"),
}


@dataclass(frozen=True, kw_only=True)
class ProjectionsSettings(ReaderSettings):
    """Which tasks."""

    tasks: tuple[TaskName, ...] = ("copy",)
    """copy, previous, induction, brackets, neighbours, mlm."""


@dataclass(frozen=True, kw_only=True)
class OrderSettings(ReaderSettings):
    """Which kinds of positions."""

    tasks: tuple[TaskName, ...] = ("previous",)
    """copy, previous, induction, brackets, neighbours, mlm."""


Found = dict[str, dict[TaskName, list[Learned]]]
"""By row and task, one of each seed."""


def learn_mlm(variant: Variant, settings: ReaderSettings, seed: int) -> Learned:
    """Pre-train a small BERT with such attention; return its accuracy at masked tokens."""
    trained = pretrain(settings, seed, variant=variant)
    test = texts(np.random.default_rng(TEST_SEED), NUM_TEST_SENTENCES, are_pairs=False)
    accuracy = trained.measure(test)["mlm_accuracy"]
    return Learned(accuracy, num_parameters(trained.network.bert.encoder.blocks))


def learn_all(
    variants: Mapping[str, Variant], tasks: tuple[TaskName, ...], settings: ReaderSettings
) -> Found:
    """Train every variant on every task with every seed."""

    def learned(task: TaskName, variant: Variant, seed: int) -> Learned:
        if task == "mlm":
            return learn_mlm(variant, settings, seed)
        return learn(TOYS[task], variant, settings, seed)

    seeds = range(settings.num_seeds)
    return {
        name: {task: [learned(task, variant, seed) for seed in each(seeds)] for task in each(tasks)}
        for name, variant in each(tuple(variants.items()))
    }


def accuracies(found: Found, name: str, task: TaskName) -> list[float]:
    """Return the accuracy of each seed."""
    return [one.accuracy for one in found[name][task]]


def task_name(task: TaskName) -> Words:
    """Return a task's name in both languages."""
    return MLM if task == "mlm" else TOYS[task].name


def tables_and_plots(
    found: Found, names: Mapping[Any, Text], tasks: tuple[TaskName, ...], column: Text
) -> tuple[Table, tuple[Plot, ...]]:
    """Return the accuracies as a table, and a plot of each task."""
    rows = tuple(
        (
            names[name],
            by_task[tasks[0]][0].num_parameters,
            *(Estimate.of(accuracies(found, name, task)) for task in tasks),
        )
        for name, by_task in found.items()
    )
    columns = (column, Words("parameters", "参数"), *map(task_name, tasks))
    plots = tuple(
        Bars(
            Words("accuracy: {}", "准确率：{}").format(task_name(task)),
            tuple((names[name], Estimate.of(accuracies(found, name, task))) for name in found),
            is_share=True,
        )
        for task in tasks
    )
    return Table(
        Words("Accuracy on sequences that were not seen", "未见过的序列上的准确率"), columns, rows, digits=3
    ), plots


def same_or_better(found: Found, name: str, base: str, tasks: tuple[TaskName, ...]) -> tuple[Words, Verdict]:
    """Return each task's difference from ``base``, and whether ``name`` is as good on all of them."""
    gaps = {task: differences(accuracies(found, name, task), accuracies(found, base, task)) for task in tasks}
    verdicts = [gap.above(-NEAR) for gap in gaps.values()]
    words = Words(
        "; ".join(f"{task_name(task).en} {gap}" for task, gap in gaps.items()),
        "；".join(f"{task_name(task).zh} {gap}" for task, gap in gaps.items()),
    )
    if "does not hold" in verdicts:
        return words, "does not hold"
    return words, "unclear" if "unclear" in verdicts else "holds"


def run_projections(settings: ProjectionsSettings) -> Report:
    """Train networks with all three projections, and with some shared or removed."""
    found = learn_all({name: Variant(projections=name) for name in PROJECTIONS}, settings.tasks, settings)
    table, plots = tables_and_plots(found, PROJECTIONS, settings.tasks, Words("projections", "投影"))
    claims = []
    for name, words in PROJECTIONS.items():
        if name != "qkv":
            gaps, decided = same_or_better(found, name, "qkv", settings.tasks)
            statement = Words("{} does as well as (Q, K, V).", "“{}”与 (Q, K, V) 一样好。").format(words)
            claims.append(
                Claim(
                    notes("7.1"),
                    statement,
                    Words(
                        "after {} steps of training, accuracy minus that of (Q, K, V): {}",
                        "训练 {} 步之后，准确率减去 (Q, K, V) 的：{}",
                    ).format(settings.num_steps, gaps),
                    decided,
                )
            )
    return Report(
        meaning=PROJECTIONS_MEANING,
        tables=(table,),
        plots=plots,
        claims=tuple(claims),
        seeds=tuple(range(settings.num_seeds)),
    )


PROJECTIONS_MEANING = Words(
    "Without one of Wq and Wk, x Wq x^T is still a general bilinear form: the network can express as much, "
    "and the claims show how far it gets in the same number of steps. Sharing them makes the scores "
    "symmetric: who looks at whom becomes mutual, and tasks that need a direction suffer or need another "
    "block. With a single matrix, or none for the scores, tokens mostly find what resembles them.",
    "Wq 和 Wk 去掉一个，x Wq x^T 仍是一般的双线性形式：能表达的一样多，同样的步数能学到多少则见论断。"
    "共用则使分数对称：谁看谁变成相互的，需要方向的任务会变差，或者要多一个 block。"
    "只有一个矩阵，或者分数没有矩阵时，token 多半只能找到与自己相像的。",
)


def run_order(settings: OrderSettings) -> Report:
    """Train networks with and without positions."""
    found = learn_all({name: Variant(positions=name) for name in POSITIONS}, settings.tasks, settings)
    table, plots = tables_and_plots(found, POSITIONS, settings.tasks, Words("positions", "位置"))
    claims = tuple(
        gain_claim(
            found,
            ("sinusoidal", "none"),
            task,
            THEORY,
            Words(
                "Without positions attention cannot know the order ({}).",
                "没有位置，注意力不知道顺序（{}）。",
            ),
        )
        for task in settings.tasks
    )
    return Report(
        meaning=Words(
            "Attention sees a set: without positions, exchanging two other tokens changes nothing. Any of "
            "the three ways to add positions brings the order back.",
            "注意力看到的是集合：没有位置时，交换另外两个 token 什么也不会变。"
            "三种加位置的办法都能把顺序找回来。",
        ),
        tables=(table,),
        plots=plots,
        claims=claims,
        seeds=tuple(range(settings.num_seeds)),
    )


def gain_claim(found: Found, pair: tuple[str, str], task: TaskName, source: Text, statement: Words) -> Claim:
    """Return the claim that the first of a pair is better than the second on a task."""
    gain = differences(accuracies(found, pair[0], task), accuracies(found, pair[1], task))
    words = Words("accuracy, {} minus {}: {}", "准确率，{} 减 {}：{}").format(*pair, gain)
    return Claim(source, statement.format(task_name(task)), words, gain.above(NEAR))


LARGE = {"num_seeds": 5, "num_steps": 250, "num_layers": 2}
ONE_PLACE = ["copy", "previous", "induction", "brackets"]
"""Tasks whose answer is in one place."""
EXPERIMENTS = {
    "projections": Experiment(
        theory=Words(
            "Scores are x Wq Wk^T x^T. Without one of the two matrices this is still any bilinear form, up "
            "to its rank. With Wk = Wq it is symmetric: i looks at j as strongly as j at i, before softmax.",
            "分数是 x Wq Wk^T x^T。去掉其中一个矩阵，在秩允许的范围内仍是任意双线性形式。若 Wk = Wq，"
            "则分数对称："
            "softmax 之前，i 看 j 与 j 看 i 一样强。",
        ),
        settings=ProjectionsSettings,
        run=run_projections,
        large={**LARGE, "tasks": [*ONE_PLACE, "mlm"]},
    ),
    "order": Experiment(
        theory=Words(
            "Without positions, softmax(QK^T)V gives the same answer for any order of the keys.",
            "没有位置时，softmax(QK^T)V 对键的任何顺序给出同样的结果。",
        ),
        settings=OrderSettings,
        run=run_order,
        large={**LARGE, "tasks": ONE_PLACE},
    ),
}

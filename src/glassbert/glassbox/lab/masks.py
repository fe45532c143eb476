"""`lab masks`, `lab rates` and `lab pairs`: what to hide in pre-training, how much of it, and NSP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from glassbert.data.pretraining.masking import Masking
from glassbert.errors import UserError
from glassbert.glassbox.lab.estimate import Estimate, differences
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.result import Bars, Cell, Claim, Report, Table
from glassbert.glassbox.lab.small_language import (
    NUM_NOUNS,
    VOCABULARY,
    Pretrained,
    Texts,
    pretrain,
    probe,
    texts,
)
from glassbert.glassbox.lab.sources import OURS, notes
from glassbert.glassbox.lab.training import TEST_SEED, TrainingSettings
from glassbert.glassbox.lab.words import Text, Words
from glassbert.progress import each
from glassbert.ranges import Range

ARTICLE, NOUN = 1, 3
"""Where they are in a sentence, behind [CLS]."""
NUM_TEST = 600
Measures = dict[str, float]
MEASURES: dict[str, Words] = {
    "mlm_loss": Words("MLM loss", "MLM 损失"),
    "mlm_accuracy": Words("MLM accuracy", "MLM 准确率"),
    "identity": Words("says the word that is there", "说出眼前的词"),
    "copied": Words("repeats a wrong word", "照抄错词"),
    "restored": Words("restores it", "改回原词"),
    "context": Words("article knows the noun, plain text", "冠词知道名词，普通文本"),
    "context_masked": Words("the same, article masked", "同上，冠词被遮"),
}
SCHEMES: dict[str, Masking] = {
    "80/10/10": Masking(),
    "100/0/0": Masking(mask_prob=1.0, random_prob=0.0),
    "80/20/0": Masking(mask_prob=0.8, random_prob=0.2),
    "80/0/20": Masking(mask_prob=0.8, random_prob=0.0),
}
"""[MASK] / random token / unchanged."""


@dataclass(frozen=True, kw_only=True)
class MasksSettings(TrainingSettings):
    """Training with each scheme."""

    num_steps: Annotated[int, Range(1, 100_000)] = 80
    """Steps of training."""


@dataclass(frozen=True, kw_only=True)
class RatesSettings(TrainingSettings):
    """Which rates."""

    rates: tuple[Annotated[float, Range(0.01, 1.0)], ...] = (0.15, 0.3, 0.4)
    """Shares of the tokens to predict; the first is compared with the others."""


@dataclass(frozen=True, kw_only=True)
class PairsSettings(TrainingSettings):
    """Pairs of sentences."""

    num_steps: Annotated[int, Range(1, 100_000)] = 250
    """Steps of training; with fewer, NSP is not learned."""
    num_sequences: Annotated[int, Range(2, 4096)] = 64
    """Pairs of a step."""


def test_texts(*, are_pairs: bool) -> Texts:
    """Return sentences that every network is measured on."""
    return texts(np.random.default_rng(TEST_SEED), NUM_TEST, are_pairs=are_pairs)


def measure(trained: Pretrained) -> Measures:
    """Measure a network on text with and without [MASK], and on text with a wrong word."""
    test = test_texts(are_pairs=False)
    wrong = test.ids.copy()
    wrong[:, NOUN] = np.roll(wrong[:, NOUN], 1)
    is_wrong = wrong[:, NOUN] != test.ids[:, NOUN]
    guesses = trained.guesses(Texts(wrong, test.segments, test.is_random, test.nouns))[is_wrong, NOUN]
    masked = test.ids.copy()
    masked[:, ARTICLE] = VOCABULARY.mask_id
    return {
        **trained.measure(test),
        "identity": float((trained.guesses(test) == test.ids)[:, 1:-1].mean()),
        "copied": float((guesses == wrong[is_wrong, NOUN]).mean()),
        "restored": float((guesses == test.ids[is_wrong, NOUN]).mean()),
        "context": probe(trained.states(test.ids, test.segments)[:, ARTICLE], test.nouns, NUM_NOUNS),
        "context_masked": probe(trained.states(masked, test.segments)[:, ARTICLE], test.nouns, NUM_NOUNS),
    }


def _table(found: Mapping[str, list[Measures]], column: Words, names: Mapping[str, Words]) -> Table:
    def cell(measures: list[Measures], key: str) -> Cell:
        return Estimate.of([one[key] for one in measures]) if key in measures[0] else ""

    rows = tuple((name, *(cell(measures, key) for key in names)) for name, measures in found.items())
    title = Words("On sentences that were not seen", "未见过的句子上")
    return Table(title, (column, *names.values()), rows, digits=3)


def _plot(found: Mapping[str, list[Measures]], key: str, title: Text) -> Bars:
    bars = tuple((name, Estimate.of([one[key] for one in measures])) for name, measures in found.items())
    return Bars(title, bars, is_share=key != "mlm_loss")


def _gap(found: Mapping[str, list[Measures]], first: str, second: str, key: str) -> Estimate:
    return differences([one[key] for one in found[first]], [one[key] for one in found[second]])


def run_masks(settings: MasksSettings) -> Report:
    """Pre-train with each scheme."""
    seeds = tuple(range(settings.num_seeds))
    found = {
        name: [measure(pretrain(settings, seed, masking=masking)) for seed in each(seeds)]
        for name, masking in each(tuple(SCHEMES.items()))
    }
    return Report(
        meaning=MASKS_MEANING,
        tables=(_table(found, Words("[MASK]/random/same", "[MASK]/随机/不变"), MEASURES),),
        plots=(
            _plot(found, "identity", MEASURES["identity"]),
            _plot(found, "copied", MEASURES["copied"]),
            _plot(found, "context", MEASURES["context"]),
        ),
        claims=_mask_claims(found),
        seeds=seeds,
    )


def _mask_claims(found: Mapping[str, list[Measures]]) -> tuple[Claim, ...]:
    own = _gap(found, "80/10/10", "100/0/0", "identity")
    lazy = _gap(found, "80/0/20", "80/10/10", "copied")
    context = _gap(found, "80/10/10", "100/0/0", "context")
    loss = _gap(found, "80/10/10", "100/0/0", "mlm_loss")
    return (
        Claim(
            notes("3.1"),
            Words(
                "With 100% [MASK] the model cannot use the word itself.",
                "100% 用 [MASK]，模型就用不上这个词本身的信息。",
            ),
            Words(
                "says the word that is there, 80/10/10 minus 100/0/0: {}",
                "说出眼前的词，80/10/10 减 100/0/0：{}",
            ).format(own),
            own.above(0.0),
        ),
        Claim(
            notes("3.1"),
            Words(
                "If kept words are never wrong, the model gets lazy and copies what it sees.",
                "如果保留下来的词总是原词，模型会偷懒，照抄当前词。",
            ),
            Words(
                "repeats a wrong word, 80/0/20 minus 80/10/10: {}", "照抄错词，80/0/20 减 80/10/10：{}"
            ).format(lazy),
            lazy.above(0.0),
        ),
        Claim(
            notes("3.2"),
            Words(
                "With 100% [MASK], real words no longer take in their context.",
                "100% 用 [MASK]，正常的词就不再提取与上下文的依赖。",
            ),
            Words(
                "article knows the noun, 80/10/10 minus 100/0/0: {}",
                "冠词知道名词，80/10/10 减 100/0/0：{}",
            ).format(context),
            context.above(0.0),
        ),
        Claim(
            OURS,
            Words(
                "80/10/10 predicts masked words better than 100/0/0.",
                "预测被遮的词，80/10/10 比 100/0/0 好。",
            ),
            Words("MLM loss, 80/10/10 minus 100/0/0: {}", "MLM 损失，80/10/10 减 100/0/0：{}").format(loss),
            loss.below(0.0),
        ),
    )


MASKS_MEANING = Words(
    "The schemes differ in what the network does with words that it sees. Without unchanged words it does "
    "not learn to read the word at its own place. With unchanged words only, it repeats whatever is there, "
    "wrong words too; random words teach it to doubt. For filling in [MASK] itself the schemes differ far "
    "less.",
    "各种方案的差别在于网络怎样对待看得见的词。没有“不变”的词，它学不会读自己位置上的词；只有“不变”的词，"
    "它就照抄眼前的词，错词也抄；随机替换教它怀疑。至于填 [MASK] 本身，各方案差别小得多。",
)


def run_rates(settings: RatesSettings) -> Report:
    """Pre-train with each share of tokens to predict, as many steps each."""
    seeds = tuple(range(settings.num_seeds))
    if len(set(settings.rates)) < 2:
        raise UserError(f"rates={list(settings.rates)}; expected at least two different ones")
    found = {
        f"{rate:.0%}": [
            measure(pretrain(settings, seed, masking=Masking(select_prob=rate))) for seed in each(seeds)
        ]
        for rate in each(settings.rates)
    }
    base, *others = found
    claims = []
    for name in others:
        gap = _gap(found, name, base, "mlm_loss")
        claims.append(
            Claim(
                notes("2.2"),
                Words(
                    "{} learns faster than {}, because more tokens teach.",
                    "{} 比 {} 学得快，因为参与训练的 token 更多。",
                ).format(name, base),
                Words(
                    "MLM loss at 15% after as many steps, {} minus {}: {}",
                    "同样步数后 15% 遮盖下的 MLM 损失，{} 减 {}：{}",
                ).format(name, base, gap),
                gap.below(0.0),
            )
        )
    return Report(
        meaning=Words(
            "More masked tokens give more to learn from in a step, and less context to guess from. Which "
            "side wins is in the table; the loss of all networks is measured with the same 15% masked.",
            "遮得越多，每一步可学的越多，可供猜测的上下文越少。哪边占上风见表；所有网络都在同样遮 15% "
            "的文本上测量。",
        ),
        tables=(_table(found, Words("tokens to predict", "预测的比例"), MEASURES),),
        plots=(_plot(found, "mlm_loss", MEASURES["mlm_loss"]),),
        claims=tuple(claims),
        seeds=seeds,
    )


PAIR_MEASURES = {
    "mlm_loss": MEASURES["mlm_loss"],
    "relation": Words("[CLS] knows whether B belongs to A", "[CLS] 知道 B 是否属于 A"),
    "nsp_accuracy": Words("NSP accuracy", "NSP 准确率"),
}


def run_pairs(settings: PairsSettings) -> Report:
    """Pre-train on pairs with and without next sentence prediction."""
    seeds = tuple(range(settings.num_seeds))
    test = test_texts(are_pairs=True)
    found: dict[str, list[Measures]] = {}
    for name in each(("mlm", "mlm+nsp")):
        found[name] = []
        for seed in each(seeds):
            trained = pretrain(settings, seed, objective_name=name, are_pairs=True)
            states = trained.states(test.ids, test.segments)[:, 0]
            relation = {"relation": probe(states, test.is_random, 2)}
            found[name].append({**trained.measure(test), **relation})
    learned = Estimate.of([one["nsp_accuracy"] for one in found["mlm+nsp"]])
    gain = _gap(found, "mlm+nsp", "mlm", "relation")
    cost = _gap(found, "mlm+nsp", "mlm", "mlm_loss")
    return Report(
        meaning=Words(
            "In half of the pairs B has the topic of A. A network without NSP reads both sentences too; the "
            "table shows how much of their relation reaches [CLS] by itself, and what NSP adds and costs.",
            "一半的句对里 B 与 A 主题相同。没有 NSP 的网络同样读两句话；表中是它们的关系有多少自己到达 "
            "[CLS]，NSP 增加了什么、代价多少。",
        ),
        tables=(_table(found, Words("objective", "训练目标"), PAIR_MEASURES),),
        plots=(_plot(found, "relation", PAIR_MEASURES["relation"]),),
        claims=(
            Claim(
                notes("1.3"),
                Words("A model can learn whether B belongs to A.", "模型能学会 B 是否属于 A。"),
                Words("NSP accuracy {}, guessing has 0.5", "NSP 准确率 {}，随机猜是 0.5").format(learned),
                learned.above(0.5),
            ),
            Claim(
                notes("1.3"),
                Words(
                    "NSP is needed to understand how two sentences relate.", "理解两句话的关系需要 NSP 任务。"
                ),
                Words(
                    "relation read from [CLS], with minus without NSP: {}",
                    "从 [CLS] 读出关系，有 NSP 减无：{}",
                ).format(gain),
                gain.above(0.0),
            ),
            Claim(
                OURS,
                Words("NSP costs nothing in masked words.", "NSP 不影响填词。"),
                Words("MLM loss, with minus without NSP: {}", "MLM 损失，有 NSP 减无：{}").format(cost),
                cost.about(0.0, 0.05),
            ),
        ),
        seeds=seeds,
    )


_LARGE = {"num_seeds": 5, "num_steps": 400}
EXPERIMENTS = {
    "masks": Experiment(
        theory=Words(
            "[MASK] never occurs after pre-training. If every chosen token became [MASK], the network would "
            "have no reason to represent visible tokens; if the others were always right, it could copy "
            "them.",
            "[MASK] 只在预训练里出现。若选中的 token 全变成 [MASK]，网络没有理由表示看得见的 token；"
            "若其余的总是对的，照抄即可。",
        ),
        settings=MasksSettings,
        run=run_masks,
        large=_LARGE,
    ),
    "rates": Experiment(
        theory=Words(
            "A step teaches as many tokens as are hidden; each guess has as much context as is left.",
            "一步能教的 token 数等于被遮的数；每次猜测能用的上下文等于剩下的部分。",
        ),
        settings=RatesSettings,
        run=run_rates,
        large=_LARGE,
    ),
    "pairs": Experiment(
        theory=Words(
            "NSP asks [CLS] whether B follows A; MLM alone asks nothing of [CLS].",
            "NSP 让 [CLS] 判断 B 是否接着 A；只有 MLM 时，没有人问 [CLS] 任何问题。",
        ),
        settings=PairsSettings,
        run=run_pairs,
        large=_LARGE,
    ),
}

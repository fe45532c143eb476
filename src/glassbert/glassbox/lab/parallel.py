"""`lab parallel`: which parts of a Transformer compute all tokens at once, and which wait."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.forcing import Shape, at_once, in_steps, new_network, random_pair
from glassbert.glassbox.lab.result import Claim, Report, Table
from glassbert.glassbox.lab.sources import notes
from glassbert.glassbox.lab.waiting import Calls, Reach, changed_rows, count_calls
from glassbert.glassbox.lab.words import Words
from glassbert.ranges import Range


@dataclass(frozen=True, kw_only=True)
class ParallelSettings(Shape):
    """How long the target is."""

    length: Annotated[int, Range(2, 4096)] = 20
    """Tokens of the target."""


MEANING = Words(
    "Each part computes all tokens in one call whenever it knows all of them. In training that is always "
    "so. At inference it holds for the encoder; the decoder does not know the next token before it has "
    "written it, so it makes {} calls of one token. Only attention lets tokens depend on each other.",
    "只要全部 token 已知，每个部件都一次算完所有 token。训练时总是如此。预测时编码器也如此；"
    "解码器在写出下一个 token 之前并不知道它，所以要调用 {} 次，每次一个 token。只有注意力让 token "
    "之间互相依赖。",
)


def run_parallel(settings: ParallelSettings) -> Report:
    """Count calls and rows of each part, and which tokens each part makes depend on which."""
    length = settings.length
    network = new_network(settings, length, 0)
    source, target = random_pair(settings, length, 0)
    training = count_calls(network, lambda: at_once(network, source, target))
    inference = count_calls(network, lambda: in_steps(network, source, target))
    rows = tuple(
        (
            training[part].name,
            training[part].calls,
            training[part].rows,
            inference[part].calls,
            inference[part].rows,
        )
        for part in training
    )
    columns = (
        Words("part of a block", "部件"),
        Words("calls in training", "训练：调用次数"),
        Words("tokens a call", "每次 token 数"),
        Words("calls at inference", "预测：调用次数"),
        Words("tokens a call", "每次 token 数"),
    )
    changed = changed_rows(network, length)
    reach = tuple((one.name, one.num_changed, length, one.reason) for one in changed.values())
    reach_columns = (
        Words("part", "部件"),
        Words("tokens that change", "改变的 token 数"),
        Words("of", "共"),
        Words("because", "原因"),
    )
    loops = inference["decoder.self_attention"].calls
    return Report(
        meaning=MEANING.format(loops),
        tables=(
            Table(Words("Calls of each part of one block", "一个 block 各部件的调用"), columns, rows),
            Table(
                Words(
                    "Change one token in the middle: how many outputs change?",
                    "改动中间的一个 token，多少个输出会变？",
                ),
                reach_columns,
                reach,
            ),
        ),
        claims=(
            *_token_claims(changed, training["decoder.self_attention"], length),
            *_time_claims(training, inference, length),
        ),
    )


def _token_claims(changed: dict[str, Reach], attention: Calls, length: int) -> Iterator[Claim]:
    alone = [changed[part].num_changed for part in ("embedding", "feed_forward", "norm")]
    yield Claim(
        notes("12.1"),
        Words(
            "Embedding, feed-forward and Add & Norm treat tokens independently.",
            "Embedding、前馈、Add & Norm 各 token 互不依赖。",
        ),
        Words("a changed token changes {} output of each", "改动一个 token，各自只有 {} 个输出改变").format(
            max(alone)
        ),
        verdict(alone == [1, 1, 1]),
    )
    spread = changed["self_attention"].num_changed
    yield Claim(
        notes("12.1"),
        Words(
            "Self-attention makes tokens depend on each other, yet one matrix product computes all of them.",
            "self-attention 让 token 互相依赖，但矩阵运算可以一次算完。",
        ),
        Words(
            "{} of {} outputs change; {} call of {} tokens in training",
            "{} / {} 个输出改变；训练时 {} 次调用，{} 个 token",
        ).format(spread, length, attention.calls, attention.rows),
        verdict(spread == length and (attention.calls, attention.rows) == (1, length)),
    )
    behind = length - length // 2 - 1
    seen = changed["masked_self_attention"].num_changed
    yield Claim(
        notes("5.2"),
        Words(
            "The look-ahead mask hides the current token and what follows.",
            "look-ahead mask 遮住当前和之后的 token。",
        ),
        Words(
            "a changed token changes {} outputs, the {} behind it and its own: it sees itself. If it did "
            "not, the first row would have no key at all",
            "改动一个 token，{} 个输出改变：后面的 {} 个和它自己。它看得见自己；否则第一行一个键都没有",
        ).format(seen, behind),
        verdict(seen == behind),
    )


def _time_claims(training: dict[str, Calls], inference: dict[str, Calls], length: int) -> Iterator[Claim]:
    is_same = all(training[part] == inference[part] for part in training if part.startswith("encoder"))
    once = training["encoder.self_attention"]
    yield Claim(
        notes("12.3"),
        Words(
            "The encoder is as parallel at inference as in training.",
            "编码器在训练和测试阶段的并行化完全相同。",
        ),
        Words("{} call of {} tokens in both", "两者都是 {} 次调用，{} 个 token").format(
            once.calls, once.rows
        ),
        verdict(is_same),
    )
    of_decoder = [part for name, part in training.items() if name.startswith("decoder")]
    yield Claim(
        notes("12.2"),
        Words(
            "In training the decoder computes all target tokens at once too.",
            "训练阶段，解码器也一次算完目标的所有 token。",
        ),
        Words("each of its {} parts: {} call of {} tokens", "{} 个部件各 {} 次调用，{} 个 token").format(
            len(of_decoder), of_decoder[0].calls, of_decoder[0].rows
        ),
        verdict(all((part.calls, part.rows) == (1, length) for part in of_decoder)),
    )
    loops = inference["decoder.self_attention"].calls
    yield Claim(
        notes("12.2"),
        Words(
            "At inference the decoder loops once for each of {} tokens.",
            "预测时 {} 个 token 要循环同样多次。",
        ).format(length),
        Words("{} calls, {} in training", "{} 次调用，训练时 {} 次").format(
            loops, training["decoder.self_attention"].calls
        ),
        verdict(loops == length),
    )
    rows = inference["decoder.self_attention"].rows
    yield Claim(
        notes("12.2"),
        Words(
            "Each of these inputs is one token longer than the one before.",
            "每次的输入序列比上一次多一个 token。",
        ),
        Words(
            "no call has more than {} token: keys and values of earlier tokens are kept (`lab forcing` "
            "shows that the logits are the same)",
            "每次调用最多 {} 个 token：前面 token 的键和值留着用（`lab forcing` 表明 logits 相同）",
        ).format(rows),
        verdict(rows > 1),
    )


EXPERIMENTS = {
    "parallel": Experiment(
        theory=Words(
            "What does not depend on another result can be computed at the same time. A block waits for the "
            "block below; in decoding, a token waits for the token before it.",
            "互不依赖的结果可以同时计算。一个 block 要等下面的 block；解码时，一个 token 要等前一个 token。",
        ),
        settings=ParallelSettings,
        run=run_parallel,
        large={"hidden_size": 512, "num_layers": 6, "length": 100},
    ),
}

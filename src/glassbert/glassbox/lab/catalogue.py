"""The experiments by name: where each lives and what it asks. Listing imports nothing heavy."""

from typing import NamedTuple

from glassbert.arguments import checked
from glassbert.glassbox.lab.words import Words
from glassbert.sentence import Language


class Entry(NamedTuple):
    """An experiment in the list."""

    module: str
    """The file beside this one."""
    question: Words


CATALOGUE = {
    "linear": Entry(
        "linear",
        Words(
            "What does a linear layer compute, number by number, and how many parameters has it?",
            "一个全连接层逐个数字地算了什么？有多少参数？",
        ),
    ),
    "backprop": Entry(
        "backprop",
        Words(
            "How does a two-layer network compute its output, its gradients and its update, by hand?",
            "两层网络的前向、梯度和更新，手算是怎样的？",
        ),
    ),
    "unit": Entry(
        "real_model",
        Words(
            "What does one unit of a model's feed-forward layer compute?",
            "模型前馈网络的一个单元算了什么？",
        ),
    ),
    "cell": Entry(
        "real_model",
        Words(
            "How does one attention weight of a model come about?",
            "模型里的一个注意力权重是怎样算出来的？",
        ),
    ),
    "norm": Entry(
        "real_model",
        Words(
            "What does the gamma of a LayerNorm multiply?",
            "LayerNorm 的 gamma 到底乘在哪里？",
        ),
    ),
    "saturation": Entry(
        "saturation",
        Words(
            "What happens to softmax and to its gradient when its inputs grow?",
            "输入变大时，softmax 和它的梯度会怎样？",
        ),
    ),
    "variance": Entry(
        "variance",
        Words(
            "Why are dot products divided by sqrt(d_k)?",
            "点积为什么要除以 sqrt(d_k)？",
        ),
    ),
    "scale": Entry(
        "scale",
        Words(
            "What does training lose when dot products are not divided by sqrt(d_k)?",
            "点积不除以 sqrt(d_k)，训练会损失什么？",
        ),
    ),
    "waves": Entry(
        "waves",
        Words(
            "Is the sinusoid at pos + k a linear function of the one at pos?",
            "PE(pos+k) 是 PE(pos) 的线性函数吗？",
        ),
    ),
    "forcing": Entry(
        "forcing",
        Words(
            "Does feeding a whole target at once give the same logits as feeding it step by step?",
            "一次喂入整个目标序列，与逐步喂入，得到的 logits 相同吗？",
        ),
    ),
    "parallel": Entry(
        "parallel",
        Words(
            "Which computations of a Transformer must wait for each other, in training and in inference?",
            "Transformer 在训练和预测时，哪些计算必须互相等待？",
        ),
    ),
    "depth": Entry(
        "depth",
        Words(
            "What do residuals and LayerNorm do to the variance and to the gradient through the depth?",
            "残差和 LayerNorm 对方差、对梯度随深度的变化有什么作用？",
        ),
    ),
    "projections": Entry(
        "projections",
        Words(
            "Does attention need all of Q, K and V?",
            "注意力需要 Q、K、V 三者都有吗？",
        ),
    ),
    "heads": Entry(
        "heads",
        Words(
            "What do many heads give that one does not, at equal parameters?",
            "参数相同，多个头比一个头好在哪里？",
        ),
    ),
    "order": Entry(
        "projections",
        Words(
            "What can attention do without positions?",
            "没有位置，注意力能做什么？",
        ),
    ),
    "masks": Entry(
        "masks",
        Words(
            "Why are chosen tokens 80% [MASK], 10% random and 10% unchanged?",
            "选中的 token 为什么 80% 变 [MASK]、10% 随机、10% 不变？",
        ),
    ),
    "rates": Entry(
        "masks",
        Words(
            "Is it better to hide 15%, 30% or 40% of the tokens?",
            "遮 15%、30% 还是 40% 的 token 更好？",
        ),
    ),
    "pairs": Entry(
        "masks",
        Words(
            "What does next sentence prediction add?",
            "下一句预测带来了什么？",
        ),
    ),
    "recurrence": Entry(
        "recurrence",
        Words(
            "How do a Transformer and an LSTM differ in dependent steps, time and reach?",
            "Transformer 与 LSTM 在等待步数、时间和距离上有什么不同？",
        ),
    ),
    "recall": Entry(
        "bottleneck",
        Words(
            "How far away may a word be that a Transformer or an LSTM still finds?",
            "隔多远的词，Transformer 和 LSTM 还找得到？",
        ),
    ),
    "bottleneck": Entry(
        "bottleneck",
        Words(
            "What is lost when a whole source must pass through one vector?",
            "整个原文都要经过一个向量，会损失什么？",
        ),
    ),
}


@checked
def experiments(language: Language = "en") -> dict[str, str]:
    """Return the names of all experiments, each with the question it asks."""
    return {name: entry.question.in_language(language) for name, entry in CATALOGUE.items()}

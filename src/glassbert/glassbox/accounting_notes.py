"""Notes on a table of parameters, in English and in Chinese."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from glassbert.config import BertConfig, LstmConfig, TransformerConfig
from glassbert.glassbox.verify import StoredShapes
from glassbert.sentence import Language, in_language


@dataclass(frozen=True)
class Findings:
    """What the notes are about."""

    config: BertConfig | TransformerConfig | LstmConfig
    total: int
    includes: tuple[str, ...]
    excludes: Mapping[str, int]
    """What an encoder may carry and the total does not count, with its parameters."""
    stored: StoredShapes | None
    """The weight file that the table was verified against."""
    spare: tuple[str, ...]
    """What the file holds beyond what its architecture uses."""
    remarks: tuple[str, ...] = ()
    """What the readers of config.json and of the weights noticed."""
    is_preset: bool = False


def write_notes(language: Language, findings: Findings) -> tuple[str, ...]:
    """Return the notes, one paragraph each."""
    return tuple(note[language] for note in _notes(findings))


def _notes(findings: Findings) -> Iterator[dict[Language, str]]:
    yield _contents(findings)
    if findings.stored is not None:
        yield from _file(findings.stored, findings)
    for remark in findings.remarks:
        yield {"en": remark, "zh": in_language(remark, "zh")}
    config = findings.config
    if isinstance(config, BertConfig):
        yield from _of_encoder(config)
    else:
        yield from _of_translator(config, is_preset=findings.is_preset)


def _of_encoder(config: BertConfig) -> Iterator[dict[Language, str]]:
    yield _layer_norm(config.hidden_size)
    if config.tie_word_embeddings:
        yield _tie("MLM decoder", "MLM 的解码矩阵", config.vocab_size * config.hidden_size)
    if config.positions != "learned":
        yield _POSITIONS
    yield _OPERATIONS
    yield _activations(config)


def _of_translator(
    config: TransformerConfig | LstmConfig, *, is_preset: bool
) -> Iterator[dict[Language, str]]:
    width = config.hidden_size if isinstance(config, LstmConfig) else config.encoder.hidden_size
    yield _layer_norm(width)
    yield _SHARED
    if isinstance(config, LstmConfig) or config.encoder.tie_word_embeddings:
        yield _tie("output", "输出矩阵", config.vocab_size * width)
    if isinstance(config, LstmConfig):
        yield _GATES
    elif config.encoder.positions != "learned":
        yield _POSITIONS
    if is_preset:
        yield _vocabulary(config.vocab_size)
    yield _NO_COSTS


def _contents(findings: Findings) -> dict[Language, str]:
    included = ", ".join(findings.includes)
    excluded = ", ".join(f"{name} ({count:,})" for name, count in findings.excludes.items())
    return {
        "en": f"The total counts: {included}." + (f" It does not count: {excluded}." if excluded else ""),
        "zh": f"总数包含：{included}。" + (f"不包含：{excluded}。" if excluded else ""),
    }


def _file(stored: StoredShapes, findings: Findings) -> Iterator[dict[Language, str]]:
    yield {
        "en": f"Verified against the file: its {len(stored.shapes)} tensors have the shapes that config.json "
        f"predicts and hold {findings.total:,} numbers, the total.",
        "zh": f"已与权重文件核对：{len(stored.shapes)} 个张量的形状与 config.json 推算的完全一致，"
        f"共 {findings.total:,} 个数，等于总数。",
    }
    if stored.repeated:
        names = ", ".join(stored.repeated)
        yield {
            "en": f"Stored twice in the file, counted once: {names}.",
            "zh": f"文件里存了两份、只计一次的张量：{names}。",
        }
    if stored.buffers:
        names = ", ".join(stored.buffers)
        yield {
            "en": f"In the file but not weights, not counted: {names}.",
            "zh": f"文件里有、但不是权重、未计入的张量：{names}。",
        }
    if findings.spare:
        names = ", ".join(findings.spare)
        yield {
            "en": f"The file also holds what its architecture does not use; it is counted: {names}.",
            "zh": f"文件里还有该模型结构用不到的部分，也已计入：{names}。",
        }


def _layer_norm(width: int) -> dict[Language, str]:
    return {
        "en": "What LayerNorm's parameters multiply: the vector of one token has "
        f"{width} features. Their mean and standard deviation are taken over these {width} values alone, "
        "not over other tokens and not over the batch; the mean is subtracted and the result divided by "
        "the deviation. Then feature j is multiplied by gamma[j], and beta[j] is added. So there is one "
        f"gamma and one beta per feature, 2 x {width} = {2 * width:,} numbers, and the same numbers serve "
        "every position of every text: their count does not depend on the length.",
        "zh": "LayerNorm 的参数乘在哪里："
        f"一个 token 的向量有 {width} 个特征，均值和标准差只在它自己的这 {width} 个值上计算，"
        "与其他 token 无关，也与同批的其他文本无关；先减均值，再除以标准差。"
        "然后第 j 个特征乘以 gamma[j]，再加上 beta[j]。"
        f"所以每个特征各有一个 gamma 和一个 beta，共 2 x {width} = {2 * width:,} 个数；"
        "所有文本的所有位置共用这一组数，因此参数量与序列长度无关。",
    }


def _tie(layer: str, matrix: str, count: int) -> dict[Language, str]:
    return {
        "en": f"The {layer} uses the token embedding's matrix, {count:,} numbers, which is counted "
        f"once, with the embeddings; the {layer.split()[-1]} itself only has one bias per piece of the "
        "vocabulary.",
        "zh": f"{matrix}就是 token 嵌入矩阵（{count:,} 个数），只在嵌入层计一次；"
        "这一层自己的参数只有偏置，词表中每个词片一个。",
    }


def _vocabulary(size: int) -> dict[Language, str]:
    return {
        "en": f"A preset is counted with {size:,} pieces; training learns vocabulary.size of them, "
        "and the token embedding and the output grow with them.",
        "zh": f"预设按 {size:,} 个词片计；训练时词表大小由 vocabulary.size 决定，"
        "token 嵌入和输出层随之变化。",
    }


_POSITIONS: dict[Language, str] = {
    "en": "Positions are computed, not learned: they have no parameters.",
    "zh": "位置信息由公式算出，不是学出来的，没有参数。",
}

_SHARED: dict[Language, str] = {
    "en": "Source and target share one vocabulary and one token embedding, which is counted once.",
    "zh": "原文和译文共用一个词表和一个 token 嵌入矩阵，只计一次。",
}

_GATES: dict[Language, str] = {
    "en": "A layer of an LSTM has four gates; each has a matrix and a bias for its input, and a matrix and a "
    "bias for the state of the token before. The encoder's layers have them for each direction, which has "
    "half the width.",
    "zh": "LSTM 的一层有四个门，每个门对输入和对前一个 token 的状态各有一个矩阵和一个偏置。"
    "编码器的每一层在两个方向上各有一套，每个方向的宽度是一半。",
}

_NO_COSTS: dict[Language, str] = {
    "en": "Operations and activation memory are not given for translators: they depend on two lengths.",
    "zh": "翻译模型不给出运算量和激活内存：它们取决于原文和译文两个长度。",
}

_OPERATIONS: dict[Language, str] = {
    "en": "Operations are those of matrix products; a multiplication and an addition count as two. "
    "Training takes three times the forward pass by the usual rule: the backward pass computes two "
    "gradients for every product, of its input and of its weight.",
    "zh": "运算量只计矩阵乘法，一次乘法加一次加法算两次运算。训练按惯例取前向的三倍："
    "反向时每个乘法都要再算两次，一次求输入的梯度，一次求权重的梯度。",
}


def _activations(config: BertConfig) -> dict[Language, str]:
    english = (
        "Activations are float32, in our own network on a CPU. Inference: the most that is alive at once "
        "on the fast path, which never holds a matrix of scores. Training: what autograd keeps of "
        "embeddings and blocks until the backward pass, dropout included."
    )
    chinese = (
        "激活内存指本项目的网络在 CPU 上以 float32 运行时的用量。"
        "推理：快速路径上同时存活的最大量，快速路径从不保存注意力分数矩阵。"
        "训练：autograd 为反向传播保留的嵌入层和各个 block 的中间结果，包括 dropout。"
    )
    if config.attention_probs_dropout_prob:
        english += (
            " Dropout on attention makes each head keep three rows of L numbers per token; 0 saves them."
        )
        chinese += "注意力 dropout 使每个头为每个 token 保留三行长度为 L 的数；设为 0 即可省下。"
    return {"en": english, "zh": chinese}

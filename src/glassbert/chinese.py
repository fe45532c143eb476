"""Every `Sentence` in Chinese: the English template, and the Chinese one with the same slots."""

from collections.abc import Mapping

CHINESE: Mapping[str, str] = {
    # Lists and numbers
    "{names} and {num_more:,} more": "{names} 等，另有 {num_more:,} 个",
    # The doctor: files
    "fetch or write the folder again": "请重新下载或重新写出这个目录",
    "as a {kind}": "可以作为 {kind} 加载",
    "a {kind}": "{kind} 模型",
    "{family}, as {file} says": "{family}，见 {file}",
    "{file} names no architecture; by its tensors, the head is {head!r}": (
        "{file} 没有写明架构；从张量看，输出头是 {head!r}"
    ),
    "unknown keys of {file} ignored: {names}": "{file} 中有不认识的键，已忽略：{names}",
    "{count} tensors had an older spelling": "{count} 个张量用的是旧名字",
    "{count} optimiser variables skipped": "跳过了 {count} 个优化器变量",
    "unexpected variable {name}, left out": "多出变量 {name}，未读取",
    "the model cannot be loaded": "模型无法加载",
    "{folder}: {name} holds NaN or infinity; the checkpoint is damaged": (
        "{folder}：{name} 中有 NaN 或无穷大；检查点已损坏"
    ),
    "{folder}: {name} has shape {found}; config.json asks for {wanted}": (
        "{folder}：{name} 的形状是 {found}；config.json 要求 {wanted}"
    ),
    "{folder}: the vocabulary has {num_pieces} pieces, but the model has {num_rows} rows; use the "
    "vocabulary that the model was trained with": (
        "{folder}：词表有 {num_pieces} 个词片，模型却有 {num_rows} 行；请使用训练该模型时的词表"
    ),
    # The doctor: tokenizer and labels
    "{num_pieces:,} pieces, but the embedding has {num_rows:,} rows": (
        "词表有 {num_pieces:,} 个词片，嵌入却只有 {num_rows:,} 行"
    ),
    "use the vocabulary that the model was trained with": "请使用训练该模型时的词表",
    "outside the vocabulary": "在词表之外",
    "config.json pads with id {pad} ({there}), the vocabulary's [PAD] is {pad_id}": (
        "config.json 用编号 {pad}（{there}）填充，词表的 [PAD] 却是 {pad_id}"
    ),
    "one of the two files is another model's": "两个文件中有一个属于别的模型",
    "assumed: {assumption}": "假定：{assumption}",
    "text is not lower-cased: no file says so, but the vocabulary holds {piece!r}": (
        "文本不转为小写：没有文件说明，但词表里有 {piece!r}"
    ),
    "text is lower-cased: no file says so, but no word of the vocabulary has a capital letter": (
        "文本转为小写：没有文件说明，但词表里没有带大写字母的词"
    ),
    "rows that no text can give do not matter: {file} differs in {count} of them, such as row {row}, "
    "{found!r} instead of {wanted!r}": (
        "任何文本都用不到的行无关紧要：{file} 有 {count} 行这样的不同，例如第 {row} 行是 {found!r}，"
        "而不是 {wanted!r}"
    ),
    "add tokenizer_config.json if it is wrong": "如果不对，请补上 tokenizer_config.json",
    "takes {max_length} tokens, the position table has {num_positions}": (
        "tokenizer 最多给出 {max_length} 个 token，位置表只有 {num_positions} 行"
    ),
    "texts are cut at the table's length": "文本会按位置表的长度截断",
    "{num_pieces:,} pieces for {num_rows:,} rows": "{num_pieces:,} 个词片对应 {num_rows:,} 行",
    "{figure}, {num_spare:,} rows to spare": "{figure}，多出 {num_spare:,} 行",
    "the same name twice among {count}": "{count} 个标签里有重名",
    "correct id2label": "请改正 id2label",
    "{count} without names (LABEL_0 ...)": "{count} 个标签没有名称（LABEL_0 ...）",
    "name them in id2label": "请在 id2label 中命名",
    # The doctor: tensors
    "{count} missing: {names}": "缺少 {count} 个：{names}",
    "{figure} (the file has {guess})": "{figure}（文件里有 {guess}）",
    "the weights do not fit config.json; copy both again": "权重与 config.json 不符；请重新复制这两个文件",
    "{count} unexpected: {names}": "多出 {count} 个：{names}",
    "they are not used": "它们不会被使用",
    "{name} {found} instead of {wanted}": "{name} 的形状是 {found}，应为 {wanted}",
    "{count} wrong: {names}": "{count} 个不对：{names}",
    "config.json is another model's; copy both": "config.json 属于别的模型；请把两个文件一起复制",
    "{count} of {count} as expected": "{count} 个张量全部齐全",
    "{count:,} NaN or infinite in {names}": "{names} 中有 {count:,} 个数是 NaN 或无穷大",
    "take an earlier checkpoint; the run diverged or the file is damaged": (
        "请用更早的检查点；训练已发散，或文件已损坏"
    ),
    "very large: {names}": "数值非常大：{names}",
    "half precision overflows above 65,504": "超过 65,504 时半精度会溢出",
    "all the same in {names}": "其中的数全都相同：{names}",
    "load the weights again": "请重新加载权重",
    "all finite, the largest {largest:.3g}": "全是有限的数，最大的是 {largest:.3g}",
    "none of {count} layers is still as initialised": "{count} 层都已离开初始值",
    "no layer has been trained: a fresh model": "没有一层训练过：这是新建的模型",
    "train it": "请先训练",
    "{count} of {total} layers are still as initialised: {names}": (
        "{total} 层中有 {count} 层仍是初始值：{names}"
    ),
    "fine-tune it, or load the weights that belong there": "请微调，或加载应有的权重",
    "fine if nothing uses them": "如果没有地方用到它们，就没有问题",
    # The doctor: units and heads
    "{share:.1%} of the feed-forward units are silent on the probe": (
        "在试读文本上，{share:.1%} 的前馈单元没有反应"
    ),
    "dead feed-forward units: {layers}": "没有反应的前馈单元：{layers}",
    "train with a lower rate, or from earlier weights": "请降低学习率，或从更早的权重开始训练",
    "the probe is too short to see where heads look": "试读文本太短，看不出注意力头在看哪里",
    "{num_uniform} uniform and {num_saturated} saturated of {num_heads}": (
        "{num_heads} 个头中，{num_uniform} 个平均地看所有 token，{num_saturated} 个只看一个"
    ),
    "every head looks at one token in {layers}; {figure}": "{layers} 的所有头都只看一个 token；{figure}",
    "queries or keys are far too large: take earlier weights": "查询或键过大：请用更早的权重",
    "every head looks everywhere in {layers}; {figure}": "{layers} 的所有头都平均地看所有 token；{figure}",
    "queries and keys may not have been loaded: compare the names of the tensors": (
        "查询和键可能没有加载：请核对张量的名称"
    ),
    "usual for a fresh model only": "只有新建的模型才会这样",
    "look at them": "请查看这些头",
    "{figure}; mean entropy {mean:.0%} of the largest": "{figure}；平均熵为最大值的 {mean:.0%}",
    # The doctor: one input, one answer
    "not a number on the probe": "在试读文本上算出了 NaN 或无穷大",
    "see the verdict on its numbers above": "请看上面关于权重数值的结论",
    "the fast path and the formula": "快速路径与公式",
    "use --precision float32; report it": "请用 --precision float32，并报告此问题",
    "a batch and single texts": "成批计算与逐条计算",
    "do not trust answers of a batch; report it": "不要相信成批计算的结果；请报告此问题",
    "{what} differ by {apart:.1e} of the largest number": "{what}，两者之差是最大数的 {apart:.1e}",
    "what follows a text in its batch changes its answer by {apart:.1e} of the largest number": (
        "文本后面的填充使结果改变了最大数的 {apart:.1e}"
    ),
    "check which tokens the mask hides; report it": "请检查掩码遮住了哪些 token，并报告此问题",
    "something random is on outside of training; report it": "训练之外仍有随机操作；请报告此问题",
    "two passes without dropout differ": "两次不带 dropout 的计算结果不同",
    "dropout {probability:g} changes outputs by {share:.0%}; without it they repeat": (
        "dropout {probability:g} 使输出改变 {share:.0%}；不用它时结果可以重复"
    ),
    "the network is in training mode; {figure}": "网络处于训练模式；{figure}",
    "call network.eval()": "请调用 network.eval()",
    "so much dropout leaves little to learn from": "dropout 过大，几乎学不到东西",
    # The doctor: what moved
    "no tensor has the base's shape: {names}": "没有一个张量的形状与基础模型相同：{names}",
    "name the model that it was trained from": "请给出它训练时所用的基础模型",
    "none of {count} tensors moved": "{count} 个张量都没有变动",
    "the encoder was frozen, or this is the base itself": "编码器被冻结了，或者这就是基础模型本身",
    "the matrices of both have a cosine of {cosine:.3f}: nothing is left of the base": (
        "两个模型的矩阵余弦为 {cosine:.3f}：基础模型的内容一点不剩"
    ),
    "this is not the model that it was trained from": "这不是它训练时所用的基础模型",
    "moved by {share:.2%} of their size: {groups}": "变动量为自身大小的 {share:.2%}：{groups}",
    "{count} of {total} tensors never moved: {names}": "{total} 个张量中有 {count} 个从未变动：{names}",
    "fine if they were frozen or nothing reads them": "如果它们被冻结，或没有地方读取，就没有问题",
    "of another shape: {names}": "形状不同：{names}",
    "fine if the vocabulary was extended": "如果扩充过词表，就没有问题",
    # The doctor: data
    "{path}: no text in it": "{path}：里面没有文本",
    "is it the right file?": "是不是给错了文件？",
    "{num_rows:,} of {total:,} rows looked at, {num_bad:,} bad": (
        "查看了 {total:,} 行中的 {num_rows:,} 行，{num_bad:,} 行是坏行"
    ),
    "the first: {where}": "第一处：{where}",
    "{count:,} of {total:,} rows have a label it knows": "{total:,} 行中有 {count:,} 行的标签是模型认识的",
    "{count:,} of {total:,} tokens ({share:.2%})": "{total:,} 个 token 中有 {count:,} 个（{share:.2%}）",
    "the vocabulary does not fit the text; see `vocab extend`": "词表与文本不符；见 `vocab extend`",
    "{count:,} of {total:,} texts ({share:.1%}) are longer than the model takes": (
        "{total:,} 段文本中有 {count:,} 段（{share:.1%}）超过模型能读的长度"
    ),
    "read them in windows: task.long_text='window'": "请分窗口读取：task.long_text='window'",
    "{names} in the data, not in the model ({hint})": "数据里有 {names}，模型里没有（{hint}）",
    "nearest: {label!r}": "最接近的是 {label!r}",
    "the model has {names}": "模型有 {names}",
    "rename them, or correct id2label in config.json": "请改名，或改正 config.json 里的 id2label",
    "{names} not in the data": "数据里没有 {names}",
    "measure it on rows that have it": "请用包含它的数据来评测",
    "{count} of {total} labels, all known": "{total} 个标签中出现了 {count} 个，模型都认识",
    "{num_rows:,} rows": "{num_rows:,} 行",
    "{metric} {value:.4f} on {rows}": "{rows}上的 {metric} 为 {value:.4f}",
    "check the label map and the learning rate": "请检查标签的对应关系和学习率",
    "confidence and accuracy differ by {gap:.3f} on average": "置信度与准确率平均相差 {gap:.3f}",
    "do not read scores as probabilities; give such rows to training as --dev": (
        "不要把得分当作概率；训练时请用 --dev 给出这样的数据"
    ),
    # Alarms of an evaluation
    "no question is answered": "没有一个问题得到回答",
    "no span is found": "没有找到任何片段",
    "every text gets the same number": "每段文本得到的数都相同",
    "no text gets a label": "没有一段文本得到标签",
    "every text gets the label {label!r}": "每段文本得到的标签都是 {label!r}",
    "worse than always guessing {label!r}, which is right for {share:.1%}": (
        "还不如总是猜 {label!r}，那样能对 {share:.1%}"
    ),
    # Why
    "log-odds": "对数几率",
    "share": "份额",
    "cosine": "余弦",
    "score": "得分",
    "block {layer} head {head}": "block {layer} 的头 {head}",
    "block {layer}": "block {layer}",
    "after block {layer}": "block {layer} 之后",
    "embeddings": "嵌入",
    "label {label!r}": "标签 {label!r}",
    "{words!r} as {label}": "把 {words!r} 标为 {label}",
    "answer {words!r}, its start and its end": "答案 {words!r}，它的起点和终点",
    "no answer": "没有答案",
    "attention says where a layer looked, not what decided: check it by occlusion or gradients": (
        "注意力只说明某一层看了哪里，不说明答案由什么决定；请用遮挡或梯度核对"
    ),
    "{count:,} tokens were cut: the model never saw them": "有 {count:,} 个 token 被截去：模型没有看到它们",
    "read in {count} windows, whose logits are averaged": "分 {count} 个窗口读取，logits 取平均",
    "one of {count} windows: the one that gave this answer": "共 {count} 个窗口，这里是给出这个答案的那一个",
    "the CRF's scores of which tag follows which are not part of this number": (
        "CRF 对标记先后次序的打分不计入这个数"
    ),
    "no rjieba: each Chinese character counts as a word; name a segmenter": (
        "没有安装 rjieba，每个汉字算一个词；请指定分词器"
    ),
    "a model with a {head!r} head gives no answer to explain; fine-tune it, or use one with an MLM head": (
        "输出头为 {head!r} 的模型没有可以解释的答案；请先微调，或换一个带 MLM 头的模型"
    ),
    "the text has no [MASK]; write [MASK] where the model is to fill in a word": (
        "文本里没有 [MASK]；请在要模型填词的地方写上 [MASK]"
    ),
    "the model finds no span here; name a part of the text, or TEXT=LABEL, as the target": (
        "模型在这里没有找到片段；请把文本的一部分或 TEXT=LABEL 作为目标"
    ),
    "text {number}: the text is empty; give one to explain": "文本 {number} 是空的；请给出要解释的文本",
    "`why` knows classify, pair, tag, answer and fill; the model does {task}": (
        "`why` 能解释 classify、pair、tag、answer 和 fill；这个模型做的是 {task}"
    ),
    "the model's answer is not a number; run `glassbert doctor` on it": (
        "模型的答案不是数；请运行 `glassbert doctor` 检查"
    ),
    # Refusals of the page
    "{reason}; Health says more": "{reason}；详见“体检”页",
    "a model with a {head!r} head has no loss; name a number instead, such as target='enc.out[0, 5]'": (
        "输出头为 {head!r} 的模型没有损失；请改为指定一个数，例如 target='enc.out[0, 5]'"
    ),
    "{name} has a number that is NaN or infinite, and all before it were finite; "
    "check the weights with `glassbert doctor`": (
        "{name} 中有 NaN 或无穷大，它之前的数都是有限的；请用 `glassbert doctor` 检查权重"
    ),
    "a translator reads one text; give its translation as the target": (
        "翻译模型只读一段文本；请把译文作为目标"
    ),
    "the target has {count} tokens with its end, but the model reads {limit}; shorten it": (
        "目标连同结束符有 {count} 个 token，模型最多读 {limit} 个；请缩短"
    ),
    "max_length={length}; this model reads at most {limit}": (
        "长度为 {length}；这个模型最多读 {limit} 个 token"
    ),
    "{file}: this model has no task to judge rows by; open one that was fine-tuned": (
        "{file}：这个模型没有任务，无法评判各行；请打开一个微调过的模型"
    ),
    "{file}: no row has a label; the worst rows cannot be found": (
        "{file}：没有一行带标签，无法找出最差的行"
    ),
    "this kind of translator has no one table of token vectors; open a Transformer": (
        "这种翻译模型的 token 向量不在同一张表里；请打开一个 Transformer"
    ),
    "some token vectors are not numbers: a map cannot be drawn; see Health": (
        "有些 token 向量不是数，画不出分布图；请看“体检”页"
    ),
    "only the shape of a BERT can be changed here; choose one of its presets": (
        "这里只能改变 BERT 的形状；请选择它的一个预设"
    ),
    "{run} has no {saved!r} now; choose one of those listed": ("{run} 里现在没有 {saved!r}；请从列表中选择"),
    "this run learns a task, not hidden tokens; its examples are rows of a file": (
        "这次运行学的是任务，不是被遮住的 token；它的样本是文件里的行"
    ),
    "the corpus of this run, {corpus}, cannot be read from here, so its examples are not shown; "
    "curves and weights need no corpus": (
        "这里读不到这次运行的语料 {corpus}，所以不显示样本；曲线和权重不需要语料"
    ),
    "the objective {name} hides no tokens that could be shown here": (
        "训练目标 {name} 没有遮住任何可以在这里显示的 token"
    ),
}

"""The worked example of the article "Bert模型剖析", as printed there, and where it has errors."""

from glassbert.glassbox.lab.words import Words

PRINTED: dict[str, str] = {
    "hidden1": "0.5932699921",
    "hidden2": "0.5968843782",
    "output1": "0.7513650695",
    "output2": "0.7729284653",
    "loss": "0.2983711087",
    "slope of output1": "0.186815589",
    "d loss/d w5": "0.0821670349",
    "d loss/d w6": "0.0826676221",
    "d loss/d w7": "-0.0226025404",
    "d loss/d w8": "-0.0227402422",
    "d loss/d b3": "0.1384985521",
    "d loss/d b4": "-0.0380982365",
    "w5 after": "0.3589164825",
    "w6 after": "0.4086661889",
    "w7 after": "0.5113012702",
    "w8 after": "0.5613701211",
    "b3 after": "0.5307507239",
    "b4 after": "0.6190491182",
    "d loss/d hidden1": "0.0363503025",
    "d loss/d w1": "0.0004385676",
    "d loss/d w2": "0.0008771353",
    "d loss/d w3": "0.0004977126",
    "d loss/d w4": "0.0009954253",
    "d loss/d b1": "0.0087713537",
    "d loss/d b2": "0.0099542536",
    "w1 after": "0.1497807162",
    "w2 after": "0.1995614323",
    "w3 after": "0.2497511437",
    "w4 after": "0.2995022873",
    "b1 after": "0.3456143231",
    "b2 after": "0.3450228732",
}
"""What the article gives for each quantity; d loss/d b4 is printed there under the name of w4."""

LOST_DIGIT = (0.751365095, 0.7513650695)
"""Output1 inside the article's derivative, and as the article computed it."""
SLIP = Words("d loss/d w5 = 0.0821670349.", "d loss/d w5 = 0.0821670349。")
SLIP_FOUND = Words(
    "it is {exact:.10f}. In output1*(1-output1) the article writes 0.751365095: a digit of 0.7513650695 was "
    "lost, and that gives {wrong:.10f}. What follows from it is off by up to 1e-8",
    "应为 {exact:.10f}。文章在 output1*(1-output1) 里写成 0.751365095，0.7513650695 丢了一位数字，"
    "由此得到 {wrong:.10f}；往后的数最多差 1e-8",
)
WRONG_NAME = Words(
    "In the output layer, d loss/d w4 = -0.0380982365.", "输出层里 d loss/d w4 = -0.0380982365。"
)
WRONG_NAME_FOUND = Words(
    "that is d loss/d b4; w4 belongs to the hidden layer, and d loss/d w4 = {w4:.10f}",
    "那是 d loss/d b4；w4 属于隐藏层，d loss/d w4 = {w4:.10f}",
)
OLD_WEIGHTS = Words(
    "The output layer is updated first, yet the hidden layer's gradients use the old W2.",
    "虽然先更新了输出层，隐藏层的梯度用的仍是旧的 W2。",
)
OLD_WEIGHTS_FOUND = Words(
    "d loss/d hidden1 is {old:.10f}, and the article's 0.0363503025 is near it; the updated W2 would give "
    "{new:.10f}",
    "d loss/d hidden1 是 {old:.10f}，文章的 0.0363503025 与它接近；若用更新后的 W2 则得 {new:.10f}",
)

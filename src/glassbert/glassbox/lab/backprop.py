"""`lab backprop`: one step of training by hand, every product and sum with its numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

import torch
import torch.nn.functional as F

from glassbert.errors import UserError
from glassbert.glassbox.lab.article import (
    LOST_DIGIT,
    OLD_WEIGHTS,
    OLD_WEIGHTS_FOUND,
    PRINTED,
    SLIP,
    SLIP_FOUND,
    WRONG_NAME,
    WRONG_NAME_FOUND,
)
from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.network import (
    ACTIVATIONS,
    LOSSES,
    ActivationName,
    Gradients,
    LossName,
    Network,
    Pass,
    Rows,
    Vector,
    Weights,
)
from glassbert.glassbox.lab.result import Claim, Report, Steps, Table
from glassbert.glassbox.lab.words import Words
from glassbert.glassbox.lab.written_out import (
    Names,
    forward_lines,
    hidden_lines,
    output_lines,
    update_lines,
)

NUMERIC_STEP = 1e-5
TORCH_ACTIVATIONS: dict[ActivationName, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "relu": F.relu,
    "gelu": F.gelu,
    "identity": torch.clone,
}
ARTICLE = Words("article", "文章")


@dataclass(frozen=True, kw_only=True)
class BackpropSettings:
    """A network of two layers, its input and its target. The defaults are the article's."""

    inputs: Vector = (0.05, 0.1)
    """What the network reads."""
    target: Vector = (0.01, 0.99)
    """What it should answer."""
    weights1: Rows = ((0.15, 0.20), (0.25, 0.30))
    """A row of weights for each hidden unit."""
    bias1: Vector = (0.35, 0.35)
    """One for each hidden unit."""
    weights2: Rows = ((0.40, 0.45), (0.50, 0.55))
    """A row of weights for each output."""
    bias2: Vector = (0.60, 0.60)
    """One for each output."""
    learning_rate: float = 0.5
    """How far the update goes against the gradient."""
    activation: ActivationName = "sigmoid"
    """Of both layers: sigmoid, tanh, relu, gelu or identity."""
    loss: LossName = "half_squares"
    """half_squares, mean_squares, or cross_entropy, which needs sigmoid and targets from 0 to 1."""

    def __post_init__(self) -> None:
        _check_layer("1", self.weights1, self.bias1, len(self.inputs))
        _check_layer("2", self.weights2, self.bias2, len(self.bias1))
        if len(self.target) != len(self.bias2):
            raise UserError(f"target has {len(self.target)} numbers, and there are {len(self.bias2)} outputs")
        if self.loss == "cross_entropy":
            if self.activation != "sigmoid":
                raise UserError("loss=cross_entropy needs outputs between 0 and 1; set activation=sigmoid")
            if not all(0 <= value <= 1 for value in self.target):
                raise UserError(f"target={list(self.target)}; cross_entropy expects numbers from 0 to 1")
        _check_finite(self.inputs, self.target, self.weights().flat(), (self.learning_rate,))

    def network(self) -> Network:
        """Return the network without its parameters."""
        return Network(self.inputs, self.target, ACTIVATIONS[self.activation], LOSSES[self.loss])

    def weights(self) -> Weights:
        """Return the parameters."""
        return Weights(self.weights1, self.bias1, self.weights2, self.bias2)


def _check_layer(number: str, weights: Rows, bias: Vector, num_inputs: int) -> None:
    if not num_inputs or not bias:
        raise UserError(f"layer {number} is empty; expected at least one input and one unit")
    if len(weights) != len(bias):
        raise UserError(
            f"weights{number} has {len(weights)} rows and bias{number} {len(bias)} numbers; expected as many"
        )
    for row in weights:
        if len(row) != num_inputs:
            raise UserError(
                f"a row of weights{number} has {len(row)} numbers; expected {num_inputs}, one per input"
            )


def _check_finite(*vectors: Vector) -> None:
    for value in (value for vector in vectors for value in vector):
        if not isfinite(value) or abs(value) > 1e6:
            raise UserError(f"{value!r} among the numbers; expected finite ones of at most 1e6")


def run_backprop(settings: BackpropSettings) -> Report:
    """Write out one step of training."""
    network = settings.network()
    before = settings.weights()
    names = Names(before)
    first = network.forward(before)
    gradients = network.backward(before, first)
    rate = settings.learning_rate
    pairs = zip(before.flat(), gradients.weights.flat(), strict=True)
    after = before.like(tuple(value - rate * slope for value, slope in pairs))
    second = network.forward(after)
    lines = (
        forward_lines(network, before, first, names),
        output_lines(network, first, gradients, names),
        hidden_lines(network, before, first, gradients, names),
        update_lines(before, gradients, rate, names),
        forward_lines(network, after, second, names),
    )
    values = _values(network, names, (first, gradients, after, second))
    columns = (Words("quantity", "量"), Words("value", "数值"))
    table = Table(Words("All values", "所有数值"), columns, tuple(values.items()), digits=10, is_fixed=True)
    check, worst = _check(settings, gradients, names)
    tables, claims = [table, check], [_loss_claim(first, second), check_claim(worst)]
    if settings == BackpropSettings():
        tables.append(_differing_digits(values))
        claims += _slip_claims(values, network.backward(after, first))
    return Report(
        meaning=MEANING.format(before=first.loss, after=second.loss, worst=worst),
        steps=tuple(Steps(title, tuple(one)) for title, one in zip(STAGES, lines, strict=True)),
        tables=tuple(tables),
        claims=tuple(claims),
    )


STAGES = (
    Words("Forward", "前向传递"),
    Words("Back: the output layer", "反向传播：输出层"),
    Words("Back: the hidden layer, with the old W2", "反向传播：隐藏层，用旧的 W2"),
    Words("Update: value - rate * gradient", "更新：原值 - 学习率 * 梯度"),
    Words("Forward again, after the update", "更新之后再算一次前向"),
)
MEANING = Words(
    "The loss goes from {before:.10f} to {after:.10f}. Each gradient is a product along the way from the "
    "loss to its weight, summed where ways join. By hand and by autograd the gradients differ by at most "
    "{worst:.1e}.",
    "损失从 {before:.10f} 变为 {after:.10f}。每个梯度都是从损失到该权重沿途各项的乘积，路径汇合处相加。"
    "手算与自动求导的梯度最多相差 {worst:.1e}。",
)


def _values(network: Network, names: Names, found: tuple[Pass, Gradients, Weights, Pass]) -> dict[str, float]:
    """Return every number of the step by its name."""
    first, gradients, after, second = found
    values: dict[str, float] = {}
    for name, pre, post in (
        ("hidden", first.pre_hidden, first.hidden),
        ("output", first.pre_output, first.output),
    ):
        values |= {f"{name}{place}'": value for place, value in enumerate(pre, start=1)}
        values |= {f"{name}{place}": value for place, value in enumerate(post, start=1)}
    values["loss"] = first.loss
    for place, (pre_value, post_value) in enumerate(
        zip(first.pre_output, first.output, strict=True), start=1
    ):
        values[f"slope of output{place}"] = network.activation.slope(pre_value, post_value)
    values |= {f"d loss/d hidden{place}": value for place, value in enumerate(gradients.hidden, start=1)}
    slopes = zip(names.flat, gradients.weights.flat(), strict=True)
    values |= {f"d loss/d {name}": value for name, value in slopes}
    values |= {f"{name} after": value for name, value in zip(names.flat, after.flat(), strict=True)}
    values["loss after"] = second.loss
    return values


def _check(settings: BackpropSettings, gradients: Gradients, names: Names) -> tuple[Table, float]:
    """Return the gradients by hand, by autograd and by small steps; how far the first two are apart."""
    by_autograd = autograd(settings)
    by_steps = numeric(settings)
    by_hand = gradients.weights.flat()
    rows = tuple(
        (name, hand, auto, small, f"{abs(hand - auto):.1e}")
        for name, hand, auto, small in zip(names.flat, by_hand, by_autograd, by_steps, strict=True)
    )
    columns = (
        Words("gradient of", "梯度"),
        Words("by hand", "手算"),
        Words("autograd", "自动求导"),
        Words("numeric", "数值差分"),
        Words("by hand - autograd", "手算 - 自动求导"),
    )
    title = Words("Checked against autograd and small steps", "与自动求导、数值差分核对")
    worst = max(abs(a - b) for a, b in zip(by_hand, by_autograd, strict=True))
    return Table(title, columns, rows, digits=10, is_fixed=True), worst


def autograd(settings: BackpropSettings) -> Vector:
    """Return the gradient of every parameter as torch computes it."""

    def tensor(value: Vector | Rows) -> torch.Tensor:
        return torch.tensor(value, dtype=torch.float64)

    weights = settings.weights()
    leaves = [
        tensor(value).requires_grad_()
        for value in (weights.weights1, weights.bias1, weights.weights2, weights.bias2)
    ]
    act = TORCH_ACTIVATIONS[settings.activation]
    hidden = act(F.linear(tensor(settings.inputs), leaves[0], leaves[1]))
    output, target = act(F.linear(hidden, leaves[2], leaves[3])), tensor(settings.target)
    loss = {
        "half_squares": lambda: 0.5 * F.mse_loss(output, target, reduction="sum"),
        "mean_squares": lambda: F.mse_loss(output, target),
        "cross_entropy": lambda: F.binary_cross_entropy(output, target, reduction="sum"),
    }[settings.loss]()
    gradients = torch.autograd.grad(loss, leaves)
    return tuple(value for gradient in gradients for value in gradient.flatten().tolist())


def numeric(settings: BackpropSettings) -> Vector:
    """Return the gradient of every parameter by a small step to either side."""
    network, weights = settings.network(), settings.weights()
    flat, slopes = weights.flat(), []
    for place in range(len(flat)):
        losses = [
            network.forward(weights.like((*flat[:place], flat[place] + step, *flat[place + 1 :]))).loss
            for step in (NUMERIC_STEP, -NUMERIC_STEP)
        ]
        slopes.append((losses[0] - losses[1]) / (2 * NUMERIC_STEP))
    return tuple(slopes)


def _differing_digits(values: dict[str, float]) -> Table:
    """Return the article's numbers that differ from ours in the digits it prints."""
    rows = []
    for name, printed in PRINTED.items():
        digits = len(printed.partition(".")[2])
        if f"{values[name]:.{digits}f}" != printed:
            rows.append(
                (name, printed, f"{values[name]:.{digits}f}", f"{float(printed) - values[name]:+.1e}")
            )
    columns = (
        Words("quantity", "量"),
        Words("article", "文章"),
        Words("exact", "精确值"),
        Words("difference", "差"),
    )
    return Table(Words("Where the article's digits differ", "文章里不同的数字"), columns, tuple(rows))


def _loss_claim(first: Pass, second: Pass) -> Claim:
    return Claim(
        Words("theory", "理论"),
        Words("One small step against the gradient lowers the loss.", "沿负梯度走一小步，损失下降。"),
        Words("loss {:.10f} -> {:.10f}", "损失 {:.10f} -> {:.10f}").format(first.loss, second.loss),
        verdict(second.loss < first.loss),
    )


def check_claim(worst: float) -> Claim:
    """Return the claim that arithmetic by hand and torch agree."""
    return Claim(
        Words("theory", "理论"),
        Words("Arithmetic by hand gives what torch computes.", "手算得到的就是 torch 所算的。"),
        Words("largest difference {:.1e}", "最大差 {:.1e}").format(worst),
        verdict(worst < 1e-9),
    )


def _slip_claims(values: dict[str, float], with_new_weights: Gradients) -> list[Claim]:
    """Return the article's claims about its example, with the numbers that decide."""
    short_digit, full = LOST_DIGIT
    wrong = (full - 0.01) * short_digit * (1 - short_digit) * values["hidden1"]
    old, new = values["d loss/d hidden1"], with_new_weights.hidden[0]
    exact = values["d loss/d w5"]
    return [
        Claim(
            ARTICLE, SLIP, SLIP_FOUND.format(exact=exact, wrong=wrong), verdict(abs(exact - wrong) < 5e-11)
        ),
        Claim(ARTICLE, WRONG_NAME, WRONG_NAME_FOUND.format(w4=values["d loss/d w4"]), verdict(False)),
        Claim(ARTICLE, OLD_WEIGHTS, OLD_WEIGHTS_FOUND.format(old=old, new=new), verdict(True)),
    ]


EXPERIMENTS = {
    "backprop": Experiment(
        theory=Words(
            "Forward, a unit adds up its inputs times its weights and a bias, and applies the activation. "
            "Back, the chain rule multiplies the derivatives along each way from the loss to a weight and "
            "adds up the ways.",
            "前向：每个单元把输入乘以权重相加，再加偏置，然后过激活函数。反向："
            "链式法则把从损失到权重的每条路径上的"
            "导数相乘，再把各条路径相加。",
        ),
        settings=BackpropSettings,
        run=run_backprop,
    ),
}

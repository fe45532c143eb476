"""`lab linear`: one layer by hand, with the shapes of its matrices and the count of its parameters."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from glassbert.errors import UserError
from glassbert.glassbox.lab.arithmetic import Factor, result, short, sum_of_products
from glassbert.glassbox.lab.backprop import TORCH_ACTIVATIONS, check_claim
from glassbert.glassbox.lab.estimate import verdict
from glassbert.glassbox.lab.experiment import Experiment
from glassbert.glassbox.lab.network import ACTIVATIONS, ActivationName, Rows, Vector
from glassbert.glassbox.lab.result import Claim, Report, Steps, Table
from glassbert.glassbox.lab.words import Words


@dataclass(frozen=True, kw_only=True)
class LinearSettings:
    """A layer and its input. The defaults have the shapes of the article's picture: 2 features to 4."""

    inputs: Vector = (0.05, 0.1)
    """What the layer reads."""
    weights: Rows = ((0.15, 0.20), (0.25, 0.30), (0.40, 0.45), (0.50, 0.55))
    """A row of weights for each output."""
    bias: Vector = (0.35, 0.35, 0.60, 0.60)
    """One for each output."""
    activation: ActivationName = "sigmoid"
    """sigmoid, tanh, relu, gelu or identity."""

    def __post_init__(self) -> None:
        if not self.inputs or not self.bias:
            raise UserError("the layer is empty; expected at least one input and one output")
        if len(self.weights) != len(self.bias):
            raise UserError(
                f"weights has {len(self.weights)} rows and bias {len(self.bias)} numbers; expected as many"
            )
        for row in self.weights:
            if len(row) != len(self.inputs):
                raise UserError(
                    f"a row of weights has {len(row)} numbers; expected {len(self.inputs)}, one per input"
                )


def run(settings: LinearSettings) -> Report:
    """Write out the layer."""
    num_in, num_out = len(settings.inputs), len(settings.bias)
    sources = [Factor(f"x{place}", value) for place, value in enumerate(settings.inputs, start=1)]
    activation = ACTIVATIONS[settings.activation]
    lines, outputs = [], []
    for place, (row, bias) in enumerate(zip(settings.weights, settings.bias, strict=True), start=1):
        terms = [
            (source, Factor(f"w{place}{column}", weight))
            for column, (source, weight) in enumerate(zip(sources, row, strict=True), start=1)
        ]
        line, pre = sum_of_products(f"y{place}", [*terms, (Factor(f"b{place}", bias),)])
        outputs.append(activation.value(pre))
        lines += [line, f"F(y{place}) = {activation.formula.format(z=short(pre))} = {result(outputs[-1])}"]
    shapes: tuple[tuple[str | Words | int, ...], ...] = (
        ("X", f"(1, {num_in})", Words("inputs", "输入"), 0),
        ("W", f"({num_out}, {num_in})", Words("a row for each output", "每个输出一行"), num_in * num_out),
        ("W^T", f"({num_in}, {num_out})", Words("W with rows and columns exchanged", "W 的转置"), 0),
        ("X W^T", f"(1, {num_out})", Words("(1, in) times (in, out)", "(1, in) 乘 (in, out)"), 0),
        ("b", f"({num_out},)", Words("added to each row", "加到每一行"), num_out),
        ("Y", f"(1, {num_out})", Words("outputs", "输出"), 0),
    )
    columns = ("", Words("shape", "形状"), Words("what it is", "含义"), Words("parameters", "参数"))
    from_torch = _from_torch(settings)
    worst = max(abs(a - b) for a, b in zip(outputs, from_torch, strict=True))
    return Report(
        meaning=Words(
            "{0} inputs and {1} outputs: ({0} + 1) * {1} = {2} parameters, {0} weights and one bias for "
            "each output.",
            "{0} 个输入、{1} 个输出：({0} + 1) * {1} = {2} 个参数，每个输出有 {0} 个权重和 1 个偏置。",
        ).format(num_in, num_out, (num_in + 1) * num_out),
        steps=(Steps(Words("Y = F(X W^T + b)", "Y = F(X W^T + b)"), tuple(lines)),),
        tables=(Table(Words("Shapes", "形状"), columns, shapes),),
        claims=(*_article_claims(num_in, num_out), check_claim(worst)),
    )


def _article_claims(num_in: int, num_out: int) -> Iterator[Claim]:
    num_parameters = num_in * num_out + num_out
    yield Claim(
        Words("article", "文章"),
        Words(
            "A layer of {0} inputs and {1} outputs has ({0}+1)*{1} = {2} parameters.",
            "{0} 个输入、{1} 个输出的层有 ({0}+1)*{1} = {2} 个参数。",
        ).format(num_in, num_out, (num_in + 1) * num_out),
        Words("{} weights and biases counted", "数得 {} 个权重和偏置").format(num_parameters),
        verdict(num_parameters == (num_in + 1) * num_out),
    )
    yield Claim(
        Words("article", "文章"),
        Words("The bias has the shape ({0}, 1).", "偏置的形状是 ({0}, 1)。").format(num_out),
        Words(
            "added to (1, {0}) that would give ({0}, {0}); the article's own last line has (1, {0})",
            "与 (1, {0}) 相加会得到 ({0}, {0})；文章自己最后一行写的是 (1, {0})",
        ).format(num_out),
        verdict(num_out == 1),
    )


def _from_torch(settings: LinearSettings) -> Vector:
    inputs, weights, bias = (
        torch.tensor(value, dtype=torch.float64)
        for value in (settings.inputs, settings.weights, settings.bias)
    )
    activation = TORCH_ACTIVATIONS[settings.activation]
    return tuple(activation(torch.nn.functional.linear(inputs, weights, bias)).tolist())


EXPERIMENTS = {
    "linear": Experiment(
        theory=Words(
            "Y = F(X W^T + b): each output is a sum of all inputs, each times a weight of its own, plus a "
            "bias.",
            "Y = F(X W^T + b)：每个输出是所有输入各乘一个权重再相加，加上一个偏置。",
        ),
        settings=LinearSettings,
        run=run,
    ),
}

"""A network of two layers in plain Python: values, gradients and one update, nothing hidden in a library."""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, fsum, log, pi, sqrt, tanh
from typing import Literal, NamedTuple

Vector = tuple[float, ...]
Rows = tuple[Vector, ...]
ActivationName = Literal["sigmoid", "tanh", "relu", "gelu", "identity"]
LossName = Literal["half_squares", "mean_squares", "cross_entropy"]


class Activation(NamedTuple):
    """A function with its derivative, and how both are written."""

    formula: str
    value: Callable[[float], float]
    slope_formula: str
    slope: Callable[[float, float], float]
    """Of the input and the output."""


def _sigmoid(z: float) -> float:
    return 1 / (1 + exp(-z)) if z >= 0 else exp(z) / (1 + exp(z))


def _normal(z: float) -> float:
    return 0.5 * (1 + erf(z / sqrt(2)))


ACTIVATIONS: dict[ActivationName, Activation] = {
    "sigmoid": Activation("1/(1+e^-{z})", _sigmoid, "{a}*(1-{a})", lambda z, a: a * (1 - a)),
    "tanh": Activation("tanh({z})", tanh, "1-{a}^2", lambda z, a: 1 - a * a),
    "relu": Activation("max(0,{z})", lambda z: max(0.0, z), "[{z}>0]", lambda z, a: float(z > 0)),
    "gelu": Activation(
        "{z}*Phi({z})",
        lambda z: z * _normal(z),
        "Phi({z})+{z}*phi({z})",
        lambda z, a: _normal(z) + z * exp(-z * z / 2) / sqrt(2 * pi),
    ),
    "identity": Activation("{z}", lambda z: z, "1", lambda z, a: 1.0),
}


class Loss(NamedTuple):
    """A sum over the outputs, its derivative for one output, and how both are written."""

    formula: str
    """Of one output o and its target y; n is the number of outputs."""
    value: Callable[[float, float, int], float]
    slope_formula: str
    slope: Callable[[float, float, int], float]


LOSSES: dict[LossName, Loss] = {
    "half_squares": Loss(
        "1/2*({o}-{y})^2", lambda o, y, n: (o - y) ** 2 / 2, "{o}-{y}", lambda o, y, n: o - y
    ),
    "mean_squares": Loss(
        "({o}-{y})^2/{n}",
        lambda o, y, n: (o - y) ** 2 / n,
        "2*({o}-{y})/{n}",
        lambda o, y, n: 2 * (o - y) / n,
    ),
    "cross_entropy": Loss(
        "-{y}*ln({o})-(1-{y})*ln(1-{o})",
        lambda o, y, n: -y * log(o) - (1 - y) * log(1 - o),
        "({o}-{y})/({o}*(1-{o}))",
        lambda o, y, n: (o - y) / (o * (1 - o)),
    ),
}


@dataclass(frozen=True)
class Weights:
    """The parameters of both layers."""

    weights1: Rows
    bias1: Vector
    weights2: Rows
    bias2: Vector

    def flat(self) -> Vector:
        """Return all parameters in a row: first layer, then second; rows of weights, then biases."""
        first = [value for row in self.weights1 for value in row]
        second = [value for row in self.weights2 for value in row]
        return (*first, *self.bias1, *second, *self.bias2)

    def like(self, flat: Vector) -> "Weights":
        """Return other parameters of the same shapes."""
        values = iter(flat)

        def rows(shape: Rows) -> Rows:
            return tuple(tuple(next(values) for _ in row) for row in shape)

        def vector(shape: Vector) -> Vector:
            return tuple(next(values) for _ in shape)

        return Weights(rows(self.weights1), vector(self.bias1), rows(self.weights2), vector(self.bias2))


@dataclass(frozen=True)
class Pass:
    """All values of one forward pass."""

    pre_hidden: Vector
    hidden: Vector
    pre_output: Vector
    output: Vector
    losses: Vector
    """Of each output; the loss is their sum."""

    @property
    def loss(self) -> float:
        """The number that is made smaller."""
        return fsum(self.losses)


@dataclass(frozen=True)
class Gradients:
    """All derivatives of the loss."""

    output: Vector
    pre_output: Vector
    hidden: Vector
    pre_hidden: Vector
    weights: Weights


@dataclass(frozen=True)
class Network:
    """Two layers: ``output = F(F(x W1^T + b1) W2^T + b2)``."""

    inputs: Vector
    target: Vector
    activation: Activation
    loss: Loss

    def forward(self, weights: Weights) -> Pass:
        """Return all values."""
        pre_hidden = _layer(weights.weights1, weights.bias1, self.inputs)
        hidden = tuple(map(self.activation.value, pre_hidden))
        pre_output = _layer(weights.weights2, weights.bias2, hidden)
        output = tuple(map(self.activation.value, pre_output))
        pairs = zip(output, self.target, strict=True)
        losses = tuple(self.loss.value(o, y, len(output)) for o, y in pairs)
        return Pass(pre_hidden, hidden, pre_output, output, losses)

    def backward(self, weights: Weights, found: Pass) -> Gradients:
        """Return all derivatives, from the loss back to the first weights."""
        pairs = zip(found.output, self.target, strict=True)
        output = tuple(self.loss.slope(o, y, len(found.output)) for o, y in pairs)
        pre_output = self._through(output, found.pre_output, found.output)
        hidden = tuple(
            fsum(delta * row[place] for delta, row in zip(pre_output, weights.weights2, strict=True))
            for place in range(len(found.hidden))
        )
        pre_hidden = self._through(hidden, found.pre_hidden, found.hidden)
        return Gradients(
            output,
            pre_output,
            hidden,
            pre_hidden,
            Weights(
                _outer(pre_hidden, self.inputs), pre_hidden, _outer(pre_output, found.hidden), pre_output
            ),
        )

    def _through(self, gradient: Vector, pre: Vector, post: Vector) -> Vector:
        """Return the gradient before the activation."""
        parts = zip(gradient, pre, post, strict=True)
        return tuple(one * self.activation.slope(z, a) for one, z, a in parts)


def _layer(weights: Rows, bias: Vector, x: Vector) -> Vector:
    return tuple(
        fsum([*(w * value for w, value in zip(row, x, strict=True)), b])
        for row, b in zip(weights, bias, strict=True)
    )


def _outer(left: Vector, right: Vector) -> Rows:
    return tuple(tuple(a * b for b in right) for a in left)

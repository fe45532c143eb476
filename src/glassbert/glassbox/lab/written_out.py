"""The steps of a two-layer network as lines: symbols, numbers, result."""

from collections.abc import Iterator
from itertools import count

from glassbert.glassbox.lab.arithmetic import Factor, result, short, sum_of_products
from glassbert.glassbox.lab.network import Gradients, Network, Pass, Rows, Vector, Weights


class Names:
    """The article's names: w1, w2, ... and b1, b2, ... run through both layers."""

    def __init__(self, weights: Weights) -> None:
        number, bias_number = count(1), count(1)
        self.w1 = tuple(tuple(f"w{next(number)}" for _ in row) for row in weights.weights1)
        self.b1 = tuple(f"b{next(bias_number)}" for _ in weights.bias1)
        self.w2 = tuple(tuple(f"w{next(number)}" for _ in row) for row in weights.weights2)
        self.b2 = tuple(f"b{next(bias_number)}" for _ in weights.bias2)
        self.flat = (
            *(name for row in self.w1 for name in row), *self.b1,
            *(name for row in self.w2 for name in row), *self.b2,
        )  # fmt: skip


def forward_lines(network: Network, weights: Weights, found: Pass, names: Names) -> Iterator[str]:
    """Yield the lines of a forward pass."""
    sources = [Factor(f"x{place + 1}", value) for place, value in enumerate(network.inputs)]
    yield from _layer(network, "hidden", sources, (names.w1, weights.weights1), (names.b1, weights.bias1))
    sources = [Factor(f"hidden{place + 1}", value) for place, value in enumerate(found.hidden)]
    yield from _layer(network, "output", sources, (names.w2, weights.weights2), (names.b2, weights.bias2))
    pairs = list(zip(found.output, network.target, strict=True))
    symbols = [
        network.loss.formula.format(o=f"output{place + 1}", y=f"y{place + 1}", n=len(pairs))
        for place in range(len(pairs))
    ]
    numbers = [network.loss.formula.format(o=short(o), y=short(y), n=len(pairs)) for o, y in pairs]
    yield (
        f"loss = {' + '.join(symbols)} = {' + '.join(numbers)} = {' + '.join(map(short, found.losses))} "
        f"= {result(found.loss)}"
    )


def _layer(
    network: Network,
    name: str,
    sources: list[Factor],
    weights: tuple[tuple[tuple[str, ...], ...], Rows],
    biases: tuple[tuple[str, ...], Vector],
) -> Iterator[str]:
    rows = zip(*weights, *biases, strict=True)
    for place, (row_names, row, bias_name, bias) in enumerate(rows, start=1):
        products = [(x, Factor(n, w)) for x, n, w in zip(sources, row_names, row, strict=True)]
        line, pre = sum_of_products(f"{name}{place}'", [*products, (Factor(bias_name, bias),)])
        yield line
        value = network.activation.value(pre)
        symbols = network.activation.formula.format(z=f"{name}{place}'")
        numbers = network.activation.formula.format(z=short(pre))
        yield f"{name}{place} = {symbols} = {numbers} = {result(value)}"


def output_lines(network: Network, found: Pass, gradients: Gradients, names: Names) -> Iterator[str]:
    """Yield the lines from the loss back to the weights of the output layer."""
    num_outputs = len(found.output)
    for place in range(num_outputs):
        o, y, n = found.output[place], network.target[place], place + 1
        symbols = network.loss.slope_formula.format(o=f"output{n}", y=f"y{n}", n=num_outputs)
        numbers = network.loss.slope_formula.format(o=short(o), y=short(y), n=num_outputs)
        yield f"d loss/d output{n} = {symbols} = {numbers} = {result(gradients.output[place])}"
        line, slope = _slope(network, f"output{n}", found.pre_output[place], o)
        yield line
        yield _delta(f"output{n}", gradients.output[place], slope, gradients.pre_output[place])
        delta = Factor(f"d loss/d output{n}'", gradients.pre_output[place])
        for name, source, value in zip(names.w2[place], count(1), found.hidden, strict=False):
            yield sum_of_products(f"d loss/d {name}", [(delta, Factor(f"hidden{source}", value))])[0]
        yield f"d loss/d {names.b2[place]} = d loss/d output{n}' = {result(delta.value)}"


def hidden_lines(
    network: Network, weights: Weights, found: Pass, gradients: Gradients, names: Names
) -> Iterator[str]:
    """Yield the lines from there back to the weights of the hidden layer."""
    for place in range(len(found.hidden)):
        n = place + 1
        terms = [
            (Factor(f"d loss/d output{k}'", delta), Factor(row_names[place], row[place]))
            for k, (delta, row_names, row) in enumerate(
                zip(gradients.pre_output, names.w2, weights.weights2, strict=True), start=1
            )
        ]
        yield sum_of_products(f"d loss/d hidden{n}", terms)[0]
        line, slope = _slope(network, f"hidden{n}", found.pre_hidden[place], found.hidden[place])
        yield line
        yield _delta(f"hidden{n}", gradients.hidden[place], slope, gradients.pre_hidden[place])
        delta = Factor(f"d loss/d hidden{n}'", gradients.pre_hidden[place])
        for name, source, value in zip(names.w1[place], count(1), network.inputs, strict=False):
            yield sum_of_products(f"d loss/d {name}", [(delta, Factor(f"x{source}", value))])[0]
        yield f"d loss/d {names.b1[place]} = d loss/d hidden{n}' = {result(delta.value)}"


def _slope(network: Network, name: str, pre: float, post: float) -> tuple[str, float]:
    """Return the line of an activation's derivative, and the derivative."""
    formula, slope = network.activation.slope_formula, network.activation.slope(pre, post)
    symbols = formula.format(a=name, z=f"{name}'")
    numbers = formula.format(a=short(post), z=short(pre))
    return f"d {name}/d {name}' = {symbols} = {numbers} = {result(slope)}", slope


def _delta(name: str, gradient: float, slope: float, delta: float) -> str:
    numbers = f"{short(gradient)}*{short(slope)}"
    return f"d loss/d {name}' = d loss/d {name} * d {name}/d {name}' = {numbers} = {result(delta)}"


def update_lines(before: Weights, gradients: Gradients, rate: float, names: Names) -> Iterator[str]:
    """Yield a line for each parameter."""
    for name, value, slope in zip(names.flat, before.flat(), gradients.weights.flat(), strict=True):
        yield f"{name} = {short(value)} - {short(rate)}*{short(slope)} = {result(value - rate * slope)}"

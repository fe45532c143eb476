"""One number of a trace with the sum that made it, term by term, and as Python to run again."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import erf, exp, fsum, pi, sqrt, tanh
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassbert.errors import UserError
from glassbert.glassbox.trace.graph import ACTIVATION_FORMULAS, LAYER_NORM, Step
from glassbert.glassbox.trace.trace import Trace

Row = NDArray[np.float64]
Weight = Callable[[str], NDArray[Any]]
"""Returns a parameter of the network by its name."""


@dataclass(frozen=True)
class Place:
    """A number of the trace by its tensor and index."""

    name: str
    index: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.index))}]" if self.index else self.name


@dataclass(frozen=True)
class Term:
    """One addend."""

    label: str
    values: tuple[float, ...]
    """One for each column; the last is what is added."""
    source: Place | None = None
    """Where its first factor comes from, to follow it further back."""


@dataclass(frozen=True)
class Cell:
    """How one number was computed. The last column of the terms adds up to it, unless `written` says more."""

    place: Place
    value: float
    """As recorded, in float32."""
    formula: str
    """Of the whole tensor, as the graph has it."""
    written: str
    """The formula with this cell's own numbers, in float64; empty where the terms say it all."""
    columns: tuple[str, ...]
    terms: tuple[Term, ...]
    result: float
    """What the written sum gives, in float64."""
    python: str
    """Lines that compute the number again from `trace` and `model`."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class _Sum:
    """The result of a rule for a cell."""

    result: float
    columns: tuple[str, ...] = ()
    terms: tuple[Term, ...] = ()
    written: str = ""
    python: str = ""


@dataclass(frozen=True)
class _Sight:
    """What the rules read: the step, the cell's index, and numbers of the trace and of the network."""

    trace: Trace
    weight: Weight
    step: Step
    index: tuple[int, ...]

    def row(self, symbol: str, *index: object) -> Row:
        """Return part of an input of the step, in float64."""
        return np.asarray(self.trace[(self.step.inputs[symbol], *index)], dtype=np.float64)

    def weights(self, symbol: str, *index: int) -> Row:
        """Return part of a parameter of the step, in float64."""
        return np.asarray(self.weight(self.step.weights[symbol])[index], dtype=np.float64)

    def given(self, symbol: str, place: int) -> int:
        """Return one of the whole numbers that the model is given."""
        return int(self.trace[self.step.inputs[symbol]][place])

    def code(self, symbol: str, *index: object) -> str:
        """Return a line of Python that reads part of an input."""
        words = ", ".join([repr(self.step.inputs[symbol]), *map(str, index)])
        return f"{symbol} = trace[{words}].astype(float)"

    def weight_code(self, symbol: str, *index: int) -> str:
        """Return a line of Python that reads part of a parameter."""
        name, place = self.step.weights[symbol], ", ".join(map(str, index))
        return f'{symbol} = model.network.get_parameter("{name}").detach().double().numpy()[{place}]'


def explain(trace: Trace, weight: Weight, name: str, index: Sequence[int]) -> Cell:
    """Return how the number at ``index`` of the tensor ``name`` was computed.

    Args:
        weight: Returns a parameter of the traced network by its name.
    """
    step, index = trace.step(name), tuple(index)
    if len(index) != len(step.shape) or not all(
        0 <= one < size for one, size in zip(index, step.shape, strict=True)
    ):
        raise UserError(f"{Place(name, index)}: expected an index within the shape {step.shape}")
    found = _rule(step.formula)(_Sight(trace, weight, step, index))
    value = float(trace[(name, *index)]) if index else float(trace[name])
    place = Place(name, index)
    return Cell(
        place, value, step.formula, found.written, found.columns, found.terms, found.result, found.python
    )


def python_of(trace: Trace, cell: Cell, source: str) -> str:
    """Return a script that loads the model, records the trace again and computes the cell.

    Args:
        source: What to load the model from.
    """
    arguments = [repr(trace.info.text), *([repr(trace.info.pair)] if trace.info.pair is not None else [])]
    lines = ["import numpy as np", "", "import glassbert as gb", "", f"model = gb.load({source!r})"]
    lines += [f"trace = model.trace({', '.join(arguments)})", cell.python]
    read = ", ".join([repr(cell.place.name), *map(str, cell.place.index)])
    return "\n".join([*lines, f"print(result, trace[{read}])"]) + "\n"


def _rule(formula: str) -> Callable[[_Sight], _Sum]:
    if formula in _ELEMENTWISE:
        return _elementwise
    for pattern, rule in _RULES:
        if pattern.fullmatch(formula):
            return rule
    return _as_recorded


def _as_recorded(at: _Sight) -> _Sum:
    value = float(at.trace[(at.step.name, *at.index)] if at.index else at.trace[at.step.name])
    read = ", ".join([repr(at.step.name), *map(str, at.index)])
    return _Sum(value, python=f"result = float(trace[{read}])")


def _lookup(at: _Sight) -> _Sum:
    symbol = next(iter(at.step.inputs))
    token, column = at.index
    row = at.given(symbol, token)
    value = float(at.weights("table", row, column))
    written = f"table[{row}, {column}] = {value:.9g}"
    python = f"{at.weight_code('table', row, column)}\nresult = float(table)"
    return _Sum(value, ("table",), (Term(f"[{row}, {column}]", (value,)),), written, python)


def _addition(at: _Sight) -> _Sum:
    values = {symbol: float(at.row(symbol, *at.index)) for symbol in at.step.inputs}
    terms = tuple(
        Term(symbol, (value,), Place(at.step.inputs[symbol], at.index)) for symbol, value in values.items()
    )
    lines = [at.code(symbol, *at.index) for symbol in values]
    python = "\n".join([*lines, f"result = {' + '.join(values)}"])
    return _Sum(fsum(values.values()), ("value",), terms, "", python)


def _row_of_input(at: _Sight) -> int:
    """Return the token whose row a linear layer reads."""
    if "[:1]" in at.step.formula:
        return 0
    if "[places]" in at.step.formula:
        return at.given("places", at.index[0])
    return at.index[0]


def _linear(at: _Sight) -> _Sum:
    token, unit = _row_of_input(at), at.index[1]
    x, matrix_row = at.row("x", token), at.weights("W", unit)
    products = x * matrix_row
    name = at.step.inputs["x"]
    terms = [
        Term(str(column), (float(a), float(w), float(p)), Place(name, (token, column)))
        for column, (a, w, p) in enumerate(zip(x, matrix_row, products, strict=True))
    ]
    lines = [at.code("x", token), at.weight_code("W", unit), "result = x @ W"]
    bias = 0.0
    if "b" in at.step.weights:
        bias = float(at.weights("b", unit))
        terms.append(Term("b", (1.0, bias, bias)))
        lines[-1:] = [at.weight_code("b", unit), "result = x @ W + b"]
    return _Sum(fsum([*products, bias]), ("x", "W", "x * W"), tuple(terms), "", "\n".join(lines))


def _layer_norm(at: _Sight) -> _Sum:
    *front, column = at.index
    x = at.row("x", *front)
    gamma, beta = float(at.weights("gamma", column)), float(at.weights("beta", column))
    mean, variance, eps = float(x.mean()), float(x.var()), at.step.constants["eps"]
    result = (float(x[column]) - mean) / sqrt(variance + eps) * gamma + beta
    written = (
        f"({x[column]:.6g} - {mean:.6g}) / sqrt({variance:.6g} + {eps:g}) * {gamma:.6g} + {beta:.6g}"
        f" = {result:.9g}"
    )
    values = {"x": float(x[column]), "mean(x)": mean, "var(x)": variance, "gamma": gamma, "beta": beta}
    sources = {"x": Place(at.step.inputs["x"], at.index)}
    terms = tuple(Term(label, (value,), sources.get(label)) for label, value in values.items())
    python = "\n".join(
        [
            at.code("x", *front),
            at.weight_code("gamma", column),
            at.weight_code("beta", column),
            f"result = (x[{column}] - x.mean()) / np.sqrt(x.var() + {eps!r}) * gamma + beta",
        ]
    )
    return _Sum(result, ("value",), terms, written, python)


def _elementwise(at: _Sight) -> _Sum:
    symbol = next(iter(at.step.inputs))
    value = float(at.row(symbol, *at.index))
    names: dict[str, Any] = {symbol: value, **at.step.constants, **_FUNCTIONS}
    result = float(eval(at.step.formula, {"__builtins__": {}}, names))
    number = f"({value:.6g})" if value < 0 else f"{value:.6g}"
    written = re.sub(rf"\b{symbol}\b", number, at.step.formula)
    for constant, amount in at.step.constants.items():
        written = re.sub(rf"\b{constant}\b", f"{amount:g}", written)
    lines = ["from math import erf, exp, pi, sqrt, tanh", at.code(symbol, *at.index)]
    lines += [f"{constant} = {amount!r}" for constant, amount in at.step.constants.items()]
    lines.append(f"result = {at.step.formula.replace('maximum', 'max')}")
    terms = (Term(symbol, (value,), Place(at.step.inputs[symbol], at.index)),)
    return _Sum(result, ("value",), terms, f"{written} = {result:.9g}", "\n".join(lines))


def _width(at: _Sight) -> int:
    """Return the features of one head."""
    grid = next(step for step in at.trace.graph if step.dims[:2] == ("text", "head"))
    hidden = next(step for step in at.trace.graph if step.dims[-1:] == ("hidden",))
    return hidden.shape[-1] // grid.shape[1]


def _query_times_key(at: _Sight) -> _Sum:
    _, head, query, key = at.index
    width = _width(at)
    part = slice(head * width, (head + 1) * width)
    q, k = at.row("q", query, part), at.row("k", key, part)
    products = q * k
    name = at.step.inputs["q"]
    terms = tuple(
        Term(str(column), (float(a), float(b), float(p)), Place(name, (query, head * width + column)))
        for column, (a, b, p) in enumerate(zip(q, k, products, strict=True))
    )
    read = f"slice({part.start}, {part.stop})"
    python = "\n".join([at.code("q", query, read), at.code("k", key, read), "result = q @ k"])
    return _Sum(fsum(products), ("q", "k", "q * k"), terms, "", python)


def _masking(at: _Sight) -> _Sum:
    _, _, query, key = at.index
    score = float(at.row("scores", *at.index))
    result = score if key <= query else float("-inf")
    sign = "<=" if key <= query else ">"
    written = f"key {key} {sign} query {query}: " + (f"{score:.9g}" if key <= query else "-inf")
    terms = (Term("scores", (score,), Place(at.step.inputs["scores"], at.index)),)
    lines = [at.code("scores", *at.index), f"result = scores if {key} <= {query} else -np.inf"]
    return _Sum(result, ("value",), terms, written, "\n".join(lines))


def _softmax(at: _Sight) -> _Sum:
    *front, key = at.index
    scores = at.row("scores", *front)
    top = float(scores.max())
    powers = np.exp(scores - top)
    result = float(powers[key] / powers.sum())
    name = at.step.inputs["scores"]
    terms = tuple(
        Term(_token(at, place), (float(s), float(s - top), float(p)), Place(name, (*front, place)))
        for place, (s, p) in enumerate(zip(scores, powers, strict=True))
    )
    written = f"{powers[key]:.6g} / {powers.sum():.6g} = {result:.9g}"
    lines = [at.code("scores", *front), "powers = np.exp(scores - scores.max())"]
    python = "\n".join([*lines, f"result = powers[{key}] / powers.sum()"])
    return _Sum(result, ("score", "score - max", "exp(score - max)"), terms, written, python)


def _token(at: _Sight, place: int) -> str:
    is_target = at.step.name.startswith("dec.") and ".cross." not in at.step.name
    tokens = at.trace.target_tokens if is_target else at.trace.tokens
    return f"{place} {tokens[place]}"


def _context(at: _Sight) -> _Sum:
    query, column = at.index
    head = column // _width(at)
    shares = at.row("probs", 0, head, query)
    values = at.row("v", slice(None), column)
    products = shares * values
    name = at.step.inputs["v"]
    terms = tuple(
        Term(_token(at, place), (float(a), float(v), float(p)), Place(name, (place, column)))
        for place, (a, v, p) in enumerate(zip(shares, values, products, strict=True))
    )
    python = "\n".join(
        [at.code("probs", 0, head, query), at.code("v", "slice(None)", column), "result = probs @ v"]
    )
    return _Sum(fsum(products), ("share", "v", "share * v"), terms, "", python)


_FUNCTIONS: Mapping[str, Any] = {
    "erf": erf, "exp": exp, "maximum": max, "pi": pi, "sqrt": sqrt, "tanh": tanh,
}  # fmt: skip
# Only these are evaluated: a trace that comes from a file may hold any formula.
_ELEMENTWISE = frozenset({*ACTIVATION_FORMULAS.values(), "tanh(x)", "raw / sqrt(d_k)", "token * sqrt(D)"})
_RULES: tuple[tuple[re.Pattern[str], Callable[[_Sight], _Sum]], ...] = (
    (re.compile(r"table\[\w+\]"), _lookup),
    (re.compile(r"x(\[:1\]|\[places\])? @ W\.T( \+ b)?"), _linear),
    (re.compile(re.escape(LAYER_NORM)), _layer_norm),
    (re.compile(r"heads\(q\) @ heads\(k\)\.mT"), _query_times_key),
    (re.compile(r"where\(tril.*"), _masking),
    (re.compile(r"softmax\(scores\)"), _softmax),
    (re.compile(r"join\(probs @ heads\(v\)\)"), _context),
    (re.compile(r"\w+( \+ \w+)*"), _addition),
)

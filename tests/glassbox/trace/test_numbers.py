"""Every number of a trace, and its gradient, against float64 NumPy that shares no line with the package."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors.numpy import load_file

import glassbert as gb
from glassbert.model_names import model_folder
from glassbert.storage import read_json
from helpers import numpy_networks
from helpers.traced_models import translator

TOLERANCE = 1e-5
"""Largest difference, as a share of a tensor's largest number."""
STEP = 1e-5
"""How far a weight is moved for a numeric gradient in float64."""
Array = np.ndarray


class Pass(NamedTuple):
    """A trace and the computation that it must equal."""

    trace: gb.Trace
    weights: dict[str, Array]
    run: Callable[..., dict[str, Array]]
    """Takes weights, and `moves`."""
    grad_names: dict[str, str]
    """For each name in ``weights``, that of its gradient in the trace."""


@cache
def demo_pass() -> Pass:
    folder = model_folder("demo")
    model = gb.load("demo", gb.Model)
    stored = {
        name: array.astype(np.float64) for name, array in load_file(folder / "model.safetensors").items()
    }
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    right = [piece for piece in pieces if piece.isascii() and piece.isalpha()][-2:]
    trace = model.trace(
        "The cat [MASK] on the mat.",
        "It was [MASK].",
        target={"mlm": right, "nsp": "IsNext"},
        grad=True,
    )
    ids = [pieces.index(token) for token in trace.tokens]
    places = [index for index, token in enumerate(trace.tokens) if token == "[MASK]"]
    labels = [pieces.index(piece) for piece in right]
    segments = [int(index > trace.tokens.index("[SEP]")) for index in range(len(ids))]
    config = read_json(folder / "config.json")

    def run(weights: dict[str, Array], **moves: Any) -> dict[str, Array]:
        return numpy_networks.bert(weights, config, ids, segments, places, labels, 0, **moves)

    return Pass(trace, stored, run, _names_of_gradients(stored, model))


def _names_of_gradients(stored: dict[str, Array], model: gb.Model) -> dict[str, str]:
    """Return our name of each stored tensor: the parameter that holds the same numbers."""
    ours = {name: value.detach().numpy() for name, value in model.network.named_parameters()}
    found = {}
    for theirs, array in stored.items():
        same = [
            name
            for name, value in ours.items()
            if value.shape == array.shape and np.array_equal(value, array.astype(np.float32))
        ]
        if len(same) == 1:
            found[theirs] = f"grad.{same[0]}"
    return found


@cache
def translator_pass() -> Pass:
    model = translator("post")
    trace = model.trace("one two.", target="\u00a1uno dos!", grad=True)
    stored = {
        name: value.detach().numpy().astype(np.float64) for name, value in model.network.named_parameters()
    }
    shape = model.config.encoder
    target = model.tokenizer.ids_of("\u00a1uno dos!")
    source = [*model.tokenizer.ids_of("one two."), model.tokenizer.end_id]

    def run(weights: dict[str, Array], **moves: Any) -> dict[str, Array]:
        return numpy_networks.transformer(
            weights,
            num_blocks=(shape.num_hidden_layers, model.config.num_decoder_layers),
            num_heads=shape.num_attention_heads,
            eps=shape.layer_norm_eps,
            source=source,
            target=[0, *target],
            labels=[*target, model.tokenizer.end_id],
            **moves,
        )

    return Pass(trace, stored, run, {name: f"grad.{name}" for name in stored})


PASSES = {"demo": demo_pass, "decoder": translator_pass}


@pytest.mark.parametrize("name", PASSES)
def test_every_value_equals_a_computation_from_the_weights_alone(name: str) -> None:
    one = PASSES[name]()
    expected = one.run(one.weights)
    shown = [step.name for step in one.trace.graph if not step.is_given]
    assert shown == sorted(expected, key=shown.index)
    for step, right in expected.items():
        found = one.trace[step]
        finite = np.isfinite(right)
        assert np.array_equal(found[~finite], right[~finite]), step
        gap = np.abs(found[finite] - right[finite]).max()
        assert gap <= TOLERANCE * np.abs(right[finite]).max(), step


@pytest.mark.parametrize("name", PASSES)
def test_the_gradient_of_every_weight_is_the_slope_of_the_loss(name: str) -> None:
    one = PASSES[name]()
    assert len(one.grad_names) > 0.9 * len(one.weights)
    generator = np.random.default_rng(0)
    for weight, gradient_name in one.grad_names.items():
        gradient = one.trace[gradient_name]
        for index in _telling_places(gradient, generator):
            slope = _slope(
                lambda by, weight=weight, index=index: one.run(_moved(one.weights, weight, index, by))
            )
            assert _is_slope(gradient, index, slope), weight


@pytest.mark.parametrize("name", PASSES)
def test_the_gradient_at_every_name_is_the_slope_of_the_loss(name: str) -> None:
    one = PASSES[name]()
    generator = np.random.default_rng(1)
    for step in one.trace.graph:
        if step.is_given or step.name.endswith("loss"):
            continue
        gradient = one.trace[f"grad.{step.name}"]
        index = _telling_places(gradient, generator)[0]
        slope = _slope(
            lambda by, step=step, index=index: one.run(one.weights, moves={step.name: (index, by)})
        )
        assert gradient[index] == pytest.approx(slope, rel=1e-3, abs=1e-4 * float(np.abs(gradient).max())), (
            step.name
        )
    assert one.trace["grad.loss"] == 1.0


def _telling_places(gradient: Array, generator: np.random.Generator) -> list[tuple[int, ...]]:
    """Return where the gradient is largest, and a place at random."""
    largest = np.unravel_index(np.abs(gradient).argmax(), gradient.shape)
    return [tuple(map(int, largest)), tuple(int(generator.integers(size)) for size in gradient.shape)]


def _moved(weights: dict[str, Array], name: str, index: tuple[int, ...], by: float) -> dict[str, Array]:
    moved = weights[name].copy()
    moved[index] += by
    return {**weights, name: moved}


def _is_slope(gradient: Array, index: tuple[int, ...], slope: float) -> bool:
    # A key's bias adds the same to all scores of a query, so its slope is zero and its gradient is rounding.
    size = float(np.abs(gradient).max())
    return abs(float(gradient[index]) - slope) <= max(1e-3 * abs(slope), 1e-4 * size, 1e-6)


def _slope(run: Callable[[float], dict[str, Array]]) -> float:
    return float(run(STEP)["loss"] - run(-STEP)["loss"]) / (2 * STEP)

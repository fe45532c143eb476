"""The steps of a trace: planned before the pass, complete, in order, and each formula true."""

import re

import numpy as np
import pytest

from helpers.formulas import UNWRITTEN, evaluated
from helpers.traced_models import CASES, Case


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_every_formula_gives_the_numbers_of_its_step(case: Case) -> None:
    trace = case.trace()
    values = {name: _exact(trace[name]) for name in trace.names()}
    extra = getattr(case.model.__dict__.get("task"), "extra", None)
    weights = {name: _exact(value.detach().numpy()) for name, value in case.model.network.named_parameters()}
    weights |= {"extra.weight": _exact(extra.weight.detach().numpy())} if extra else {}
    num_heads = next((step.shape[1] for step in trace.graph if "head" in step.dims), 1)
    num_checked = 0
    for step in trace.graph:
        if step.is_given or step.formula.startswith(UNWRITTEN):
            continue
        found = evaluated(step, values, weights, num_heads).reshape(step.shape)
        np.testing.assert_allclose(values[step.name], found, rtol=2e-5, atol=2e-6, err_msg=step.name)
        num_checked += 1
    assert num_checked >= 8


def _exact(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == np.int64 else array.astype(np.float64)


def test_steps_come_in_the_order_of_computation(case: Case) -> None:
    seen: set[str] = set()
    for step in case.trace().graph:
        assert set(step.inputs.values()) <= seen, step.name
        symbols = {*step.inputs, *step.weights, *step.constants}
        assert symbols <= set(re.findall(r"\w+", step.formula)) or step.formula.startswith(UNWRITTEN)
        seen.add(step.name)


def test_every_weight_that_a_formula_names_is_in_the_network_and_every_one_is_named(case: Case) -> None:
    trace = case.trace()
    named = {weight for step in trace.graph for weight in step.weights.values()}
    known = {name for name, _ in case.model.network.named_parameters()}
    assert named - {"extra.weight"} <= known
    assert named >= known

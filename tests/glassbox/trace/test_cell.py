"""The sum behind a number: it gives the number, and so does the Python that it comes with."""

import contextlib
import io
from math import isclose
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.errors import UserError
from glassbert.glassbox.trace.cell import Cell, explain, python_of
from helpers.traced_models import CASES, Case


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def weights_of(model: Any) -> Any:
    return lambda name: model.network.get_parameter(name).detach().numpy()


def a_cell_of_each_step(case: Case) -> list[Cell]:
    trace, draw = case.trace(), np.random.default_rng(3)
    return [
        explain(trace, weights_of(case.model), step.name, [int(draw.integers(size)) for size in step.shape])
        for step in trace.graph
        if not step.is_given
    ]


def test_the_written_sum_gives_the_number_that_was_recorded(case: Case) -> None:
    for cell in a_cell_of_each_step(case):
        assert isclose(cell.result, cell.value, rel_tol=1e-4, abs_tol=1e-5), cell.place


def test_the_python_of_a_cell_gives_its_number(case: Case) -> None:
    trace = case.trace()
    for cell in a_cell_of_each_step(case):
        names = {"np": np, "trace": trace, "model": case.model}
        exec(cell.python, names)
        assert isclose(names["result"], cell.result, rel_tol=1e-9, abs_tol=1e-12), cell.place


def test_the_last_column_adds_up_where_nothing_else_is_written(case: Case) -> None:
    sums = [cell for cell in a_cell_of_each_step(case) if cell.terms and not cell.written]
    assert sums
    for cell in sums:
        total = sum(term.values[-1] for term in cell.terms)
        assert isclose(total, cell.result, rel_tol=1e-9, abs_tol=1e-12), cell.place


def test_every_term_can_be_followed_to_the_number_it_comes_from(case: Case) -> None:
    trace = case.trace()
    for cell in a_cell_of_each_step(case):
        for term in cell.terms:
            if term.source is not None:
                found = float(trace[(term.source.name, *term.source.index)])
                assert found == pytest.approx(term.values[0]) or found == pytest.approx(term.values[1])


def test_the_copied_script_prints_the_number_twice() -> None:
    model = gb.load("demo")
    trace = model.trace("The cat sat.")
    cell = explain(trace, weights_of(model), "enc.1.mlp.pre", (2, 7))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(python_of(trace, cell, "demo"), {})
    by_hand, recorded = map(float, printed.getvalue().split())
    assert by_hand == pytest.approx(recorded, rel=1e-5)
    assert recorded == pytest.approx(cell.value)


@pytest.mark.parametrize("index", [(), (0,), (0, 10**6), (-1, 0), (0, 0, 0)])
def test_a_cell_outside_of_the_tensor_is_refused(index: tuple[int, ...]) -> None:
    case = CASES["mlm"]()
    with pytest.raises(UserError, match="expected an index within the shape"):
        explain(case.trace(), weights_of(case.model), "enc.0.attn.q", index)


def test_a_formula_of_a_foreign_file_is_never_evaluated() -> None:
    from dataclasses import replace

    case = CASES["mlm"]()
    trace = case.trace()
    evil = "x * __import__('os').getpid()"
    steps = [replace(step, formula=evil) if step.name == "enc.0.mlp.act" else step for step in trace.graph]
    forged = gb.Trace(replace(trace.info, graph=tuple(steps)), {name: trace[name] for name in trace})
    cell = explain(forged, weights_of(case.model), "enc.0.mlp.act", (0, 0))
    assert cell.result == cell.value

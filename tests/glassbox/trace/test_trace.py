"""A trace as an object: names, parts, heads, files."""

from pathlib import Path

import numpy as np
import pytest

import glassbert as gb
from glassbert.parsing import parse_json
from helpers.traced_models import CASES, Case


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def test_a_saved_trace_comes_back_whole(case: Case, tmp_path: Path) -> None:
    trace = case.trace(grad=True)
    trace.save(tmp_path / "a.safetensors")
    loaded = gb.Trace.load(tmp_path / "a.safetensors")
    assert loaded.info == trace.info
    assert loaded.names() == trace.names()
    assert all(np.array_equal(loaded[name], trace[name]) for name in trace.names())
    beside = parse_json((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert tuple(beside["tokens"]) == trace.tokens
    assert [step["name"] for step in beside["graph"]] == [step.name for step in trace.graph]


def test_a_trace_that_is_streamed_into_a_file_is_the_one_in_memory(case: Case, tmp_path: Path) -> None:
    case.trace(grad=True).save(tmp_path / "kept.safetensors")
    case.trace(grad=True, out=tmp_path / "streamed.safetensors")
    for ending in ("safetensors", "json"):
        streamed, kept = (tmp_path / f"{name}.{ending}" for name in ("streamed", "kept"))
        assert streamed.read_bytes() == kept.read_bytes()

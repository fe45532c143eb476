from typing import Any

import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.page import server
from glassbert.page.workbench import Workbench


class Started(Exception):
    """The page would be up now."""


def test_the_page_runs_its_model_where_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any, **settings: Any) -> None:
        raise Started(settings["place"])

    monkeypatch.setattr(server, "PageBackend", started)
    with pytest.raises(Started, match=r"\{'device': 'cpu', 'precision': 'bfloat16'\}"):
        main(["open", "demo", "--device", "cpu", "--precision", "bfloat16"])


def test_both_models_of_a_page_are_in_its_precision() -> None:
    bench = Workbench("demo", other="demo", place={"device": "cpu", "precision": "bfloat16"})
    assert bench.other is not None
    assert [one.model.precision for one in (bench, bench.other)] == ["bfloat16", "bfloat16"]
    assert bench.record("a river", None)["tokens"]


def test_a_page_in_int8_is_refused_before_anything_is_shown() -> None:
    with pytest.raises(gb.UserError, match="the page shows the formula, which has no int8"):
        Workbench("demo", place={"device": "cpu", "precision": "int8"})

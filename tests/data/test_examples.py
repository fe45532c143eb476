import dataclasses

import pytest

from glassbert.data.examples import ReadOptions, Span, TextExample
from glassbert.errors import UserError


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UserError, match=r"skip_bad=-1; expected a whole number of at least 0"):
        ReadOptions(skip_bad=-1)
    with pytest.raises(UserError, match=r"kind='many'; expected one of single, multi, regression"):
        ReadOptions(kind="many")  # type: ignore[arg-type]


def test_examples_are_values_that_nobody_can_change() -> None:
    example = TextExample("a", None, ("x",), None, "f:1")
    assert example == TextExample("a", None, ("x",), None, "f:1")
    with pytest.raises(dataclasses.FrozenInstanceError):
        example.text = "b"  # type: ignore[misc]
    assert len({Span(0, 1, "A"), Span(0, 1, "A"), Span(0, 1, "B")}) == 2

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from glassbert.errors import DataError, ModelError, UserError
from glassbert.ranges import Count, Range, Share, ShareBelowOne
from glassbert.typed import check_fields, fits, record_from, settings_from, shown, typed


@dataclass(frozen=True, kw_only=True)
class Inner:
    name: str
    weight: Share = 0.5


@dataclass(frozen=True, kw_only=True)
class Table:
    steps: Count | None = None
    share: ShareBelowOne = 0.1
    angle: Annotated[float, Range(0, 360, has_low=False)] = 90.0
    mode: Literal["fast", "slow"] = "fast"
    path: Path = Path("x")
    columns: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: tuple[Inner, ...] = ()
    inner: Inner = field(default_factory=lambda: Inner(name="a"))
    free: Any = None

    def __post_init__(self) -> None:
        check_fields(self, "table")


def test_a_table_becomes_its_dataclass() -> None:
    table = {
        "steps": 3,
        "share": 0,
        "path": "a/b",
        "columns": {"text": 1},
        "parts": [{"name": "p", "weight": 1}],
        "inner": {"name": "b"},
        "free": [None],
    }
    made = settings_from(Table, table, "table")
    assert made == Table(
        steps=3,
        share=0.0,
        path=Path("a/b"),
        columns={"text": "1"},
        parts=(Inner(name="p", weight=1.0),),
        inner=Inner(name="b"),
        free=[None],
    )
    assert isinstance(made.share, float)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("value", [NAN, INF, -INF, -1, 0, 1.5, 10**30, 1e30, "3", True, [1], {}])
def test_a_count_is_a_whole_number_of_at_least_one(value: Any) -> None:
    with pytest.raises(UserError, match=r"table\.steps=.*; expected a whole number"):
        settings_from(Table, {"steps": value}, "table")


@pytest.mark.parametrize("value", [NAN, INF, -1, 1, 1e30, 10**30, "half", None])
def test_a_share_below_one_is_a_number_from_zero_to_one(value: Any) -> None:
    with pytest.raises(UserError, match=r"table\.share=.*; expected a number"):
        settings_from(Table, {"share": value}, "table")


@pytest.mark.parametrize("value", [NAN, 0, 361, -0.0])
def test_a_range_may_leave_out_its_ends(value: float) -> None:
    with pytest.raises(UserError, match="angle=.*; expected a number of more than 0 and at most 360"):
        settings_from(Table, {"angle": value}, "table")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "table.steps=0; expected a whole number of at least 1 and at most 1,000,000,000"),
        ({"share": NAN}, "table.share=nan"),
        ({"mode": "odd"}, "table.mode='odd'; expected one of fast, slow"),
        ({"mode": ["fast"]}, r"table.mode=\['fast'\]; expected one of"),
    ],
)
def test_what_python_passes_is_checked_like_a_recipe(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Table(**changes)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"stepps": 3}, "unknown key table.stepps; did you mean table.steps?"),
        ({"inner": {}}, "table.inner.name is missing"),
        ({"inner": 3}, "table.inner=3; expected a table"),
        ({"parts": {"name": "p"}}, "table.parts=.*; expected a list"),
        ({"parts": [{"name": "p"}, {"name": 3}]}, r"table.parts\[1\].name=3; expected a string"),
        ({"counts": {"a": "b"}}, "table.counts.a='b'; expected a whole number"),
        ({"columns": [1]}, r"table.columns=\[1\]; expected a table"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(table: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        settings_from(Table, table, "table")


@pytest.mark.parametrize("content", [None, 3, [], {}, {"name": None}, {"name": "a", "weight": 2}])
def test_a_damaged_file_of_ours_is_one_error_that_names_it(content: Any) -> None:
    with pytest.raises(ModelError, match="^run.json: "):
        record_from(Inner, content, "run.json", error=ModelError)


def test_a_file_of_ours_may_have_more_keys() -> None:
    assert record_from(Inner, {"name": "a", "new": 1}, "f", error=DataError) == Inner(name="a")


@pytest.mark.parametrize("value", ["9" * 256, "猫" * 86, "a/" * 2048 + "a", "a\0b", "\ud800"])
def test_a_path_that_no_system_can_have_is_refused_before_it_is_used(value: str) -> None:
    with pytest.raises(UserError, match=r"^table\.path=.*; expected a path "):
        settings_from(Table, {"path": value}, "table")
    settings_from(Table, {"path": "猫" * 85}, "table")


def test_a_message_shows_no_megabytes() -> None:
    with pytest.raises(UserError, match=r"\.\.\. \(5,000,002 characters\)") as caught:
        typed("x" * 5_000_000, int, "a")
    assert len(str(caught.value)) < 200
    assert shown("a\nb") == "'a\\nb'"


def test_what_fits_a_type_fits_it_to_the_bottom() -> None:
    assert fits(((1, 2.5), ("a",)), tuple[tuple[float | str, ...], ...])
    assert fits({"a": (None, 1)}, Mapping[str, tuple[int | None, ...]])
    assert fits(("a", 1), tuple[str, int])
    for value, hint in (
        (((1, None),), tuple[tuple[float | str, ...], ...]),
        ({"a": (1.5,)}, Mapping[str, tuple[int, ...]]),
        (("a", 1, 2), tuple[str, int]),
        (True, float),
        (True, int),
        (None, str),
        ("c", Literal["a", "b"]),
        ([1], tuple[int, ...]),
    ):
        assert not fits(value, hint), (value, hint)


def test_numbers_of_numpy_become_plain_ones_and_no_number_is_too_large_for_a_message() -> None:
    for made in (
        settings_from(Table, {"steps": np.int64(3), "share": np.float32(0.5)}, "table"),
        Table(steps=np.int64(3), share=np.float32(0.5)),
    ):
        assert (made.steps, made.share) == (3, 0.5)
        assert (type(made.steps), type(made.share)) == (int, float)
    for value in (10**400, 10**5000):
        with pytest.raises(UserError, match="expected a number"):
            settings_from(Table, {"share": value}, "table")
    with pytest.raises(UserError, match="expected a whole number"):
        settings_from(Table, {"steps": np.float64(3)}, "table")

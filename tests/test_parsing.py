import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.errors import ModelError
from glassbert.parsing import MAX_DEPTH, MAX_DIGITS, FormatError, is_text, json_text, parse_json, parse_toml

HALF = "\\ud83d"
PAIR = "\\ud83d\\ude00"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_what_is_written_is_read_as_it_was(value: Any) -> None:
    assert parse_json(json_text(value)) == value
    assert parse_json(json_text(value, indent=2).encode("utf-8")) == value


@given(st.text() | st.binary())
def test_any_text_is_parsed_or_refused_by_one_error(text: str | bytes) -> None:
    for parse in (parse_json,) if isinstance(text, bytes) else (parse_json, parse_toml):
        with suppress(FormatError):
            parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value at line 1, column 1"),
        ("[1,\n 2", "delimiter at line 2, column 3"),
        ("[1] [2]", "Extra data"),
        ("[" * 100_000, f"more than {MAX_DEPTH} deep"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} deep"),
        ('{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), f"more than {MAX_DEPTH} deep"),
        ("[" + "1" * 5_000 + "]", f"more than {MAX_DIGITS} digits"),
        ("[" + "1" * (MAX_DIGITS + 1) + "]", f"more than {MAX_DIGITS} digits"),
        ("[NaN]", "NaN is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[1e999]", "the number 1e999 is too large"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' occurs twice"),
        (f'["{HALF}"]', "half of a character"),
        ('{"\\uD83D": 1}', "half of a character"),
        (f'[["{PAIR}", "{HALF} {PAIR}"]]', "half of a character"),
        ('["\ud800"]', "half of a character"),
        (b"[\xff]", "byte 1 is not utf-8"),
        (b'["\xed\xa0\x80"]', "is not utf-8"),
    ],
)
def test_json_that_could_do_harm_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason) as caught:
        parse_json(text)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "text",
    [
        "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        f'["{PAIR}"]',
        '["\\\\ud83d"]',  # a backslash, not a half of a character
        "[" + ",".join(["[1]"] * 1000) + "]",
        "1" * MAX_DIGITS,
        "1000000000000000019884624838656",  # how `transformers` says that a length has no limit
        b"\xef\xbb\xbf[1]",
    ],
)
def test_json_within_the_limits_is_read(text: str | bytes) -> None:
    assert parse_json(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a =", "Invalid value"),
        ("a = " + "[" * 5_000, f"more than {MAX_DEPTH} deep"),
        ("a = " + "[" * 90 + "]" * 90, f"more than {MAX_DEPTH} deep"),
        ("a = " + "1" * 5_000, f"more than {MAX_DIGITS} digits"),
        ("a = " + "1" * 1_000, f"more than {MAX_DIGITS} digits"),
        ("a = 1\na = 2", "overwrite"),
        ("a = '\udcff'", "half of a character"),
    ],
)
def test_toml_that_could_do_harm_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        parse_toml(text)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"scores": {"neg": 0.5, "pos": float("nan")}}, "scores.pos is nan"),
        ([1.0, float("inf")], "1 is inf"),
        (float("-inf"), "the result is -inf"),
    ],
)
def test_a_number_that_is_not_finite_is_named_and_never_written(value: Any, name: str) -> None:
    with pytest.raises(ModelError, match=name):
        json_text(value)


def test_what_is_written_is_always_utf8() -> None:
    text = json_text({"name": "a\udcff", "\ud800": "猫"})
    assert is_text(text)
    assert parse_json(text) == {"name": "a\\udcff", "\\ud800": "猫"}


def test_halves_of_characters_pass_only_where_they_are_expected() -> None:
    assert parse_json('["\\ud800"]', allow_halves=True) == ["\ud800"]
    with pytest.raises(FormatError, match="deep"):
        parse_json("[" * 99 + '"\\ud800"' + "]" * 99, allow_halves=True)

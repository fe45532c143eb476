import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.metrics.mixed_text import english_tokens, longest_common_run, mixed_tokens, without_marks
from helpers.naive_scores import cmrc_tokens, longest_common

TREEBANK = json.loads((Path(__file__).parent / "golden" / "treebank.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("row", TREEBANK, ids=lambda row: row["text"])
def test_english_is_divided_as_nltk_divides_it(row: dict[str, Any]) -> None:
    assert english_tokens(row["text"]) == row["tokens"]


def test_only_a_full_stop_that_ends_a_sentence_leaves_its_word() -> None:
    assert english_tokens("it ended. then") == ["it", "ended", ".", "then"]
    assert english_tokens("j. r. r. tolkien") == ["j.", "r.", "r.", "tolkien"]


def test_chinese_is_divided_into_characters_and_marks_are_gone() -> None:
    assert mixed_tokens(" 《iPhone 4S》是“苹果”公司的手机。") == ["iphone", "4s", *"是苹果公司的手机"]


def test_marks_are_taken_out_before_words_are_divided() -> None:
    assert mixed_tokens("GB-18030（中文）") == ["gb18030", "中", "文"]
    assert without_marks(" A_b，C ") == "abc"


def test_dots_of_an_ellipsis_stay_as_in_the_script() -> None:
    assert without_marks("等……") == "等……"


@given(st.text(alphabet="ab 中文国-，。《》:", max_size=20))
def test_mixed_text_is_divided_as_defined(text: str) -> None:
    assert mixed_tokens(text) == cmrc_tokens(text, str.split)


@given(*[st.lists(st.sampled_from("abc"), max_size=12)] * 2)
def test_the_longest_common_run_is_found(a: list[str], b: list[str]) -> None:
    assert longest_common_run(a, b) == longest_common(a, b)


def test_frequent_tokens_of_long_answers_count_too() -> None:
    # difflib leaves out what makes up more than a hundredth of 200 tokens or more, if one lets it.
    assert longest_common_run(["a", *["x"] * 300], [*["x"] * 250, "b"]) == 250


def test_any_number_of_endings_is_split() -> None:
    assert english_tokens("cannot's") == ["can", "not", "'s"]
    assert english_tokens("do" + "n't" * 2000) == ["do", *["n't"] * 2000]

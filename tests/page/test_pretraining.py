"""What the server answers of pre-training: words as one, odd texts, clear refusals."""

from typing import Any

import pytest

from page.conftest import PageClient


def test_whole_chinese_words_share_their_dice(page: PageClient) -> None:
    asked = {"text": "北京是中国的首都。", "whole_words": True}
    tokens = page.post("api/pretrain", asked).json()["tokens"]
    words = ["北京", "是", "中国", "的", "首都", "。"]
    found, rolls = "", []
    for one in tokens[1:-1]:
        found += ("|" if one["starts_word"] else "") + one["token"]
        rolls.append(one["roll"])
    assert found.strip("|").split("|") == words
    assert rolls[0] == rolls[1] != rolls[2]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"text": ""}, "blank"),
        ({"text": " \n\n "}, "blank"),
        ({"text": "a" * 10_001}, "10,001 characters"),
        ({"text": "a", "select_prob": 0}, "select_prob"),
        ({"text": "a", "mask_prob": 0.9, "random_prob": 0.2}, "add up"),
        ({"text": "a", "max_length": 3}, "leaves no room"),
        ({"text": "a", "max_length": 100_000}, "reads at most"),
        ({"text": "a", "seed": "x"}, "expected"),
        *(({"text": "a", name: 10**30}, "expected") for name in ("seed", "epoch", "example")),
        ({"text": "a", "epoch": -1}, "expected"),
    ],
)
def test_bad_questions_get_one_clear_line(page: PageClient, asked: dict[str, Any], says: str) -> None:
    response = page.post("api/pretrain", asked)
    assert response.status == 422
    assert says in response.json()["error"]


@pytest.mark.parametrize(
    "text",
    ["👩‍👩‍👧 emoji 🎉.", "שלום עולם. זה טקסט.", "a " * 5_000, "\u200b.", "[MASK] [CLS]", "字" * 10_000],
)
def test_odd_texts_become_examples(page: PageClient, text: str) -> None:
    found = page.post("api/pretrain", {"text": text, "example": 10**6}).json()
    assert len(found["tokens"]) >= 3
    assert found["draws"]["chosen"] >= 1

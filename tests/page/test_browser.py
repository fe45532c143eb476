"""The page in a real browser: every digit on screen against float64 NumPy, in both languages."""

import gzip
import re
from math import isclose
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from glassbert.page.files import read_page
from helpers.browsing import (
    LANGUAGES,
    TEXT,
    listed,
    misprints,
    needs_browser,
    printed_by,
    rows_of_flow,
    show,
    texts,
)
from helpers.exact import exact_pass, exact_row, scale_of

pytestmark = needs_browser
MASKED = 3
"""The token of the text that is hidden."""


@pytest.fixture(scope="module")
def exact() -> dict[str, np.ndarray]:
    """Every number of the pass, from the weights alone."""
    return exact_pass(TEXT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_the_flow_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    shown_at: dict[int, set[str]] = {}
    for token in (0, 2, MASKED):
        show(tab, address, "flow", language, token=token)
        tab.wait_for_selector(".stage .digits")
        for name, found in rows_of_flow(tab):
            if name not in exact:
                continue
            row = exact_row(exact, name, token)
            assert misprints(found, row[: len(found)], scale_of(exact, name, row)[: len(found)]) == [], name
            if found:
                shown_at.setdefault(token, set()).add(name)
    everywhere = shown_at[2]
    assert len(everywhere) >= 40
    assert not [name for name in everywhere if name.startswith("head.")]
    assert shown_at[0] - everywhere == {"head.pooler.dense", "head.pooled", "head.nsp.logits"}
    assert shown_at[MASKED] - everywhere == {
        f"head.mlm.{kind}" for kind in ("dense", "act", "norm", "logits")
    }


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_an_attention_head_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    for stage in ("raw", "scores", "probs"):
        show(tab, address, "attention", language, layer=1, head=2, stage=stage)
        tab.click("figure.matrix button")
        found = texts(tab, "figure.matrix tbody td")
        name = f"enc.1.attn.{stage}"
        expected = exact[name][0, 2]
        assert misprints(found, expected, scale_of(exact, name, expected)) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_cell_of_attention_is_shown_down_to_its_products(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    show(tab, address, "attention", language, layer=1, head=2, query=3, key=1)
    tab.wait_for_selector(".chain .sum:nth-child(3)")
    sums = tab.query_selector_all(".chain .sum")
    assert len(sums) == 3
    tab.click(".chain .sum:first-child .tools > button")
    products = texts(sums[0], "tbody td:last-child")
    q, k = (exact[f"enc.1.attn.{side}"][token, 128:192] for side, token in (("q", 3), ("k", 1)))
    assert misprints(products, q * k, places=6) == []
    written = [one.query_selector("h3 b").inner_text() for one in sums]
    for text, stage in zip(written, ("raw", "scores", "probs"), strict=True):
        name = f"enc.1.attn.{stage}"
        cell, row = exact[name][0, 2, 3, 1:2], exact[name][0, 2, 3]
        assert misprints([text], cell, scale_of(exact, name, row)[1:2], places=6) == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_parameters_on_screen_close(tab: Any, address: str, language: str) -> None:
    show(tab, address, "anatomy", language, source="bert-large-zh")
    total = tab.wait_for_selector(".total b").inner_text()
    assert total == "324,472,832"
    groups = [
        int(one.get_attribute("data-value")) for one in tab.query_selector_all("tr.group td[data-value]")
    ]
    assert sum(groups) == 324_472_832


@pytest.mark.parametrize("language", LANGUAGES)
def test_backprop_shows_the_worked_network_to_ten_digits(tab: Any, address: str, language: str) -> None:
    show(tab, address, "backprop", language)
    tab.wait_for_selector("pre.arithmetic .newest")
    tab.click(".tools button:nth-of-type(4)")
    text = tab.inner_text("pre.arithmetic")
    for figure in ("0.5932699921", "0.7513650696", "0.2983711088", "0.0821670406", "0.2804714468"):
        assert figure in text or figure in tab.inner_text("article")


def test_copied_python_computes_the_number(tab: Any, address: str) -> None:
    places = {
        "enc.0.attn.q": "2,3",
        "enc.0.mlp.act": "2,3",
        "enc.1.attn.context": "2,9",
        "enc.1.attn.probs": "0,2,3,1",
        "emb.norm": "1,4",
        "head.mlm.logits": "0,6870",
        "head.nsp.logits": "0,1",
    }
    for name, place in places.items():
        show(tab, address, "flow", token=2, cell=f"{name}@{place}")
        tab.wait_for_selector(".sum details.python")
        by_hand, recorded = printed_by(tab.text_content(".sum details.python pre"))
        assert isclose(by_hand, recorded, rel_tol=1e-4, abs_tol=1e-5)
        assert misprints([tab.inner_text(".sum h3 b")], recorded, 0.0, places=6) == []


def test_the_keyboard_reaches_every_page_and_cell(tab: Any, address: str) -> None:
    show(tab, address, "start")
    for page in listed(tab):
        link = tab.wait_for_selector(f'nav a[href*="#/{page}"]')
        link.focus()
        tab.keyboard.press("Enter")
        tab.wait_for_selector(f'nav a[href*="#/{page}"][aria-current="page"]')
    show(tab, address, "attention", layer=0, head=0)
    tab.focus("figure.matrix canvas")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_selector(".chain .sum")
    assert "query=2" in tab.url
    assert "key=1" in tab.url


def test_what_the_user_types_becomes_part_of_the_address(tab: Any, address: str) -> None:
    show(tab, address, "start")
    tab.fill("header input >> nth=0", "猫坐在[MASK]上。")
    tab.press("header input >> nth=0", "Enter")
    tab.wait_for_selector(".tokens >> text=猫")
    assert quote("猫") in tab.url


def test_a_bad_text_is_told_on_the_page_and_the_page_stays(tab: Any, address: str) -> None:
    show(tab, address, "start", text="   ")
    assert "blank" in tab.inner_text("[role=alert]")
    tab.fill("header input >> nth=0", "A good text.")
    tab.press("header input >> nth=0", "Enter")
    tab.wait_for_selector(".tokens")
    assert tab.query_selector("[role=alert]") is None


def test_the_built_page_is_small() -> None:
    packed = {name: len(gzip.compress(one.content)) for name, one in read_page().items()}
    assert sum(packed.values()) <= 350_000
    assert re.search(r"index.*\.js", " ".join(packed))
    assert max(packed.values()) <= 120_000

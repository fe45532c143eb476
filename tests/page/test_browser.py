"""The page in a real browser: every digit on screen against float64 NumPy, in both languages."""

import gzip
import re
from math import isclose
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from glassbert.page.files import read_page
from helpers.browsing import LANGUAGES, TEXT, listed, needs_browser, printed_by, show, shown
from helpers.exact import exact_pass

pytestmark = needs_browser


@pytest.fixture(scope="module")
def exact() -> dict[str, np.ndarray]:
    """Every number of the pass, from the weights alone."""
    return exact_pass(TEXT)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_the_flow_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    show(tab, address, "flow", language, token=2)
    tab.wait_for_selector(".stage .digits")
    num_compared = 0
    for stage in tab.query_selector_all(".stage"):
        name = stage.get_attribute("data-step")
        if name not in exact:
            continue
        for column, number in enumerate(stage.query_selector_all(".number")):
            expected = float(exact[name][2, column])
            assert isclose(shown(number.inner_text()), expected, abs_tol=6e-5), (name, column)
            num_compared += 1
    assert num_compared >= 8 * 40


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_digit_of_an_attention_head_is_right(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    for stage in ("raw", "scores", "probs"):
        show(tab, address, "attention", language, layer=1, head=2, stage=stage)
        tab.click("figure.matrix button")
        rows = tab.query_selector_all("figure.matrix tbody tr")
        expected = exact[f"enc.1.attn.{stage}"].reshape(-1, len(rows), len(rows))[2]
        for row, line in enumerate(rows):
            for column, number in enumerate(line.query_selector_all("td")):
                assert isclose(shown(number.inner_text()), expected[row, column], rel_tol=1e-3, abs_tol=1e-4)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_cell_of_attention_is_shown_down_to_its_products(
    tab: Any, address: str, language: str, exact: dict[str, np.ndarray]
) -> None:
    show(tab, address, "attention", language, layer=1, head=2, query=3, key=1)
    tab.wait_for_selector(".chain .sum:nth-child(3)")
    sums = tab.query_selector_all(".chain .sum")
    assert len(sums) == 3
    tab.click(".chain .sum:first-child .tools > button")
    products = [shown(one.inner_text()) for one in sums[0].query_selector_all("tbody td:last-child")]
    size = len(exact["enc.1.attn.raw"].reshape(-1)) // 4
    raw = exact["enc.1.attn.raw"].reshape(4, int(size**0.5), -1)[2, 3, 1]
    assert len(products) == 64
    assert isclose(sum(products), raw, abs_tol=1e-4)


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
    places = {"enc.0.attn.q": "2,3", "enc.0.mlp.act": "2,3", "enc.1.attn.context": "2,9", "emb.norm": "1,4"}
    for name, place in places.items():
        show(tab, address, "flow", token=2, cell=f"{name}@{place}")
        tab.wait_for_selector(".sum details.python")
        by_hand, recorded = printed_by(tab.text_content(".sum details.python pre"))
        assert isclose(by_hand, recorded, rel_tol=1e-4)
        assert isclose(shown(tab.inner_text(".sum h3 b")), recorded, abs_tol=1e-6)


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

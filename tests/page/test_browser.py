"""The page in a real browser: every digit on screen against float64 NumPy, in both languages."""

import contextlib
import gzip
import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from math import isclose
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from safetensors.numpy import load_file

import glassbert as gb
from glassbert.model_names import model_folder
from glassbert.page.files import read_page
from glassbert.storage import read_json
from helpers import numpy_networks

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium, which is not installed"),
    pytest.mark.xdist_group("browser"),
]
TEXT = "The cat [MASK] on the mat."
LANGUAGES = ("en", "zh")
PAGES = ("start", "flow", "attention", "anatomy", "why", "health", "backprop", "lab")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """`glassbert open`, as a user starts it."""
    command = [sys.executable, "-m", "glassbert", "open", "demo", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    """A tab that may talk to the page's own server alone, and whose script must not fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    tab.asked, tab.failures = [], []
    tab.on("request", lambda request: tab.asked.append(request.url))
    tab.on("pageerror", lambda error: tab.failures.append(str(error)))
    yield tab
    assert tab.failures == []
    assert [url for url in tab.asked if not url.startswith((address, "data:", "blob:"))] == []
    context.close()


def show(tab: Any, address: str, page: str, language: str = "en", **params: object) -> None:
    query = "&".join(f"{name}={quote(str(value))}" for name, value in {"text": TEXT, **params}.items())
    tab.goto(f"{address}#/{page}?{query}")
    tab.evaluate(f"localStorage.setItem('language', '{language}')")
    tab.reload()
    tab.wait_for_selector("h1")


def shown(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


@pytest.fixture(scope="module")
def exact() -> dict[str, np.ndarray]:
    """Every number of the pass, from the weights alone."""
    folder = model_folder("demo")
    weights = {name: one.astype(np.float64) for name, one in load_file(folder / "model.safetensors").items()}
    pieces = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    tokens = gb.load("demo").trace(TEXT).tokens
    ids = [pieces.index(token) for token in tokens]
    places = [tokens.index("[MASK]")]
    config = read_json(folder / "config.json")
    found: dict[str, np.ndarray] = numpy_networks.bert(weights, config, ids, [0] * len(ids), places, [0], 0)
    return found


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
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(tab.text_content(".sum details.python pre"), {})
        by_hand, recorded = map(float, printed.getvalue().split())
        assert isclose(by_hand, recorded, rel_tol=1e-4)
        assert isclose(shown(tab.inner_text(".sum h3 b")), recorded, abs_tol=1e-6)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_is_wider_than_a_narrow_or_a_wide_window(tab: Any, address: str, language: str) -> None:
    for page in PAGES:
        show(tab, address, page, language)
        for width in (1280, 360):
            tab.set_viewport_size({"width": width, "height": 800})
            tab.wait_for_timeout(50)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (page, width)


def test_the_keyboard_reaches_every_page_and_cell(tab: Any, address: str) -> None:
    show(tab, address, "start")
    for page in PAGES:
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

"""What every page must be, in both languages and themes: accessible, never too wide, usable by keyboard."""

from typing import Any
from urllib.parse import quote

import pytest

from helpers.browsing import LANGUAGES, axe_faults, listed, needs_browser, settle

pytestmark = needs_browser
TEXT = "The cat [MASK] on the mat."
CHINESE = "北京是中[MASK]的首都。"
# Pages with as much on them as they can show.
VIEWS = {
    "start": "step=2",
    "flow": "token=2&cell=enc.0.attn.q@2,3",
    "attention": "layer=1&head=1&query=3&key=1",
    "anatomy": "source=bert-large-zh",
    "compare": f"other={quote('A dog [MASK] there.')}&tensor=enc.1.attn.probs&all=1",
    "words": "piece=7000",
    "backprop": "weight=encoder.blocks.0.mlp.inner.weight",
    "lab": "experiment=saturation",
}
WIDTHS = (1280, 640, 360)
"""A wide window, the same at 200%, and a narrow one."""


# What stands beside a list must fit its column: nobody scrolls sideways to read a sentence.
CUT_OFF = """() => [...document.querySelectorAll('aside, .heads > *')]
  .filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.className || one.tagName)"""


def visit(tab: Any, page: str, text: str = TEXT) -> None:
    """Go to a page without loading everything again, and wait until it has what it asked for."""
    tab.evaluate("(hash) => { location.hash = hash }", f"#/{page}?text={quote(text)}&{VIEWS.get(page, '')}")
    tab.wait_for_selector(f'nav a[href*="#/{page}"][aria-current="page"]')
    settle(tab)


def start(tab: Any, address: str, language: str, theme: str) -> None:
    tab.goto(address)
    tab.evaluate(f"localStorage.setItem('language', '{language}'); localStorage.setItem('theme', '{theme}')")
    tab.reload()
    tab.wait_for_selector(".bars")


@pytest.mark.parametrize(
    ("language", "theme"),
    [
        ("en", "light"),
        ("zh", "dark"),
        pytest.param("en", "dark", marks=pytest.mark.slow),
        pytest.param("zh", "light", marks=pytest.mark.slow),
    ],
)
def test_every_page_is_accessible(tab: Any, address: str, language: str, theme: str) -> None:
    start(tab, address, language, theme)
    faults = {}
    for page in listed(tab):
        visit(tab, page)
        faults[page] = axe_faults(tab)
    assert {page: found for page, found in faults.items() if found} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_page_is_wider_than_its_window(tab: Any, address: str, language: str) -> None:
    start(tab, address, language, "light")
    for page in listed(tab):
        visit(tab, page, CHINESE if language == "zh" else TEXT)
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 800})
            tab.wait_for_timeout(50)
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, (page, width)
            assert tab.evaluate(CUT_OFF) == [], (page, width)


FOCUSABLE = """() => [...document.querySelectorAll(
    'a[href], button:not(:disabled), input, select, summary, [tabindex="0"]')]
  .filter((one) => one.checkVisibility() && !one.closest('details:not([open]) > :not(summary)'))"""


def test_the_tab_key_reaches_everything_on_every_page(tab: Any, address: str) -> None:
    start(tab, address, "en", "light")
    tab.evaluate("document.addEventListener('focusin', (event) => window.wanted?.delete(event.target))")
    for page in listed(tab):
        visit(tab, page)
        count = tab.evaluate(f"(window.wanted = new Set(({FOCUSABLE})())).size")
        tab.evaluate("document.activeElement?.blur(); window.getSelection().removeAllRanges()")
        tab.evaluate("document.querySelector('.skip').focus()")
        for number in range(count + 5):
            tab.keyboard.press("Tab")
            if number % 8 == 7 and not tab.evaluate("wanted.size"):
                break
        missed = tab.evaluate("[...wanted].map((one) => one.outerHTML.slice(0, 120))")
        assert missed == [], page


def test_keys_alone_do_what_the_pages_are_for(tab: Any, address: str) -> None:
    start(tab, address, "en", "light")
    keys = tab.keyboard
    visit(tab, "flow")
    tab.focus('[data-step="enc.0.attn.q"] canvas')
    for key in ("End", "ArrowLeft", "Enter"):
        keys.press(key)
    tab.wait_for_selector('.sum[data-cell="enc.0.attn.q[2,254]"]')
    visit(tab, "words")
    tab.focus("main input[type=search]")
    keys.type("river")
    tab.wait_for_selector("main .tokens button")
    keys.press("Tab")
    keys.press("Enter")
    tab.wait_for_selector(".sum h2 >> text=river")
    visit(tab, "compare")
    tab.focus("main input >> nth=0")
    keys.press("Control+A")
    keys.type("A bird [MASK] there.")
    keys.press("Enter")
    tab.wait_for_selector(".sides q >> text=A bird")
    visit(tab, "start")
    tab.focus(".tour .primary")
    keys.press("Enter")
    tab.wait_for_selector("[data-tour=hidden]")


def test_the_address_holds_what_is_shown(tab: Any, address: str) -> None:
    start(tab, address, "en", "dark")
    for page in VIEWS:
        visit(tab, page)
        before = tab.inner_text("main")
        tab.reload()
        tab.wait_for_selector("main h1")
        settle(tab)
        assert tab.inner_text("main") == before, page
    assert tab.evaluate("document.documentElement.dataset.theme") == "dark"

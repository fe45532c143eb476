"""A Chinese reader finds no English sentence on any page, whatever the model."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.browsing import listed, needs_browser, opened, settle, show, watch
from helpers.small_served import write_small
from page.test_bad_input import damaged
from page.test_models import MODELS

pytestmark = needs_browser
SENTENCE = re.compile(r"[A-Za-z][a-z]*(?: [A-Za-z][a-z]*){3,}")
"""Four English words in a row."""
# What stands on the page besides the model's text, code, and names of files and tensors.
WRITTEN = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement;
    if (!parent.checkVisibility()) continue;
    if (parent.closest('code, pre, script, style, textarea, q, .highlighted, .tokens')) continue;
    found.push(node.textContent.replace(/`[^`]*`/g, ''));
  }
  return found;
}"""


def english(tab: Any) -> list[str]:
    """Return the English sentences on a page."""
    return [text for text in tab.evaluate(WRITTEN) if SENTENCE.search(text)]


def walk(tab: Any, address: str, *details: str) -> dict[str, list[str]]:
    """Return the English sentences of every page of a model, by page."""
    tab.goto(f"{address}nothing")
    tab.evaluate("localStorage.setItem('language', 'zh')")
    tab.goto(address)
    found = {}
    for page in [*listed(tab), *details]:
        tab.evaluate("(page) => { location.hash = `#/${page}` }", page)
        tab.wait_for_selector(f'nav a[href*="#/{page.partition("?")[0]}"][aria-current="page"]')
        settle(tab)
        tab.wait_for_selector("main progress", state="detached")
        found[page] = english(tab)
    return {page: texts for page, texts in found.items() if texts}


METHODS = [f"why?method={one}" for one in ("occlusion", "heads", "layers", "rollout", "lens", "tokens")]


def test_the_built_in_model_speaks_chinese(tab: Any, address: str) -> None:
    assert walk(tab, address, *METHODS, "lab?experiment=saturation", "anatomy?source=bert-large-zh") == {}


@pytest.mark.parametrize("kind", ["minilm", "tf1", "translator"])
def test_other_models_speak_chinese(browser: Any, tmp_path: Path, kind: str) -> None:
    tab = browser.new_page()
    with opened(MODELS[kind](tmp_path / "model")) as address:
        watch(tab)
        assert walk(tab, address) == {}
        tab.close()


def test_what_is_said_of_the_users_rows_is_chinese(browser: Any, tmp_path: Path) -> None:
    rows = tmp_path / "dev.tsv"
    rows.write_text("text\tlabel\na b c\tgood\nx y\tbad\nz\tgood\n", encoding="utf-8")
    tab = browser.new_page()
    watch(tab)
    with opened(write_small("classify", tmp_path / "model"), "--data", rows) as address:
        assert walk(tab, address) == {}
        show(tab, address, "data", "zh")
        assert "每段文本得到的标签都是" in tab.wait_for_selector("main .warning").inner_text()
        tab.close()


def test_a_damaged_model_is_described_in_chinese(browser: Any, tmp_path: Path) -> None:
    folder = damaged(tmp_path / "model", "bert.encoder.layer.1.intermediate.dense.weight", np.nan)
    tab = browser.new_page()
    with opened(folder) as address:
        show(tab, address, "health", "zh")
        tab.wait_for_selector(".verdicts .fault")
        assert "检查点已损坏" in tab.inner_text("[role=alert]")
        assert english(tab) == []
        tab.click("header .switches button >> nth=0")  # what was said before is said again in English
        tab.wait_for_selector("[role=alert] >> text=the checkpoint is damaged")
        assert "NaN or infinite in" in tab.inner_text(".verdicts")
        tab.close()

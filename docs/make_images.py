"""Make the pictures of the docs: `python docs/make_images.py` (needs chromium and a Chinese font).

python docs/make_images.py --all DIR [--width 360] [MODEL ...]   every page in both languages and themes
"""

import argparse
import contextlib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from playwright.sync_api import Browser, Page, Request, sync_playwright

import glassbert as gb
from glassbert.demo.story import Story
from glassbert.demo.tasks import show_tasks

IMAGES = Path(__file__).resolve().parent / "images"
TEXTS = {"en": "He was born in the United [MASK].", "zh": "北京是中[MASK]的首都。"}
VIEWS = {
    "start": "#/start?step=0",
    "flow": "#/flow?token=3&cell=enc.0.attn.q@3,3",
    "attention": "#/attention?layer=1&head=1&query=3&key=2",
    "words": "#/words?piece={piece}",
}
PIECES = {"en": "she", "zh": "他"}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
WIDTH = 1280
SETTLED_MS = 1500
"""By then a page has drawn what it asked for."""
MAX_WAITS = 20
# What makes a page show more than its first view.
MORE = {**VIEWS, "lab": "#/lab?experiment=saturation", "anatomy": "#/anatomy?source=bert-large-zh"}


def main() -> None:
    """Make the pictures that are asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", type=Path, metavar="DIR")
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("models", nargs="*", default=["demo"])
    asked = parser.parse_args()
    if asked.all:
        photograph_all(asked.all, asked.models, asked.width)
    else:
        photograph_docs()


def photograph_all(folder: Path, models: list[str], width: int) -> None:
    """Photograph every page of models as a whole, in both languages and themes."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        pieces = gb.load("demo").tokenizer.vocabulary.pieces
        for model in models:
            with _page(*model.split()) as address:
                for language, theme in itertools.product(TEXTS, THEMES):
                    tab = _tab(browser, language, theme, width)
                    tab.goto(address)
                    tab.wait_for_selector(".model:not(:empty)")
                    links = [one.get_attribute("href") or "" for one in tab.query_selector_all("nav a")]
                    for page in re.findall(r"#/(\w+)", " ".join(links)):
                        tab.goto(
                            address + MORE.get(page, f"#/{page}").format(piece=pieces.index(PIECES[language]))
                        )
                        _settle(tab)
                        tab.add_style_tag(content=".stage { content-visibility: visible !important }")
                        name = f"{Path(model.split()[0]).name}-{page}-{language}-{theme}-{width}.png"
                        tab.screenshot(path=folder / name, full_page=True)
                    tab.context.close()
        browser.close()


def photograph_docs() -> None:
    """Photograph the report of the demo's classifier, and the glass-box page in both languages."""
    with (
        tempfile.TemporaryDirectory() as name,
        contextlib.chdir(name),
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        show_tasks(Story(is_silent=True), Path("."), is_kept=True)
        tab = browser.new_page(viewport={"width": 1000, "height": 1240})
        tab.goto(f"file://{name}/report.html")
        _photograph(tab, "report.png")
        pieces = gb.load("demo").tokenizer.vocabulary.pieces
        with _page("demo") as address:
            for language, text in TEXTS.items():
                for view, where in VIEWS.items():
                    url = f"{address}{where.format(piece=pieces.index(PIECES[language]))}&text={quote(text)}"
                    _view(browser, url, language, f"{view}-{language}.png")
        with _page("classify", "--data", "notes/test.jsonl") as address:
            for language in TEXTS:
                _view(browser, f"{address}#/data", language, f"data-{language}.png")
        browser.close()


@contextlib.contextmanager
def _page(*arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "glassbert", "open", *arguments, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def _view(browser: Browser, url: str, language: str, name: str) -> None:
    tab = _tab(browser, language)
    tab.goto(url)
    tab.wait_for_selector(".sum, .judged, .shaded")
    tab.wait_for_timeout(SETTLED_MS)
    _photograph(tab, name)
    tab.context.close()


def _settle(tab: Page) -> None:
    """Wait until the page has asked for nothing more for a while."""
    pending: set[Request] = set()

    def on_request(request: Request) -> None:
        if request.resource_type != "eventsource":  # the events of a run have no end
            pending.add(request)

    tab.on("request", on_request)
    for event in ("requestfinished", "requestfailed"):
        tab.on(event, lambda request: pending.discard(request))
    tab.reload()
    for _ in range(MAX_WAITS):
        tab.wait_for_timeout(SETTLED_MS)
        if not pending:
            return


def _tab(
    browser: Browser, language: str, theme: Literal["light", "dark"] = "light", width: int = WIDTH
) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        locale="zh-CN" if language == "zh" else "en-GB",
        color_scheme=theme,
    )
    return context.new_page()


def _photograph(tab: Page, name: str) -> None:
    tab.screenshot(path=IMAGES / name)
    print(IMAGES / name)


if __name__ == "__main__":
    sys.exit(main())

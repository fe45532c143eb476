"""Make the pictures of the docs: `python docs/make_images.py` (needs chromium and a Chinese font)."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, Page, sync_playwright

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


def main() -> None:
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
    context = browser.new_context(
        viewport={"width": 1280, "height": 860}, locale="zh-CN" if language == "zh" else "en-GB"
    )
    tab = context.new_page()
    tab.goto(url)
    tab.wait_for_selector(".sum, .judged, .shaded")
    tab.wait_for_timeout(1500)
    _photograph(tab, name)
    context.close()


def _photograph(tab: Page, name: str) -> None:
    tab.screenshot(path=IMAGES / name)
    print(IMAGES / name)


if __name__ == "__main__":
    sys.exit(main())

"""Make the pictures of the docs: `python docs/make_images.py` (needs chromium and a Chinese font)."""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Browser, sync_playwright

from glassbert.demo.story import Story
from glassbert.demo.tasks import show_tasks

IMAGES = Path(__file__).resolve().parent / "images"
TEXTS = {"en": "The river flows into the [MASK].", "zh": "这条河流入大[MASK]。"}
VIEWS = {
    "flow": "#/flow?token=3&cell=enc.0.attn.q@3,3",
    "attention": "#/attention?layer=1&head=1&query=3&key=2",
}


def main() -> None:
    """Photograph the report of the demo's classifier, and the glass-box page in both languages."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        _report(browser)
        with _page() as address:
            for language, text in TEXTS.items():
                for name, view in VIEWS.items():
                    _view(browser, f"{address}{view}&text={quote(text)}", language, f"{name}-{language}.png")
        browser.close()


def _report(browser: Browser) -> None:
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        show_tasks(Story(is_silent=True), Path("."), is_kept=True)
        tab = browser.new_page(viewport={"width": 1000, "height": 1240})
        tab.goto(f"file://{name}/report.html")
        tab.screenshot(path=IMAGES / "report.png")
        tab.close()
    print(IMAGES / "report.png")


@contextlib.contextmanager
def _page() -> Iterator[str]:
    command = [sys.executable, "-m", "glassbert", "open", "demo", "--no-browser"]
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
    tab.wait_for_selector(".sum")
    tab.wait_for_timeout(500)
    tab.screenshot(path=IMAGES / name)
    context.close()
    print(IMAGES / name)


if __name__ == "__main__":
    sys.exit(main())

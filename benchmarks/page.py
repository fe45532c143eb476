"""How fast is the page, and does its memory stay bounded? `glassbert open` in a real browser on this machine.

Measured: first paint and usable (an answer on screen) of a loaded page; a click on a cached trace of 512
tokens (another block of Attention, another token of Flow, a cell); a new text of 16 tokens on a 12x768 model
with random weights; and, with --soak, the memory of server and tab while pages are clicked and texts change.
Each has a limit; the exit code is 1 if one is missed. Close other programs first; a minute, and the soak.

    python benchmarks/page.py [--clicks 20] [--soak MINUTES] [--only start click text soak]
"""

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

import glassbert as gb

PAINT_MS, USABLE_MS, CLICK_MS, TEXT_MS = 500, 1000, 100, 500
GROWTH = 1.10
"""What memory may grow by after the caches are full."""
LONG = " ".join(["The cat sat on the mat ."] * 90)
PAGES = ("start", "flow", "attention", "anatomy", "words", "backprop")
# Go to a view, and return the milliseconds until the page shows what was asked for.
MEASURED = """([hash, selector]) => new Promise((done) => {
  const began = performance.now();
  location.hash = hash;
  const look = () => {
    if (document.querySelector(selector)) requestAnimationFrame(() => done(performance.now() - began));
    else requestAnimationFrame(look);
  };
  look();
})"""


@contextlib.contextmanager
def opened(*arguments: str | Path) -> Iterator[tuple[str, int]]:
    """Run `glassbert open`; yield its address and its process."""
    command = [sys.executable, "-m", "glassbert", "open", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def within_limit(name: str, values: list[float], limit: float) -> bool:
    """Print a line; return whether the median is within the limit."""
    median = statistics.median(values)
    verdict = "ok" if median <= limit else "MISSED"
    print(
        f"{name:44} {median:8.1f} ms  (largest {max(values):.1f}, limit {limit:.0f})  {verdict}", flush=True
    )
    return median <= limit


def starts(tab: Page, address: str, times: int) -> bool:
    """Measure how long a loaded page takes to appear and to be usable."""
    paints, usable = [], []
    for _ in range(times + 1):
        tab.goto("about:blank")
        tab.goto(address)
        tab.wait_for_selector(".places .score")
        usable.append(tab.evaluate("performance.now()"))
        paints.append(tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    return all(
        [within_limit("first paint", paints[1:], PAINT_MS), within_limit("usable", usable[1:], USABLE_MS)]
    )


def clicks(tab: Page, address: str, times: int) -> bool:
    """Measure clicks on a trace of 512 tokens that the server has."""
    text = quote(LONG)
    tab.goto(f"{address}#/attention?text={text}")
    tab.wait_for_selector("figure.matrix canvas")
    blocks = tab.evaluate("document.querySelector('.picker select').options.length")
    count = tab.evaluate("document.querySelectorAll('.labels.rows li').length") or 512

    def measured(view: Callable[[int], tuple[str, str]]) -> list[float]:
        tab.evaluate(MEASURED, list(view(0)))
        return [float(tab.evaluate(MEASURED, list(view(number)))) for number in range(1, times + 1)]

    attention = measured(
        lambda number: (
            f"#/attention?text={text}&layer={number % blocks}",
            f"figure.matrix canvas[aria-label^='enc.{number % blocks}.']",
        )
    )
    flow = measured(
        lambda number: (
            f"#/flow?text={text}&token={7 * number % count}",
            f"main:has(.tokens li:nth-child({7 * number % count + 1}) button[aria-pressed=true]) "
            ".stages[aria-busy=false]",
        )
    )
    cells = measured(
        lambda number: (
            f"#/flow?text={text}&token=5&cell=enc.0.attn.q@5,{number}",
            f".sum[data-cell='enc.0.attn.q[5,{number}]']",
        )
    )
    named = {"another block": attention, "another token": flow, "a number": cells}
    return all([within_limit(f"click at 512 tokens: {name}", one, CLICK_MS) for name, one in named.items()])


def new_texts(tab: Page, address: str, times: int) -> bool:
    """Measure how long a new text of 16 tokens takes on a base model."""
    tab.goto(address)
    tab.wait_for_selector(".tokens")
    found = []
    for number in range(times + 1):
        words = " ".join(chr(ord("a") + (number + place) % 26) for place in range(14))
        first = chr(ord("a") + number % 26)
        view = [f"#/start?text={quote(words)}", f".tokens li:nth-child(2) span[data-piece='{first}']"]
        found.append(float(tab.evaluate(MEASURED, view)))
    return within_limit("a new text of 16 tokens, 12x768", found[1:], TEXT_MS)


def soak(tab: Page, address: str, process: int, minutes: float) -> bool:
    """Click through the pages with ever new texts; memory must stay where it is once the caches are full."""
    session = tab.context.new_cdp_session(tab)

    def memory() -> tuple[float, float]:
        session.send("HeapProfiler.collectGarbage")
        heap = tab.evaluate("performance.memory.usedJSHeapSize") / 1e6
        status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        return resident / 1e3, heap

    def visit(number: int, text: str) -> None:
        page = PAGES[number % len(PAGES)]
        tab.evaluate("(hash) => { location.hash = hash }", f"#/{page}?text={quote(text)}&layer={number % 4}")
        tab.wait_for_timeout(250)

    tab.goto(address)
    tab.wait_for_selector(".tokens")
    for number in range(4 * len(PAGES)):  # fill the caches: traces of 512 tokens, and what each page keeps
        page = PAGES[number % len(PAGES)]
        tab.evaluate("(hash) => { location.hash = hash }", f"#/{page}?text={quote(f'{number} {LONG}')}")
        tab.wait_for_timeout(2500)
    (full, full_heap), ends_at, number, next_at = memory(), time.monotonic() + 60 * minutes, 0, 0.0
    resident, heap = full, full_heap
    while time.monotonic() < ends_at:
        visit(number, f"{number} {LONG}" if number % 10 == 0 else f"Text number {number} [MASK] .")
        number += 1
        if time.monotonic() >= next_at:
            resident, heap = memory()
            print(f"  {number:6} clicks: server {resident:7.0f} MB, tab {heap:6.1f} MB", flush=True)
            next_at = time.monotonic() + 30
    resident, heap = memory()
    is_bounded = resident <= GROWTH * full and heap <= max(GROWTH * full_heap, full_heap + 70)
    verdict = "ok" if is_bounded else "MISSED"
    print(f"soak: {number} clicks  {verdict}")
    print(f"  server {full:.0f} -> {resident:.0f} MB, tab {full_heap:.1f} -> {heap:.1f} MB", flush=True)
    return is_bounded


def write_base(folder: Path) -> Path:
    """Write a 12x768 model with random weights and a vocabulary of letters."""
    model = gb.load("demo")
    shape = gb.preset("bert-base", vocab_size=len(model.tokenizer.vocabulary))
    network = gb.new_bert(gb.ModelConfig(encoder=shape, head="pretraining"), seed=0)
    gb.Model(network, model.tokenizer).save(folder)
    return folder


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clicks", type=int, default=20)
    parser.add_argument("--soak", type=float, default=0.0)
    parser.add_argument("--only", nargs="+", default=["start", "click", "text", "soak"])
    options = parser.parse_args()
    results = []
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as scratch:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
        browser: Any = driver.chromium.launch(executable_path=shutil.which("chromium"), args=flags)
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.set_default_timeout(120_000)
        with opened("demo") as (address, process):
            if "start" in options.only:
                results.append(starts(tab, address, options.clicks))
            if "click" in options.only:
                results.append(clicks(tab, address, options.clicks))
            if "soak" in options.only and options.soak:
                results.append(soak(tab, address, process, options.soak))
        if "text" in options.only:
            with opened(write_base(Path(scratch) / "base")) as (address, _):
                results.append(new_texts(tab, address, options.clicks))
        browser.close()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

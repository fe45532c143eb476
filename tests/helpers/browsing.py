"""The page in a real browser: `glassbert open` as a user starts it, and what is read on screen."""

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = [
    pytest.mark.skipif(CHROMIUM is None, reason="the browser tests need chromium, which is not installed"),
    pytest.mark.xdist_group("browser"),
]
AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
LANGUAGES = ("en", "zh")
FLOAT32 = 1e-5
"""How far float32 may be from float64, of the largest number in a sum."""
TEXT = "The cat [MASK] on the mat."


@contextmanager
def opened(*arguments: str | Path, before: str = "") -> Iterator[str]:
    """Run `glassbert open` and yield its address; it must end well.

    Args:
        before: Python that its process runs first.
    """
    program = f"{before}\nfrom glassbert.cli.main import run\nrun()"
    command = [sys.executable, "-c", program, "open", *map(str, arguments), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0


def show(tab: Any, address: str, page: str, language: str = "en", **params: object) -> None:
    """Go to a page in a language."""
    query = "&".join(f"{name}={quote(str(value))}" for name, value in {"text": TEXT, **params}.items())
    tab.goto(f"{address}nothing")  # of the same origin, and empty: the page itself is loaded once
    tab.evaluate(f"localStorage.setItem('language', '{language}')")
    tab.goto(f"{address}#/{page}?{query}")
    tab.wait_for_selector("h1")


FLOW = """() => [...document.querySelectorAll('.stage')].map(
    (stage) => [stage.dataset.step, [...stage.querySelectorAll('.number')].map((one) => one.textContent)])"""


def rows_of_flow(tab: Any) -> list[tuple[str, list[str]]]:
    """Return the numbers that Flow shows of each step, as they are written."""
    rows: list[tuple[str, list[str]]] = tab.evaluate(FLOW)
    return rows


def texts(within: Any, selector: str) -> list[str]:
    """Return the texts of all that a selector finds in a tab or an element, asked for at once."""
    found: list[str] = within.eval_on_selector_all(selector, "all => all.map((one) => one.innerText)")
    return found


def listed(tab: Any) -> list[str]:
    """Return the pages that are offered, once the model is there."""
    tab.wait_for_selector(".model:not(:empty)")
    links = tab.query_selector_all("nav a")
    return [re.findall(r"#/(\w+)", link.get_attribute("href"))[0] for link in links]


def watch(tab: Any) -> None:
    """Note what a tab asks for, what is still under way, and what its script fails with."""
    tab.asked, tab.failures, tab.pending = [], [], set()

    def on_request(request: Any) -> None:
        tab.asked.append(request.url)
        if request.resource_type != "eventsource":  # a stream of events has no end
            tab.pending.add(request)

    tab.on("request", on_request)
    for event in ("requestfinished", "requestfailed"):
        tab.on(event, lambda request: tab.pending.discard(request))
    tab.on("pageerror", lambda error: tab.failures.append(str(error)))


def settle(tab: Any) -> None:
    """Wait until a tab has all that it asked for, and has asked for nothing more."""
    num_quiet = 0
    while num_quiet < 3:
        tab.wait_for_timeout(40)
        # A tab that is never idle would wait forever.
        tab.evaluate("new Promise((done) => requestIdleCallback(() => done(null), { timeout: 1000 }))")
        num_quiet = 0 if tab.pending else num_quiet + 1


def unless_ci(missing: str) -> None:
    """Skip a test that lacks something; in CI that is a failure: a run without it must not be green."""
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def axe_faults(tab: Any) -> list[Any]:
    """Return what axe-core finds wrong with the page in a tab."""
    if not AXE.is_file():
        unless_ci("axe-core is not installed: run `make page`")
    if not tab.evaluate("'axe' in window"):
        tab.evaluate(AXE.read_text(encoding="utf-8"))
    found = tab.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        (fault["id"], [node["html"][:160] for node in fault["nodes"][:3]]) for fault in found["violations"]
    ]


def shown(text: str) -> float:
    """Return a number as it is written on the page."""
    return float(re.sub("[,%]", "", text).replace("−", "-").replace("∞", "inf"))


def misprints(
    texts: Iterable[str], exact: npt.ArrayLike, scale: npt.ArrayLike | None = None, places: int = 4
) -> list[tuple[str, float]]:
    """Return the numbers on screen that are not the exact ones, each with the one that belongs there.

    A number may be off by half of its last digit, and by what float32 may be off on any machine: another
    one adds in another order.

    Args:
        scale: How large the numbers are that each is a sum of; the largest of the exact ones by default.
        places: Decimals of a number, or digits of one that is written with a power of ten.
    """
    expected = np.asarray(exact, dtype=np.float64).flatten()
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    slack = FLOAT32 * np.broadcast_to(largest if scale is None else np.ravel(scale), expected.shape)
    return [
        (text, float(right))
        for text, right, more in zip(texts, expected, slack, strict=True)
        if shown(text) != right and not abs(shown(text) - right) <= _half_digit(text, places) + more
    ]


def _half_digit(text: str, places: int) -> float:
    """Return half a unit of the last digit with which the page writes a number."""
    _, is_small, power = text.replace("\u2212", "-").partition("e")
    # A hair more, for a number that lies in the middle of two.
    return 0.500001 * 10.0 ** (int(power) - places + 1 if is_small else -places)


def scale_of_shares(shares: npt.ArrayLike, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the `scale` of what a softmax makes of scores: their error is the relative error of a share."""
    given = np.asarray(scores, dtype=np.float64)
    return np.asarray(shares, dtype=np.float64) * np.abs(given[np.isfinite(given)]).max()


def output_of(code: str) -> str:
    """Run copied Python and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    return printed.getvalue()


def printed_by(code: str) -> list[float]:
    """Run copied Python and return the numbers that it prints."""
    return [float(word) for word in output_of(code).split()]

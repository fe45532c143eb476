"""One page over the built-in model, without a socket."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pytest

from glassbert.page.app import Page, in_shell
from glassbert.page.workbench import Workbench
from glassbert.serve.http.log import Log
from helpers.asgi import Client, Response
from helpers.browsing import CHROMIUM, opened, unless_ci, watch

TOKEN = "secret-token"


@dataclass
class PageClient:
    """Asks the page as its own script does."""

    client: Client

    def get(self, path: str, **headers: str) -> Response:
        return self.client.get(f"/{TOKEN}/{path}", **headers)

    def post(self, path: str, content: object, **headers: str) -> Response:
        return self.client.post(f"/{TOKEN}/{path}", content, **headers)

    def trace(self, text: str = "The capital of France is [MASK].", pair: str | None = None) -> str:
        """Record a text and return the trace's key."""
        response = self.post("api/trace", {"text": text, "pair": pair})
        assert response.status == 200, response.body
        return str(response.json()["id"])


@pytest.fixture(autouse=True)
def built_page(request: pytest.FixtureRequest) -> None:
    """Skip what needs the built page where Node was missing at the install; in CI that is a failure."""
    if (
        request.path.stem not in ("test_messages", "test_wheel")
        and not (files("glassbert") / "web" / "index.html").is_file()
    ):
        unless_ci("the page is not built: install Node 20 or newer and run `make page`")


@pytest.fixture(scope="session")
def workbench() -> Workbench:
    return Workbench("demo")


@pytest.fixture(scope="session")
def page(workbench: Workbench) -> PageClient:
    app = Page(workbench, token=TOKEN)
    return PageClient(Client(in_shell(app, Log(io.StringIO()))))


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the built-in model's page; a module may open another."""
    with opened("demo") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking"]
        options.append("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")  # no way out
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Any, address: str) -> Iterator[Any]:
    """A tab that may talk to the page's own server alone, and whose script must not fail."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    watch(tab)
    yield tab
    assert tab.failures == []
    assert [url for url in tab.asked if not url.startswith((address, "data:", "blob:"))] == []
    context.close()

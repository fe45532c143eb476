"""One page over the built-in model, without a socket."""

import io
from dataclasses import dataclass
from importlib.resources import files

import pytest

from glassbert.page.app import Page, shelled
from glassbert.page.workbench import Workbench
from glassbert.serve.http.log import Log
from helpers.asgi import Client, Response

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
    """Skip what needs the built page where the package was installed without Node."""
    if request.path.stem != "test_messages" and not (files("glassbert") / "web" / "index.html").is_file():
        pytest.skip("the page is not built: install Node 20 or newer and run `make page`")


@pytest.fixture(scope="session")
def workbench() -> Workbench:
    return Workbench("demo")


@pytest.fixture(scope="session")
def page(workbench: Workbench) -> PageClient:
    app = Page(workbench, token=TOKEN)
    return PageClient(Client(shelled(app, Log(io.StringIO()))))

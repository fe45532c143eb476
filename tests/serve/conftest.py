"""Servers that the tests of this package share: small models of every task, loaded once."""

import io
from collections.abc import Iterator

import pytest

from glassbert.serve.front import Front
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.asgi import Client
from helpers.small_served import write_all


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A model folder for each task, by name."""
    return write_all(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def log_lines() -> io.StringIO:
    """What the shared server logs."""
    return io.StringIO()


@pytest.fixture(scope="session")
def front(folders: dict[str, str], log_lines: io.StringIO) -> Iterator[Front]:
    """An app that serves all of them."""
    # No test fails because the machine is busy.
    patient = ServeSettings(threads=2, timeout=60, max_wait=60)
    app = Front(folders, patient, log=Log(log_lines))
    app.start()
    yield app
    app.stop()


@pytest.fixture
def client(front: Front) -> Client:
    """Sends requests to all models."""
    return Client(front)

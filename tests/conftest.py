"""Fixtures that tests of several packages share."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

# Before torch is imported: two threads that wait for each other on a busy machine are slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell lets its background jobs ignore these, and what is ignored stays so: the tests send them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

import pytest  # noqa: E402
from hypothesis import settings  # noqa: E402

# No test fails because the machine is busy.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real corpora and vocabularies beside the repository, for slow tests only."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("the shared data is not on this machine")
    return folder


Write = Callable[[str, str | bytes], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file of a name and return its path."""

    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        return path

    return write_file

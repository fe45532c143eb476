"""Fixtures that tests of several packages share."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

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

LONGEST_FIRST = ("test_docs.py", "test_examples.py", "page", "serve", "training", "cli")
"""Files and folders that begin, so that no process is left with them at the end."""
SHARE_NOTHING = ("test_docs.py", "test_examples.py")
"""Files whose tests may run in different processes."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a process whole files: servers, browsers and trained models of a file are then made once."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if Path(file).name in SHARE_NOTHING else file

    config.option.loadscopereorder = False  # the order is the one below
    return ByFile(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the longest tests begin where several processes share the work."""
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    first = item.path.relative_to(Path(__file__).parent).parts[0]
    return LONGEST_FIRST.index(first) if first in LONGEST_FIRST else len(LONGEST_FIRST)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the run cost: on a busy machine the clock says little."""
    user_s, system_s, children_user_s, children_system_s, _ = os.times()
    minutes = (user_s + system_s + children_user_s + children_system_s) / 60
    terminalreporter.write_line(f"{minutes:.1f} minutes of CPU, those of all processes")


@pytest.fixture(scope="session", autouse=True)
def no_waiting_for_the_disk() -> Iterator[None]:
    """Let files be where the system keeps them: no test cuts the power, and a small run syncs 300 times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


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

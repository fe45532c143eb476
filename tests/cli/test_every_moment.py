"""A signal at any moment of any verb: 130 and one line, or the verb had ended; nothing half-written."""

import io
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from glassbert.cli import main as cli
from glassbert.cli.app import build_app
from glassbert.signals import STOPPING, is_writing
from helpers.every_verb import ARGUMENTS, verbs, write_inputs

VERBS = {verb.name: verb for verb in verbs(build_app())}
ENDINGS = {"embed": ".npy", "trace": ".safetensors"}
# Two run until they are asked to stop, and are below. The demo takes a minute.
NAMES = [name for name in ARGUMENTS if name not in ("demo", "serve", "open")]
# Runs are long, and all go the same way.
RUNS = ("train", "pretrain", "distil")
QUICK = [*(name for name in NAMES if name.split()[0] not in RUNS), "train classify"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(autouse=True)
def with_gradients_again() -> Iterator[None]:
    """Turn gradients on: a signal inside `no_grad` leaves them off, which a verb that ends need not mind."""
    yield
    torch.set_grad_enabled(True)


@contextmanager
def counted(at: int, number: int) -> Iterator[list[int]]:
    """Count the calls of functions, and send a signal at one of them."""
    calls = [0]

    def called(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls[0] += 1
            if calls[0] == at:
                signal.raise_signal(number)

    sys.setprofile(called)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def attack(
    name: str, moments: list[float], inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run a verb once to see how many calls it makes, then again with a signal at shares of them."""
    verb, given = VERBS[name], [word.replace("@", f"{inputs}/") for word in ARGUMENTS[name]]

    def words(number: int) -> list[str]:
        out = tmp_path / f"out-{number}{ENDINGS.get(name, '')}"
        return verb.words(given, verb.outputs[0], out) if verb.outputs else [*name.split(), *given]

    with counted(0, 0) as calls:
        usual = cli.main(words(0))  # imports what it needs, so that no later signal comes during an import
    for number, moment in enumerate(moments, start=1):
        capsys.readouterr()
        with counted(max(1, int(moment * calls[0])), STOPPING[number % len(STOPPING)]):
            code = cli.main(words(number))
        errors = capsys.readouterr().err
        assert code in (130, usual), (moment, code, errors)
        assert "Traceback" not in errors
        if code == 130:
            assert errors.splitlines()[-1].startswith("glassbert: "), errors
        assert not is_writing()
        left = [path for path in tmp_path.rglob("*") if path.name.endswith((".part", ".old"))]
        assert not left, (moment, left)


@pytest.mark.parametrize("name", QUICK)
def test_a_signal_at_some_moments(
    name: str,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_is_importing", lambda frame: False)  # otherwise it ends the tests
    draw = random.Random(name)
    attack(name, [draw.uniform(0, 0.5), draw.uniform(0.5, 1)], inputs, tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_signal_at_many_moments(
    name: str,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli, "_is_importing", lambda frame: False)
    draw = random.Random(os.environ.get("SEED", name))
    attack(name, [draw.random() for _ in range(20)], inputs, tmp_path, capsys)


# A free port each time.
SERVING = {"serve": ["@bert", "--port", "0"], "open": ["@bert", "--port", "0", "--no-browser"]}


SERVED_MOMENTS = int(os.environ.get("MOMENTS", "3"))


def ended_when_ready(log: Path, number: int) -> None:
    """Ask this process to end as soon as its server is ready, unless it ends already."""
    while b'"ready"' not in log.read_bytes():
        time.sleep(0.01)
    time.sleep(0.2)
    if b'"draining"' not in log.read_bytes():
        os.kill(os.getpid(), number)


def served(words: list[str], at: int, number: int, log: Path, last: int = signal.SIGTERM) -> tuple[int, int]:
    """Serve in a process of its own until a signal at a call; return the exit code and how many calls."""
    log.touch()
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(log.with_suffix(".calls").read_text())
    code = 1
    signal.alarm(100)  # no server outlives its test
    try:
        sys.stderr = sys.__stderr__ = log.open("w", buffering=1)
        sys.stdout = io.StringIO()
        threading.Thread(target=ended_when_ready, args=(log, last), daemon=True).start()
        with counted(at, number) as calls:
            log.with_suffix(".calls").write_text("0")
            code = cli.main(words)
        log.with_suffix(".calls").write_text(str(calls[0]))
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


@pytest.mark.parametrize("name", SERVING)
def test_a_signal_at_some_moments_of_a_server(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_is_importing", lambda frame: False)
    words = [name, *(word.replace("@", f"{inputs}/") for word in SERVING[name])]
    code, num_calls = served(words, 0, 0, tmp_path / "0")
    assert (code, num_calls > 100) == (0, True), (tmp_path / "0").read_text()
    draw = random.Random(os.environ.get("SEED", name))
    shares = [draw.random(), draw.uniform(0.9, 1), *(draw.random() for _ in range(SERVED_MOMENTS - 2))]
    for place, share in enumerate(shares, start=1):
        log = tmp_path / str(place)
        code, _ = served(words, max(1, int(share * num_calls)), STOPPING[place % len(STOPPING)], log)
        assert code in (0, 130), (share, code, log.read_text())
        assert "Traceback" not in log.read_text()


def test_a_page_ends_with_its_terminal(inputs: Path, tmp_path: Path) -> None:
    words = ["open", f"{inputs}/bert", "--port", "0", "--no-browser"]
    code, _ = served(words, 0, 0, tmp_path / "0", last=signal.SIGHUP)
    assert (code, '"draining"' in (tmp_path / "0").read_text()) == (0, True)

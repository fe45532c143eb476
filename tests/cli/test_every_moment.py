"""A signal at any moment of any verb: 130 and one line, or the verb had ended; nothing half-written."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from glassbert.cli import main as cli
from glassbert.cli.app import build_app
from glassbert.signals import STOPPING, is_writing
from helpers.every_verb import ARGUMENTS, verbs, write_inputs

VERBS = {verb.name: verb for verb in verbs(build_app())}
ENDINGS = {"embed": ".npy", "trace": ".safetensors"}
# These run until they are told to stop; tests of the server do that. The demo takes a minute.
NAMES = [name for name in ARGUMENTS if name not in ("demo", "serve", "open")]
# Runs are long, and all go the same way.
RUNS = ("train", "pretrain", "distil")
QUICK = [*(name for name in NAMES if name.split()[0] not in RUNS), "train classify"]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


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

"""Signals at any moment, closed streams, full disks: every verb ends with its code and one line."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from glassbert import storage
from glassbert.cli import output
from glassbert.cli.app import build_app
from glassbert.cli.main import main
from glassbert.signals import STOPPING, held, is_writing
from helpers.every_verb import ARGUMENTS, verbs, write_inputs

VERBS = {verb.name: verb for verb in verbs(build_app())}
# Sends a signal to itself when a module is looked for, as Ctrl-C during an import does.
AT_IMPORT = """
import signal, sys
class Attack:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal({number})
sys.meta_path.insert(0, Attack())
sys.argv = ["glassbert", *{words!r}]
from glassbert.__main__ import run
run()
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def words_of(name: str, inputs: Path) -> list[str]:
    """Return a verb with arguments that work."""
    return [*name.split(), *(word.replace("@", f"{inputs}/") for word in ARGUMENTS[name])]


@pytest.mark.parametrize(
    ("module", "number"),
    [
        ("glassbert.cli", signal.SIGINT),
        ("glassbert.cli.main", signal.SIGTERM),
        ("glassbert.signals", signal.SIGHUP),
        ("cyclopts", signal.SIGINT),
        ("glassbert.cli.app", signal.SIGTERM),
        ("rich.console", signal.SIGINT),
        ("glassbert.inference.loading", signal.SIGHUP),
        ("torch", signal.SIGINT),
    ],
)
def test_a_signal_during_an_import_is_one_line(inputs: Path, module: str, number: int) -> None:
    program = AT_IMPORT.format(module=module, number=int(number), words=words_of("fill", inputs))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "glassbert: interrupted\n")


@pytest.mark.parametrize("program", [[str(Path(sys.executable).with_name("glassbert"))], ["-m", "glassbert"]])
def test_a_signal_soon_after_the_start_shows_no_code_of_ours(program: list[str]) -> None:
    command = [*([] if len(program) == 1 else [sys.executable]), *program, "fill", "demo", "a [MASK]"]
    for delay_s in (0.02, 0.05, 0.08, 0.11, 0.14, 0.2, 0.3, 0.5):
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            time.sleep(delay_s)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        # Until Python has started, and runs a first line of ours, it is Python that ends the process.
        is_ours = process.returncode not in (-signal.SIGINT, 1)
        assert not is_ours or (process.returncode, errors) == (130, "glassbert: interrupted\n"), delay_s
        assert not [line for line in errors.splitlines() if "glassbert/cli" in line], errors


@contextmanager
def signal_at(place: Any, name: str, number: int) -> Iterator[list[int]]:
    """Send a signal the first time that a function is called."""
    original, calls = getattr(place, name), list[int]()

    def attacked(*arguments: Any, **options: Any) -> Any:
        calls.append(number)
        if len(calls) == 1:
            signal.raise_signal(number)
        return original(*arguments, **options)

    with patch.object(place, name, attacked):
        yield calls


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if VERBS[name].outputs and name != "lab"])
def test_a_signal_while_writing_leaves_nothing_half_written(
    name: str, inputs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endings = {"embed": "out.npy", "trace": "out.safetensors"}
    chosen = next(one for one in ("out", "destination", "report", "html") if one in VERBS[name].outputs)
    out = tmp_path / endings.get(name, "out.html" if chosen in ("report", "html") else "out")
    arguments = words_of(name, inputs)[len(name.split()) :]
    number = STOPPING[len(name) % len(STOPPING)]
    with signal_at(os, "fsync", number) as calls:
        code = main(VERBS[name].words(arguments, chosen, out))
    assert calls, "nothing was written"
    assert code == 130
    assert not is_writing()
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    if name not in ("demo", "corpus build"):  # the demo keeps its parts, a build its finished shards
        assert not found, found
    assert not [path for path in found if path.name.endswith(".part")]
    assert capsys.readouterr().err.splitlines()[-1].startswith("glassbert: ")


PRINTING = [
    name for name in ARGUMENTS if name not in ("demo", "serve", "open", "lab", "trace diff", "doctor")
]


@pytest.mark.parametrize("name", [name for name in PRINTING if not VERBS[name].outputs])
def test_a_signal_before_the_result_is_one_line(
    name: str, inputs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with signal_at(output, "json_text", signal.SIGTERM) as calls:
        assert main([*words_of(name, inputs), "--json"]) == 130
    captured = capsys.readouterr()
    assert (captured.out, calls) == ("", [signal.SIGTERM])
    assert captured.err.splitlines()[-1] == "glassbert: interrupted"


def test_ignored_signals_stay_ignored(inputs: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signal_at(output, "json_text", signal.SIGHUP):
            assert main([*words_of("tokenize", inputs), "--json"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_between_steps_that_belong_together_arrives_after_them() -> None:
    done = []

    def steps() -> None:
        with held():
            signal.raise_signal(signal.SIGINT)
            done.append("second")

    with pytest.raises(KeyboardInterrupt):
        steps()
    assert done == ["second"]


def test_a_replacement_is_not_torn_by_a_signal(tmp_path: Path) -> None:
    def replace(text: str) -> None:
        with storage.new_folder(tmp_path / "out", overwrite=True) as new:
            (new / "a").write_text(text)

    replace("old")
    with signal_at(storage.os, "replace", signal.SIGINT), pytest.raises(KeyboardInterrupt):
        replace("new")
    assert (tmp_path / "out" / "a").read_text() == "new"
    assert os.listdir(tmp_path) == ["out"]


def shell(command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of the shell in which GB is ours; stdout may be redirected."""
    gb = f"{sys.executable} -m glassbert"
    return subprocess.run(
        ["bash", "-c", command.replace("GB", gb)],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize("redirected", [">&-", "> /dev/full"])
def test_a_result_that_cannot_be_printed_is_a_failure(inputs: Path, redirected: str) -> None:
    run = shell(f"GB tokenize {inputs}/bert a --json {redirected}")
    assert run.returncode == 1
    assert (run.stderr.count("\n"), "the output: " in run.stderr) == (1, True), run.stderr


def test_a_closed_stdin_is_an_empty_one_and_closed_streams_are_no_traceback(inputs: Path) -> None:
    run = shell(f"GB tokenize {inputs}/bert --json <&-")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert shell(f"GB tokenize {inputs}/bert a --json >&- 2>&-").returncode == 1
    assert shell(f"GB tokenize {inputs}/bert a 2>&-").returncode == 0
    assert shell(f"GB tokenize {inputs}/bert a | true; exit ${{PIPESTATUS[0]}}").returncode == 0


def test_an_output_that_cannot_show_chinese_gets_escapes(inputs: Path) -> None:
    run = shell(f"GB tokenize {inputs}/bert 猫😀 --json", PYTHONIOENCODING="latin-1")
    assert (run.returncode, json.loads(run.stdout)["offsets"][1]) == (0, [0, 1])
    assert shell(f"GB tokenize {inputs}/bert 猫", PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.parametrize("room", [0, 300])
def test_a_full_disk_is_exit_1(
    inputs: Path, tmp_path: Path, room: int, capsys: pytest.CaptureFixture[str]
) -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, chosen, ending in (
        ("vocab train", "out", ""),
        ("convert", "destination", ""),
        ("embed", "out", ".npy"),
        ("train classify", "out", ""),
    ):
        out = tmp_path / f"{name.replace(' ', '-')}{ending}"
        words = VERBS[name].words(words_of(name, inputs)[len(name.split()) :], chosen, out)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
        try:
            code = main(words)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        last = capsys.readouterr().err.splitlines()[-1]
        assert (code, "glassbert: " in last) == (1, True), (name, last)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_current_folder_that_is_gone_is_one_line(inputs: Path, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    run = shell(f"cd {tmp_path}/gone && rmdir ../gone && GB fill {inputs}/bert 'a [MASK]'")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == "glassbert: the current folder was removed; change to another one\n"

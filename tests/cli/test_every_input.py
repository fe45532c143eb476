"""Every verb, each of its inputs, as something that no verb can read: one line, soon, and nothing is left."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from glassbert import open_files
from glassbert.cli.app import build_app
from glassbert.cli.main import main
from glassbert.serve.http.server import Server
from helpers.every_verb import ALIKE, ALSO, ARGUMENTS, verbs, write_inputs

VERBS = {verb.name: verb for verb in verbs(build_app())}
MAX_SECONDS = 60
ENDINGS = {"embed": ".npy", "trace": ".safetensors"}


def written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a pipe that nobody writes to": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "missing": lambda path: None,
    "empty": lambda path: written(path, b""),
    "binary": lambda path: written(path, b"\xff\xfe\x00\x80" * 50),
    "deep": lambda path: written(path, b"[" * 100_000),
}
FILES = [
    (verb.name, arguments, word)
    for verb in VERBS.values()
    for arguments in (ARGUMENTS[verb.name], *ALSO.get(verb.name, ()))
    for word in verb.reads(arguments)
    if verb.name not in ALIKE
]


@contextmanager
def deadline() -> Iterator[None]:
    """Fail a verb that does not end."""

    def too_late(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no end after {MAX_SECONDS} s")

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(MAX_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("inputs"))


def loaded_and_ended(server: Server, **_: Any) -> int:
    """Do what a server does before it answers, and end."""
    try:
        server.backend.start()
    finally:
        server.backend.stop()
    return 0


def hostile_copies(originals: Path, word: str, place: Path, turn: int | None) -> Iterator[tuple[str, Path]]:
    """Yield each hostile thing in the place of an input: of the file, or of a file in its folder.

    Args:
        turn: Which file of a folder is first; each thing takes the place of the next. None: of every one.
    """
    names = ("config.json", "manifest.json", "model.safetensors", "tokenizer.json")
    inside = [name for name in names if (originals / word / name).exists()]
    for number, (kind, make) in enumerate(HOSTILE.items()):
        if not (originals / word).is_dir():
            path = place / kind.replace(" ", "-") / Path(word).name
            path.parent.mkdir()
            make(path)
            yield kind, path
            continue
        at = 0 if turn is None else (turn + number) % max(1, len(inside))
        for name in inside if turn is None else inside[at : at + 1]:
            folder = place / f"{kind.replace(' ', '-')}-{name}"
            shutil.copytree(originals / word, folder)
            (folder / name).unlink()
            make(folder / name)
            yield f"{name}: {kind}", folder


@pytest.mark.parametrize(
    "is_every_file", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["files in turn", "every file"]
)
@pytest.mark.parametrize(("name", "arguments", "word"), FILES, ids=lambda part: str(part)[:30])
def test_what_cannot_be_read_is_one_line(
    name: str,
    arguments: list[str],
    word: str,
    is_every_file: bool,
    inputs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_files, "_WRITER_WAIT_S", 0.05)
    monkeypatch.setattr(Server, "run", loaded_and_ended)
    monkeypatch.chdir(tmp_path)
    verb = VERBS[name]
    turn = None if is_every_file else FILES.index((name, arguments, word))
    for number, (kind, path) in enumerate(hostile_copies(inputs, word, tmp_path, turn)):
        given = [
            one.replace(f"@{word}", str(path)) if one.endswith(f"@{word}") else one.replace("@", f"{inputs}/")
            for one in arguments
        ]
        out = tmp_path / f"out-{number}{ENDINGS.get(name, '')}"
        words = verb.words(given, verb.outputs[0], out) if verb.outputs else [*name.split(), *given]
        with deadline():
            code = main(words)
        errors = capsys.readouterr().err
        lines = [line for line in errors.splitlines() if line.startswith("glassbert: ")]
        assert "Traceback" not in errors
        assert (code, len(lines)) in ((0, 0), (2, 1), (3, 1), (4, 1)), (kind, code, errors)
        assert code == 0 or not out.exists() or out.is_dir(), kind
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith(".part")]

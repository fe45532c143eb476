"""What a verb prints as text steers no terminal, whatever labels, pieces and file names say."""

import json
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.messages import MAX_LINE
from helpers.every_verb import ARGUMENTS, write_inputs

NASTY = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\x7f\x08\r"
LABELS = {"steering": f"{NASTY}\n", "long": "x" * 1_000_000}
# The demo brings its own text, `serve` and `open` run until they are stopped. Runs all print alike.
RUNS = ("train", "pretrain", "distil")
NAMES = [name for name in ARGUMENTS if name not in ("demo", "serve", "open") and name.split()[0] not in RUNS]
NAMES += ["train classify"]


@pytest.fixture(scope="module", params=LABELS)
def inputs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inputs of all verbs, in a folder with a bad name, with bad labels and pieces."""
    folder = tmp_path_factory.mktemp("inputs") / "in\x1b[2J\r\nput"
    folder.mkdir()
    write_inputs(folder)
    label = LABELS[request.param]
    config = folder / "classifier" / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content |= {"id2label": {0: label, 1: "good"}, "label2id": {label: 0, "good": 1}}
    config.write_text(json.dumps(content), encoding="utf-8")
    for name in ("bert", "classifier", "vocabulary"):
        (folder / name / "tokenizer.json").unlink()
        vocabulary = folder / name / "vocab.txt"
        text = vocabulary.read_text(encoding="utf-8").replace("\nb\n", "\n\x1b[31mb\x9b\n")
        vocabulary.write_text(text, encoding="utf-8")
    rows = f"text\tlabel\na {NASTY.strip()}b\t{label.strip()}\nc d\tgood\n"
    for name in ("rows.tsv", "dev.tsv"):
        (folder / name).write_bytes(rows.replace("\r", "").encode())
    return folder


def is_clean(text: str) -> bool:
    """Return whether a text holds nothing but characters that can be seen, tabs and line ends."""
    return text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize("name", NAMES)
def test_text_on_the_terminal_is_clean(
    name: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*name.split(), *(word.replace("@", f"{inputs}/") for word in ARGUMENTS[name])]
    if name.startswith("vocab ") and name != "vocab inspect" or name in ("corpus build", "train classify"):
        words += ["--out", str(tmp_path / "out\x1b[2J\n")]
    words += [str(tmp_path / "out\x1b[2J\n")] if name == "convert" else []
    code = main(words)
    captured = capsys.readouterr()
    assert is_clean(captured.out), ascii(captured.out)[:2000]
    assert is_clean(captured.err), ascii(captured.err)[:2000]
    assert max(map(len, captured.err.splitlines()), default=0) <= 2 * MAX_LINE
    if code:
        assert captured.err.splitlines()[-1].startswith("glassbert: ")

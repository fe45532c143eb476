import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

VOCABULARY = Vocabulary((*SPECIALS, "hello", "world", "##s", "北", "京", ",", "a", "b", "c"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Tokenizer(VOCABULARY).save(tmp_path / "model")
    return tmp_path / "model"


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["tokenize", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def give_stdin(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_json_holds_pieces_ids_segments_and_offsets(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, errors = run(capsys, folder, "Hello, 北京", "--pair", "worlds", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(out) == {
        "pieces": ["[CLS]", "hello", ",", "北", "京", "[SEP]", "world", "##s", "[SEP]"],
        "ids": [2, 5, 10, 8, 9, 3, 6, 7, 3],
        "segments": [0, 0, 0, 0, 0, 0, 1, 1, 1],
        "offsets": [[0, 0], [0, 5], [5, 6], [7, 8], [8, 9], [0, 0], [0, 5], [5, 6], [0, 0]],
        "truncated": False,
        "cut": [],
        "unknown": 0,
    }
    assert "北" in out


def test_json_reports_what_was_cut(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--max-length", 4, "--keep", "tail", "--json")
    code, out, errors = run(capsys, folder, "a b c hello zebra", *options)
    result = json.loads(out)
    assert result["pieces"] == ["[CLS]", "hello", "[UNK]", "[SEP]"]
    assert (result["truncated"], result["unknown"]) == (True, 1)
    assert result["cut"] == [{"text": "a", "start": 0, "end": 5, "num_pieces": 3}]


def test_each_line_of_stdin_is_one_text(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, "a\tb\r\n\n北\n".encode())
    code, out, errors = run(capsys, folder, "--json")
    pieces = [json.loads(line)["pieces"] for line in out.splitlines()]
    assert pieces == [["[CLS]", "a", "b", "[SEP]"], ["[CLS]", "[SEP]"], ["[CLS]", "北", "[SEP]"]]
    assert (code, errors) == (0, "")


def test_stdin_that_is_not_utf8_ends_with_its_place_and_code_3(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(monkeypatch, b"a\nb \xff\n")
    code, out, errors = run(capsys, folder, "--json")
    assert (code, len(out.splitlines())) == (3, 1)
    assert errors.startswith("glassbert: stdin:2: byte 3 (0xff) is not UTF-8")


def test_the_table_shows_the_source_of_each_piece(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, errors = run(capsys, folder, "HELLOs\t北", "--pair", "A")
    assert (code, errors) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["position", "piece", "id", "segment", "offsets", "source"],
        ["0", "[CLS]", "2", "0", "0-0"],
        ["1", "hello", "5", "0", "0-5", "HELLO"],
        ["2", "##s", "7", "0", "5-6", "s"],
        ["3", "北", "8", "0", "7-8", "北"],
        ["4", "[SEP]", "3", "0", "0-0"],
        ["5", "a", "11", "1", "0-1", "A"],
        ["6", "[SEP]", "3", "1", "0-0"],
    ]
    ends = {
        line.index(word) + len(word) for line, word in zip(out.splitlines()[1:3], ["0-0", "0-5"], strict=True)
    }
    assert len(ends) == 1  # columns are aligned


def test_losses_are_reported_on_stderr(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, errors = run(capsys, folder, "a b c zebra\0x", "--pair", "a b c a", "--max-length", 8)
    assert errors.splitlines() == [
        "pieces cut: 2, characters 4-13 of the text",
        "pieces cut: 1, characters 6-7 of the pair",
    ]
    give_stdin(monkeypatch, ("a\n" + "z" * 200 + "\n").encode())
    _, out, errors = run(capsys, folder)
    assert errors == "line 2: pieces unknown: 1 of 3\n"
    assert "z" * 37 + "...\n" in out


def test_a_guess_about_capitals_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    VOCABULARY.save(tmp_path / "vocab.txt")
    code, out, errors = run(capsys, tmp_path, "HELLO", "--json")
    assert json.loads(out)["pieces"][1] == "hello"
    assert errors.startswith("assumed: text is lower-cased")


def test_the_limit_is_the_position_table_of_the_model(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "config.json").write_text('{"max_position_embeddings": 7}')
    _, out, _ = run(capsys, folder, "a " * 50, "--json")
    assert len(json.loads(out)["ids"]) == 7


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["nowhere", "a"], 4, "nowhere: no such folder"),
        (["empty", "a"], 4, "neither vocab.txt nor tokenizer.json in it"),
        (["model", "a", "--max-length", "1"], 2, "max_length=1 has no room"),
        (["model", "a", "--max-length", "many"], 2, "many"),
        (["model", "a", "--keep", "middle"], 2, "middle"),
        (["model", "--pair", "a"], 2, "got --pair without a text"),
        ([], 2, "MODEL"),
    ],
)
def test_a_mistake_is_one_line_and_a_code(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    code: int,
    message: str,
) -> None:
    (folder.parent / "empty").mkdir()
    monkeypatch.chdir(folder.parent)
    found, out, errors = run(capsys, *arguments)
    assert (found, out, errors.count("\n")) == (code, "", 1)
    assert message in errors


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    script = "from glassbert.cli.main import run; run()"
    command = [sys.executable, "-c", script, "tokenize", str(folder)]
    reading, writing = os.pipe()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    os.close(reading)
    _, errors = process.communicate(b"a b c\n" * 5000, timeout=60)
    assert (process.returncode, errors) == (0, b"")

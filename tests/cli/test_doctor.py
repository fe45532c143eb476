import json
from pathlib import Path

import pytest

from glassbert.cli.main import main
from helpers.explained import explained


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    explained("classify", tmp_path)
    return tmp_path


def damage(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": 9}))


def test_each_check_has_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(folder), "--strict"]) == 0
    *lines, total = capsys.readouterr().out.splitlines()
    assert {line.split()[0] for line in lines} == {"ok"}
    assert total == f"{folder}: no faults, no warnings"


@pytest.mark.parametrize(("options", "code"), [([], 0), (["--strict"], 5)])
def test_a_fault_ends_a_strict_visit_with_code_5(
    folder: Path, options: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder)
    assert main(["doctor", str(folder), *options]) == code
    printed = capsys.readouterr()
    assert "fault   special ids" in printed.out
    assert printed.err == ("glassbert: 1 fault: special ids\n" if code else "")


def test_a_program_gets_all_verdicts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder)
    assert main(["doctor", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["faults"], found["warnings"]) == (1, 0)
    assert {frozenset(one) for one in found["verdicts"]} == {
        frozenset(("check", "state", "finding", "advice"))
    }


def test_data_and_base_are_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "rows.tsv").write_text("text\tlabel\na b\tgood\nc d\tbad\n")
    assert main(["doctor", str(folder), "--data", str(folder / "rows.tsv"), "--base", str(folder)]) == 0
    printed = capsys.readouterr().out
    assert "warn    label map     fair not in the data" in printed
    assert "fault   base          none of 57 tensors moved" in printed


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["nowhere"], 4, "no folder nowhere"),
        (["FOLDER", "--data", "nothing.tsv"], 2, "nothing.tsv"),
        (["FOLDER", "--base", "nothing"], 0, ""),
    ],
)
def test_what_is_not_there_is_said_in_one_line(
    folder: Path, options: list[str], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", *(str(folder) if word == "FOLDER" else word for word in options)]) == code
    printed = capsys.readouterr()
    assert words in printed.err
    assert printed.err.count("\n") == (code > 0)

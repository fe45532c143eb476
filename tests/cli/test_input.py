import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from glassbert.cli.input import input_texts, num_processes
from glassbert.cli.main import main
from glassbert.errors import DataError

LINES = '今天的天气很好。\n{"text": "不是吗？"}\n{not json}\n'
TEXTS = ["今天的天气很好。", "不是吗？", "{not json}"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_lines_of_a_file_are_texts_or_json_in_either_encoding(
    encoding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "texts"
    path.write_bytes(LINES.encode(encoding))
    assert list(input_texts(str(path))) == TEXTS
    assert ("read as GB18030" in capsys.readouterr().err) == (encoding == "gb18030")


def test_lines_of_stdin_are_read_as_they_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(LINES.encode() + b'{"a": 1}\n')))
    texts = input_texts("-")
    assert [next(texts) for _ in TEXTS] == TEXTS
    with pytest.raises(DataError, match='stdin:4: no string under "text"'):
        next(texts)


def test_there_is_a_process_for_each_core_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glassbert.cli.input.num_cores", lambda: 7)
    assert (num_processes(None), num_processes(2), num_processes(0)) == (7, 2, 0)


@pytest.mark.parametrize("line", ['{"a":' * 100_000, '{"text": ' + "1" * 5_000 + "}", '{"text": "\\ud800"}'])
def test_json_beyond_the_limits_is_bad_data(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(line.encode() + b"\n")))
    with pytest.raises(DataError, match="stdin:1: .*; correct the JSON, or give plain lines"):
        next(input_texts("-"))


def test_a_file_whose_name_begins_with_a_dash_is_no_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["embed", "demo", "-x.txt"]) == 2
    Path("-x.txt").write_text("a text\n")
    assert main(["embed", "demo", "-x.txt"]) == 0
    assert capsys.readouterr().out.count("\n") == 1

"""A dash is stdin wherever texts are read; an option that does not exist is not taken for a file."""

import io
import sys

import pytest

from glassbert.cli.main import main


def test_a_dash_is_stdin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a text\n"), encoding="utf-8"))
    assert main(["embed", "demo", "-", "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1


@pytest.mark.parametrize("verb", ["embed", "predict", "translate"])
def test_an_unknown_option_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "demo", "--nonsense"]) == 2
    assert 'Unknown option: "--nonsense"' in capsys.readouterr().err

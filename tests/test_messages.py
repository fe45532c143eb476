"""Whatever a message quotes, a terminal and a log get one clean line."""

from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.cli.output import print_json, remark
from glassbert.errors import DataError, UserError
from glassbert.messages import MAX_LINE, one_line, to_stderr

NASTY = "a\nb\r\x1b[31mred\x1b]0;title\x07\x9b\u202e\u2028\ud800\x7f\x00"


@pytest.mark.parametrize("text", ["plain", "中文，标点。", "naïve café", "C:\\path", "a 'quoted' \"word\""])
def test_a_clean_message_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text


@pytest.mark.parametrize("kind", [UserError, DataError])
def test_an_error_is_one_clean_line_wherever_it_is_shown(kind: type[UserError]) -> None:
    shown = str(kind(f"{NASTY}: expected a word"))
    assert shown.isprintable()
    assert shown.startswith("a\\nb\\r\\x1b[31mred")
    assert shown.endswith(": expected a word")


def test_a_long_message_keeps_its_beginning_and_its_end() -> None:
    shown = one_line("config.json: key " + "x" * 5_000_000 + "; remove it")
    assert len(shown) <= MAX_LINE <= 1000, "a terminal shows a dozen lines of it"
    assert shown.startswith("config.json: key xxx")
    assert shown.endswith("xxx; remove it")
    assert len(one_line("\x00" * 5_000_000)) <= 4 * MAX_LINE


@pytest.mark.parametrize("say", [remark, to_stderr])
def test_remarks_and_logs_are_clean(say: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(say)
    say(NASTY)
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert errors[:-1].isprintable()


def test_json_does_not_steer_a_terminal_and_keeps_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    import json

    value = {"label": "\x9b31m\u202e\x7f\u2028中文😀"}
    print_json(value)
    text = capsys.readouterr().out
    assert text[:-1].isprintable()
    assert "中文😀" in text
    assert json.loads(text) == value


def test_a_name_that_does_not_exist_is_quoted_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("new\nline", "\x1b[2J", "x" * 5000):
        assert main(["fill", name, "a [MASK]"]) in (2, 4)
        errors = capsys.readouterr().err
        assert errors.count("\n") == 1
        assert errors[:-1].isprintable()
        assert len(errors) < 2000

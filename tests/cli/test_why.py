import json
from pathlib import Path

import pytest

from glassbert.cli.main import main
from helpers.explained import explained


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    explained("classify", folder)
    return folder


def test_the_text_is_shown_with_bars(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(folder), "abc d", "--target", "good"]) == 0
    first, second, *bars = capsys.readouterr().out.splitlines()
    assert first.startswith("classify: label 'good', log-odds ")
    assert "completeness gap 0.0" in second
    assert {line.split()[1] for line in bars} == {"a", "##b", "##c", "d"}
    assert "█" in "".join(bars) or "░" in "".join(bars)


def test_a_program_gets_every_part(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", str(folder), "abc d", "--method", "occlusion", "--unit", "word", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [part["name"] for part in found["parts"]] == ["abc", "d"]
    assert found["parts"][1] | {"value": 0} == {"name": "d", "value": 0, "text": 0, "start": 4, "end": 5}
    assert set(found) == {
        "method", "task", "target", "unit", "score", "probability", "parts", "notes", "completeness",
        "is_conclusive",
    }  # fmt: skip


def test_a_page_is_written_once(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "why.html"
    command = ["why", str(folder), "<b>今天</b> a", "--html", str(page)]
    assert main(command) == 0
    html = page.read_text(encoding="utf-8")
    assert "&lt;" in html
    assert "<b>" not in html
    assert 'style="--s:1.000"' in html
    page.write_text(f"{html}kept", encoding="utf-8")
    assert main(command) == 2
    assert f"{page} exists; name another file" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == f"{html}kept"
    assert main([*command, "--force"]) == 0
    assert page.read_text(encoding="utf-8") == html


def test_questions_and_pairs_are_given_as_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explained("answer", tmp_path / "answer")
    explained("pair", tmp_path / "pair")
    answer, pair = str(tmp_path / "answer"), str(tmp_path / "pair")
    same = []
    for words in (["c de f", "--question", "ab"], ["--context", "c de f", "--question", "ab"]):
        assert main(["why", answer, *words, "--target", "de", "--steps", "4", "--json"]) in (0, 5)
        same.append(json.loads(capsys.readouterr().out))
    assert same[0] == same[1]
    assert main(["why", pair, "ab", "--pair", "c", "--json", "--target", "fair"]) == 0
    assert [part["text"] for part in json.loads(capsys.readouterr().out)["parts"]] == [0, 0, 1]
    assert main(["why", answer, "c", "--context", "d", "--question", "e"]) == 2
    assert main(["why", answer, "--context", "d"]) == 2


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["abc", "--target", "goood"], 2, "(nearest: 'good')"),
        ([""], 2, "the text is empty"),
        (["a", "--method", "guess"], 2, "guess"),
        (["a b c d", "--steps", "1", "--baseline", "zero"], 5, "no conclusion; raise steps"),
        (["a", "--html", "no/such/folder/x.html"], 2, "is not a folder"),
    ],
)
def test_what_cannot_be_done_ends_in_one_line(
    folder: Path, words: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", str(folder), *words]) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert "Traceback" not in error


def test_a_translator_is_named_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from helpers.sentence_pairs import write_arbitrary_translator

    write_arbitrary_translator(tmp_path)
    assert main(["why", str(tmp_path), "a"]) == 4
    assert "is a translator" in capsys.readouterr().err


def test_the_demo_model_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", "demo", "The [MASK] flows to the sea.", "--method", "lens"]) == 0
    assert "after block 3" in capsys.readouterr().out

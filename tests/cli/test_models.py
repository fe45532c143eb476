"""Every verb that takes a MODEL asks one place what the name means."""

from pathlib import Path

import pytest

from glassbert.cli import convert, corpus, embed, fill, tokenize, vocab
from glassbert.cli.main import main
from glassbert.model_names import model_folder
from helpers.oracles import make_oracle, save_oracle

VERBS = {
    "fill": (fill, ["fill", "nickname", "a [MASK]"]),
    "embed": (embed, ["embed", "nickname", "texts.txt"]),
    "convert": (convert, ["convert", "nickname", "out"]),
    "tokenize": (tokenize, ["tokenize", "nickname", "a"]),
    "vocab inspect": (vocab, ["vocab", "inspect", "nickname"]),
    "corpus build": (corpus, ["corpus", "build", "texts.txt", "--tokenizer", "nickname", "--out", "out"]),
    "corpus check": (corpus, ["corpus", "check", "texts.txt", "--tokenizer", "nickname"]),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_name_means_the_same_to_every_verb(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "somewhere")
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a. b.\n\na. b.\nb. a.\n")
    module, arguments = VERBS[verb]
    assert main(arguments) == 4, "there is no such folder"
    asked = []

    def named(model: str) -> Path:
        asked.append(model)
        return folder if model == "nickname" else Path(model)

    monkeypatch.setattr(module, "model_folder", named)
    assert main(arguments) == 0
    assert asked == ["nickname"]


def test_a_path_is_a_folder() -> None:
    assert model_folder("some/folder") == Path("some/folder")


@pytest.mark.parametrize(
    ("verb", "head", "arguments"),
    [
        ("fill", "BertForMaskedLM", ["[MASK] " + "a " * 100]),
        ("embed", "BertModel", ["texts.txt"]),
        ("predict", "BertForSequenceClassification", ["texts.txt"]),
    ],
)
def test_what_is_assumed_and_what_is_cut_is_told(
    verb: str,
    head: str,
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a " * 100 + "\n")
    folder = save_oracle(make_oracle(head), tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    capsys.readouterr()
    assert main([verb, "model", *arguments]) == 0
    told = capsys.readouterr().err
    assert "assumed: text is lower-cased: no file says so" in told
    assert "cut" in told

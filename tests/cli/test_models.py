"""Every verb that takes a MODEL asks one place what the name means and whether it is of the right kind."""

from pathlib import Path

import pytest

from glassbert.cli import convert, corpus, tokenize, vocab
from glassbert.cli.main import main
from glassbert.errors import ModelError
from glassbert.inference import loading
from glassbert.interop import families
from glassbert.interop import folder as model_folders
from glassbert.interop.folder import write_model
from glassbert.model_names import model_folder
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import small_tokenizer, write_arbitrary_translator
from helpers.small_translators import small_transformer

VERBS = {
    "fill": (loading, ["fill", "nickname", "a [MASK]"]),
    "embed": (loading, ["embed", "nickname", "texts.txt"]),
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

    def named(model: str | Path) -> Path:
        asked.append(str(model))
        return folder if model == "nickname" else Path(model)

    for home in (module, families, model_folders):
        monkeypatch.setattr(home, "model_folder", named, raising=False)
    assert main(arguments) == 0
    assert "nickname" in asked


def test_a_path_is_a_folder() -> None:
    assert model_folder("some/folder") == Path("some/folder")


@pytest.mark.parametrize("kind", ["marian", "own"])
@pytest.mark.parametrize(
    "command",
    [
        "predict MODEL texts.txt",
        "embed MODEL texts.txt",
        "fill MODEL [MASK]",
        "tokenize MODEL a",
        "vocab inspect MODEL",
        "vocab extend MODEL --words texts.txt --out out",
        "corpus build texts.txt --tokenizer MODEL --out out",
        "corpus check texts.txt --tokenizer MODEL",
        "train classify --model MODEL --train rows.tsv --dev rows.tsv --out out",
    ],
)
def test_every_verb_for_encoders_sends_a_translator_to_its_own_verb(
    command: str,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("one\ntwo\n")
    Path("rows.tsv").write_text("text\tlabel\none\tgood\ntwo\tbad\n")
    Path("MODEL").mkdir()
    if kind == "marian":
        write_arbitrary_translator(Path("MODEL"))
    else:
        network = small_transformer(norm_position="pre", vocab_size=320)
        write_model(network, small_tokenizer(), "MODEL", run={})
    assert main(command.split()) == 4
    error = capsys.readouterr().err.splitlines()[-1]
    assert error == "glassbert: MODEL is a translator; use `glassbert translate MODEL`"
    assert not Path("out").exists()


def test_translate_names_an_encoder_as_such(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("a\n")
    assert main(["translate", "demo", str(tmp_path / "texts.txt")]) == 4
    expected = "glassbert: demo is a BERT, not a translator; train one with `glassbert train translate`\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("verb", ["fill", "embed", "predict", "translate"])
def test_every_verb_that_runs_a_model_takes_a_device_and_a_precision(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def load(name: str, kind: type | None = None, **place: str) -> None:
        asked.append(place)
        raise ModelError("stop here")

    monkeypatch.setattr(loading, "load", load)
    (tmp_path / "texts.txt").write_text("a\n")
    text = {"fill": "a [MASK]"}.get(verb, str(tmp_path / "texts.txt"))
    assert main([verb, "demo", text]) == 4
    assert main([verb, "demo", text, "--device", "cpu", "--precision", "bfloat16"]) == 4
    assert asked == [
        {"device": "auto", "precision": "float32"},
        {"device": "cpu", "precision": "bfloat16"},
    ]
    assert main([verb, "demo", text, "--device", "tpu"]) == 2
    assert "tpu" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["embed", "predict", "translate"])
def test_the_input_is_open_before_the_model_is_loaded(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(loading, "load", lambda *_, **__: pytest.fail("loaded in vain"))
    assert main([verb, "demo", str(tmp_path / "missing.txt")]) == 2
    assert "missing.txt: No such file" in capsys.readouterr().err


def test_a_hub_name_is_looked_up_only_with_online(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fetched(name: str) -> Path:
        asked.append(name)
        return model_folder("demo")

    monkeypatch.setattr("glassbert.model_names._fetched", fetched)
    assert main(["fill", "some/name", "a [MASK]"]) == 4
    assert asked == []
    assert main(["fill", "some/name", "a [MASK]", "--online"]) == 0
    assert loading.load("some/name", online=True).config.head == "pretraining"
    assert asked == ["some/name", "some/name"]


@pytest.mark.parametrize(
    ("verb", "head", "arguments"),
    [
        ("fill", "BertForMaskedLM", ["[MASK] " + "a " * 100]),
        ("embed", "BertModel", ["texts.txt"]),
        ("predict", "BertForSequenceClassification", ["texts.txt"]),
    ],
)
def test_assumptions_and_cut_texts_are_reported(
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
    reported = capsys.readouterr().err
    assert "assumed: text is lower-cased: no file says so" in reported
    assert "cut" in reported

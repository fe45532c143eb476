import json
from pathlib import Path

import pytest

from glassbert import model_names
from glassbert.cli.main import main
from glassbert.config import ModelConfig, preset
from glassbert.demo import pretraining, tasks, translation
from glassbert.demo.masked import CHINESE, ENGLISH
from glassbert.demo.topics import SPLITS, notes
from glassbert.inference.loading import load
from glassbert.interop.folder import write_model
from glassbert.model.init import new_bert
from glassbert.text.wordpiece.learn import LearnSettings, learn_vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

TITLES = 18


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the demo a matter of seconds: few steps, few rows, and a tiny model for the one of the package."""
    monkeypatch.setattr(pretraining, "STEPS", 8)
    monkeypatch.setattr(pretraining, "VOCAB_SIZE", 1200)
    monkeypatch.setattr(tasks, "NUM_NOTES", {"train": 24, "dev": 16, "test": 18})
    monkeypatch.setattr(tasks, "EPOCHS", 1)
    monkeypatch.setattr(translation, "NUM_PAIRS", 60)
    monkeypatch.setattr(translation, "NUM_HELD_OUT", 5)
    monkeypatch.setattr(translation, "STEPS", 3)
    monkeypatch.setattr(model_names, "ASSETS", tmp_path / "assets")
    write_package_model(tmp_path / "assets" / model_names.DEMO)


def write_package_model(folder: Path) -> None:
    folder.mkdir(parents=True)
    text = folder.parent / "text.txt"
    rows = [note.text for split in SPLITS for note in notes(split, 60, seed=1)]
    text.write_text(
        "\n".join([*rows, *ENGLISH, *ENGLISH.values(), *CHINESE, *CHINESE.values(), *tasks.TEXTS]),
        encoding="utf-8",
    )
    vocabulary = learn_vocabulary([text], LearnSettings(size=400, alphabet_coverage=1.0)).vocabulary
    shape = preset("tiny", vocab_size=len(vocabulary), max_position_embeddings=64, hidden_size=32)
    network = new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0)
    write_model(network, Tokenizer(vocabulary, max_length=64), folder, run={})


@pytest.mark.usefixtures("few_steps")
def test_the_numbers_are_those_of_the_models_it_keeps(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "life"
    assert main(["demo", "--out", str(out), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert len(numbers["elapsed_s"]) == TITLES
    assert numbers["vocab_size"] == 1200
    assert numbers["largest_difference"] < 1e-5
    assert numbers["is_round_trip_exact"] is True
    assert (numbers["stopped_at"], numbers["steps"]) == (5, 8)
    assert 0 < numbers["metrics"]["mlm_loss"] < 10
    assert (out / "run" / "last" / "model.safetensors").is_file()

    assert numbers["inside"] == {"cell": ["holds"] * 2, "saturation": ["holds"] * 3}

    in_english, in_chinese = [row["text"] for row in numbers["fill"][:2]], numbers["fill"][2:]
    assert {*in_english} <= {*ENGLISH}
    assert {row["text"] for row in in_chinese} <= {*CHINESE}
    last = numbers["fill"][-1]
    candidates = load("demo").fill(last["text"], top=400)[0]
    assert last["candidates"][0] == vars(candidates[0])
    assert candidates[last["rank"] - 1].token == last["piece"]

    assert numbers["fine_tune"]["rows"]["train"] == 24
    assert numbers["evaluate"]["examples"] == 18
    assert sum(map(sum, numbers["evaluate"]["report"]["confusion"]["counts"])) == 18
    assert numbers["evaluate"]["calibration"]["temperature"] > 0
    answers = load(out / "classify").predict(tasks.TEXTS)
    assert [row["label"] for row in numbers["predict"]["rows"]] == [one.label for one in answers]
    assert 0 <= numbers["predict"]["largest_difference"] < 1e-5
    assert (out / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")

    assert numbers["translate"]["steps"] == 3
    assert numbers["translate"]["right"].keys() == {"greedy", "beam 4"}
    rows = numbers["translate"]["alignment"]["weights"]
    assert all(sum(row) == pytest.approx(1, abs=1e-2) for row in rows)
    assert (out / "translate" / "last" / "model.safetensors").is_file()

    expected = answers[0].label
    assert len(numbers["serve"]["answers"]) >= 3
    assert set(numbers["serve"]["answers"].values()) == {expected}
    assert numbers["serve"]["difference"] < 1e-5
    assert (numbers["serve"]["answered"], numbers["serve"]["exit_code"]) == (64, 0)

    assert main(["demo", "--out", str(out)]) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.usefixtures("few_steps")
def test_the_story_has_numbered_steps_and_a_picture(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    assert main(["demo"]) == 0
    reported = capsys.readouterr().out
    assert all(f"\n{number}. " in reported for number in range(1, TITLES + 1))
    for expected in (
        "... a signal asks it to stop",
        "gold \\ guess",
        "calibration error",
        "report.html with",
    ):
        assert expected in reported
    # The head of the picture: all pieces that were read.
    assert any(line.split()[-1:] == ["</s>"] and len(line.split()) > 5 for line in reported.splitlines())
    assert "glassbert open" in reported.strip().splitlines()[-1]  # the next thing to try
    assert not any((tmp_path / "scratch").iterdir())


@pytest.mark.slow
def test_the_models_of_the_demo_learn_what_they_are_taught(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["demo", "--out", str(tmp_path / "life"), "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    # Four labels, as many rows of each: guessing gives a quarter.
    assert numbers["evaluate"]["metrics"]["accuracy"] > 0.5
    assert numbers["translate"]["right"]["beam 4"] > 0.5 * numbers["translate"]["held_out"]

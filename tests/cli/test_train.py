import json
from pathlib import Path

import pytest

from glassbert.cli.main import main
from glassbert.cli.train import TrainOptions, tables_of
from glassbert.inference.loading import load
from helpers.small_finetune import write_inputs

SHORT = ["--set", "train.epochs=2", "--set", "train.learning_rate=3e-3", "--set", "train.batch_size=16"]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


def options(given: Path, out: Path) -> list[str]:
    files = ["--model", str(given / "model"), "--train", str(given / "train.tsv")]
    return [*files, "--dev", str(given / "dev.tsv"), "--out", str(out), *SHORT]


def test_train_evaluate_and_predict(given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["train", "classify", *options(given, out)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out / 'best'}\n"
    assert "2 labels: bad" in printed.err
    assert "learning rate 0.003, batches of 16, seed 0" in printed.err
    page = (out / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")

    assert (
        main(["evaluate", str(out), str(given / "dev.tsv"), "--json", "--report", str(tmp_path / "r.html")])
        == 0
    )
    evaluation = json.loads(capsys.readouterr().out)
    assert evaluation["examples"] == 40
    assert (
        evaluation["metrics"]["accuracy"]
        == json.loads((out / "best" / "run.json").read_text())["metrics"]["accuracy"]
    )
    assert (tmp_path / "r.html").is_file()

    assert main(["evaluate", str(out), str(given / "dev.tsv")]) == 0
    assert "accuracy" in capsys.readouterr().out

    (tmp_path / "texts.txt").write_text("a e i l\nb c d\n", encoding="utf-8")
    assert main(["predict", str(out), str(tmp_path / "texts.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    expected = load(out).predict(["a e i l", "b c d"])
    assert [row["label"] for row in rows] == [one.label for one in expected]
    assert set(rows[0]) == {"label", "score", "scores", "tokens", "truncated"}


def test_the_model_is_told_beside_a_bag_of_words_unless_it_is_left_out(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["train", "classify", *options(given, out)]) == 0
    sentence = "dev rows: a bag of words"
    assert sentence in capsys.readouterr().err
    saved = json.loads((out / "best" / "run.json").read_text())["baselines"]
    assert set(saved["scores"]) == {"bag_of_words", "majority"}
    assert (saved["metric"], saved["rows"]) == ("accuracy", 40)
    assert "Worth its cost?" in (out / "report.html").read_text(encoding="utf-8")
    assert main(["evaluate", str(out), str(given / "train.tsv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"] == saved
    assert main(["evaluate", str(out), str(given / "train.tsv")]) == 0
    assert f"accuracy on 40 {sentence}" in capsys.readouterr().out.replace("\n", " ")

    assert main(["train", "classify", *options(given, tmp_path / "plain"), "--no-baseline"]) == 0
    assert sentence not in capsys.readouterr().err
    assert "baselines" not in json.loads((tmp_path / "plain" / "best" / "run.json").read_text())
    assert main(["evaluate", str(tmp_path / "plain"), str(given / "dev.tsv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"] is None


def test_json_holds_the_result(given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    recipe = tmp_path / "recipe.toml"
    tables = f'[model]\nfolder = "{given / "model"}"\n[data]\ntrain = "{given / "train.tsv"}"\n'
    recipe.write_text(f"{tables}[train]\nsteps = 1\n")
    assert main(["train", "classify", "--recipe", str(recipe), "--out", str(out), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["step"], result["is_finished"], result["model"]) == (1, True, str(out / "best"))
    assert result["best_by"] == "accuracy"
    assert "accuracy" in result["metrics"]
    assert result["report"] == str(out / "report.html")


def test_options_are_settings_of_the_recipe() -> None:
    options = TrainOptions(
        model="demo", train=Path("a.tsv"), format="tsv", skip_bad=3, seeds=5, adapt=True, search=10.0
    )
    tables = tables_of(options)
    assert tables["model"] == {"start": "demo"}
    assert tables["data"] == {"train": "a.tsv", "format": "tsv", "skip_bad": 3}
    assert tables["runs"] == {"seeds": 5, "search_minutes": 10.0}
    assert tables["adapt"]["epochs"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["classify", "--train", "x.tsv"], 2, "--model is missing; name it, or set model.start in a recipe"),
        (["classify", "--model", "m"], 2, "--train is missing; name it, or set data.train in a recipe"),
        (["classify", "--model", "nothing", "--train", "x.tsv"], 2, "x.tsv"),
        (["sing", "--model", "m"], 2, "sing"),
    ],
)
def test_a_missing_option_is_one_line(
    arguments: list[str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == code
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "runs").exists()


def test_bad_labels_end_with_the_code_of_bad_data(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.tsv").write_text("text\tlabel\na\tawful\n")
    arguments = [*options(given, tmp_path / "out"), "--dev", str(tmp_path / "dev.tsv")]
    arguments = [one for one in arguments if one != str(given / "dev.tsv")]
    arguments.remove("--dev")
    assert main(["train", "classify", *arguments]) == 3
    assert "dev.tsv:2: label 'awful' is in no training row" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

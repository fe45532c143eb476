import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassbert as gb
from glassbert.data.corpus.build import build_corpus
from glassbert.errors import UserError
from glassbert.runs.api import finetune_homes, pretrain, pretrain_homes, train, translate_homes
from glassbert.runs.run import RunResult
from glassbert.storage import read_json
from glassbert.tasks.registry import TASKS
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.sentence_pairs import SHAPE, VOCAB_SIZE, sentence_pairs, write_tsv
from helpers.small_finetune import write_inputs

SMALL = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 32}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    words = ("cat", "dog", "sat", "ran")
    text = "".join(f"{a} {b} {c}\n\n" for a in words for b in words for c in words)
    (folder / "text.txt").write_text(text)
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *words)), max_length=32)
    build_corpus(folder / "text.txt", tokenizer=tokenizer, out=folder / "corpus", form="documents")
    return folder / "corpus"


def test_settings_are_named_as_in_the_recipe(given: Path, tmp_path: Path) -> None:
    result = train(
        "classify",
        model=given / "model",
        train=given / "train.tsv",
        dev=given / "dev.tsv",
        out=tmp_path / "out",
        log=lambda line: None,
        steps=2,
        class_weights="balanced",
        hidden_dropout=0.2,
        settings={"task.focal_gamma": 1.0},
    )
    assert result.step == 2
    recipe = read_json(result.model / "run.json")["recipe"]
    assert (recipe["task"]["class_weights"], recipe["task"]["focal_gamma"]) == ("balanced", 1.0)
    assert recipe["model"]["hidden_dropout_prob"] == 0.2


def test_a_wrong_name_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    files: dict[str, Any] = {"model": "m", "train": "t", "out": tmp_path / "x"}
    with pytest.raises(UserError, match=r"unknown key settings.learningrate; did you mean"):
        train("classify", **files, learningrate=1)
    with pytest.raises(UserError, match=r"settings\['steps'\]: expected table.key=value"):
        train("classify", **files, settings={"steps": 1})
    with pytest.raises(UserError, match="no task 'sing'; expected one of classify, pair, tag, answer"):
        train("sing", **files)


def test_lines_go_to_stderr_and_a_report_is_written_if_asked_for(
    given: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {name: str(given / f"{name}.tsv") for name in ("train", "dev")}
    out = str(tmp_path / "out")
    result = train("classify", model=str(given / "model"), **files, out=out, steps=1, report=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "learning rate" in printed.err
    assert result.report == tmp_path / "out" / "report.html"
    assert result.report.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert train("classify", model=str(given / "model"), **files, out=out, steps=1).report is None


def test_a_translator_is_trained_by_the_same_function(tmp_path: Path) -> None:
    result = train(
        "translate",
        model="transformer-tiny",
        train=write_tsv(tmp_path / "train.tsv", sentence_pairs(100)),
        dev=write_tsv(tmp_path / "dev.tsv", sentence_pairs(8, seed=1)),
        out=tmp_path / "run",
        log=lambda line: None,
        steps=1,
        max_length=64,
        vocabulary_size=VOCAB_SIZE,
        **SHAPE,
    )
    assert isinstance(result, RunResult)
    assert (result.best_by, set(result.metrics)) == ("bleu", {"bleu", "chrf"})
    again = train(
        "translate",
        model=result.model,
        train=tmp_path / "train.tsv",
        out=tmp_path / "further",
        log=lambda line: None,
        steps=1,
        max_length=64,
    )
    assert again.model == tmp_path / "further" / "last"


def test_pretraining_takes_a_corpus_a_recipe_or_its_tables(corpus: Path, tmp_path: Path) -> None:
    def weights(source: Any, name: str, **settings: Any) -> bytes:
        result = pretrain(source, out=tmp_path / name, log=lambda line: None, **settings)
        assert (result.step, result.model) == (1, tmp_path / name / "last")
        return (result.model / "model.safetensors").read_bytes()

    changes = {"objective": "mlm", "steps": 1, "batch_tokens": 64, "max_length": 32, **SMALL}
    of_corpus = weights(str(corpus), "a", model="tiny", **changes)
    tables = {
        "data": {"corpus": str(corpus)},
        "model": {"preset": "tiny", **SMALL},
        "objective": {"name": "mlm", "max_length": 32},
        "train": {"batch_tokens": 64},
    }
    assert weights(tables, "b", steps=1) == of_corpus
    assert "steps" not in tables["train"], "what was handed in stays as it was"
    path = tmp_path / "recipe.toml"
    path.write_text(
        '[model]\npreset = "base"\n[objective]\nname = "mlm"\nmax_length = 32\n[train]\nbatch_tokens = 64\n'
    )
    shape = {f"model.{name}": value for name, value in SMALL.items()}
    settings = {"train.steps": 1, **shape}
    assert weights(path, "c", corpus=corpus, model="tiny", settings=settings) == of_corpus


@pytest.mark.parametrize("task", [*TASKS, "translate", "pretrain"])
def test_no_name_means_two_settings(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def homes(table: str, keys: Any, prefix: str = "") -> dict[str, tuple[str, str]]:
        names = [prefix + key for key in keys if key not in ("name", "train", "dev")]
        seen.extend(names)
        return {}

    monkeypatch.setattr("glassbert.runs.api._homes", homes)
    if task == "pretrain":
        pretrain_homes()
    elif task == "translate":
        translate_homes()
    else:
        finetune_homes(task)
    assert len(seen) == len(set(seen)) > 20


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("data.train", lambda path, out: gb.train("classify", model="demo", train=path, out=out)),
        ("data.text", lambda path, out: gb.distil("demo", text=path, out=out, model="demo")),
    ],
)
def test_a_file_name_that_a_recipe_cannot_hold_is_refused_before_the_file_is_read(
    key: str, start: Callable[[Path, Path], Any], tmp_path: Path
) -> None:
    name = tmp_path / os.fsdecode(b"\xff.csv")  # there is no such file, which would be the next complaint
    with pytest.raises(UserError, match=rf"{key} holds a name that is not UTF-8.*; rename the file"):
        start(name, tmp_path / "run")
    assert not (tmp_path / "run").exists()

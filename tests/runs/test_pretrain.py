"""Runs whose batches, texts and masks change on the way."""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from glassbert.data.corpus.build import build_corpus
from glassbert.data.corpus.reader import Corpus
from glassbert.errors import DataError, UserError
from glassbert.evaluation.evaluate import evaluate
from glassbert.inference.loading import load
from glassbert.runs.pretrain import PretrainRecipe, make_trainable
from glassbert.runs.recipe import read_recipe, write_recipe
from glassbert.runs.run import carry_out
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.status import Status

LANGUAGES = {"en": "abcdefgh", "zh": "stuvwxyz"}
PHASES = [{"until": 0.3, "batch_tokens": 128}, {"until": 0.7}, {"until": 1.0, "max_length": 48}]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of documents that share no word."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, letters in LANGUAGES.items():
        sentences = [f"{a} {b} {c} .\n" for a in letters for b in letters for c in letters[:4]]
        documents = ["".join(sentences[start : start + 8]) for start in range(0, len(sentences), 8)]
        (folder / f"{name}.txt").write_text("\n".join(documents))
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *"".join(LANGUAGES.values()), ".")), max_length=48)
    files = [folder / f"{name}.txt" for name in LANGUAGES]
    build_corpus(files, tokenizer=tokenizer, out=folder / "corpus", held_out=0.2)
    return folder / "corpus"


def recipe(corpus: Path, **changes: dict[str, Any]) -> PretrainRecipe:
    tables: dict[str, dict[str, Any]] = {
        "data": {"corpus": str(corpus), "held_out_tokens": 100_000, "phases": PHASES},
        "model": {
            "preset": "tiny",
            "max_position_embeddings": 48,
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_attention_heads": 2,
        },
        "objective": {
            "max_length": 24,
            "partner": "file",
            "mask": {"select_prob": 0.3, "final_select_prob": 0.15},
        },
        "train": {"steps": 10, "batch_tokens": 256, "save_every": 4, "log_every": 5, "learning_rate": 3e-3},
    }
    for name, table in changes.items():
        tables[name] |= table
    return PretrainRecipe.of(
        {name: {k: v for k, v in t.items() if v is not None} for name, t in tables.items()}
    )


def ignore(line: str) -> None:
    """Log nothing."""


def stop(status: Status) -> None:
    """Ask the run to stop, as SIGTERM does."""
    signal.raise_signal(signal.SIGTERM)


def test_a_run_in_phases_resumes_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    finished = carry_out(recipe(corpus), tmp_path / "straight", log=ignore)
    assert finished.step == 10
    for _ in range(3):  # stopped in the second step of each session
        result = carry_out(
            recipe(corpus),
            tmp_path / "stopped",
            log=ignore,
            on_status=stop,
        )
    assert not result.is_finished
    assert carry_out(recipe(corpus), tmp_path / "stopped", log=ignore).is_finished
    for name in ("last/model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "straight" / name).read_bytes() == (tmp_path / "stopped" / name).read_bytes()


def test_tokens_that_begin_as_vectors_of_the_corpus_are_computed_once_and_resume_bit_for_bit(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = recipe(corpus, model={"token_vectors": True})
    made = make_trainable(started, Corpus.open(corpus))
    plain = make_trainable(recipe(corpus), Corpus.open(corpus))
    of_text = made.module.bert.encoder.embeddings.token.weight.detach()
    is_special = [id_ in made.tokenizer.vocabulary.special_ids for id_ in range(len(of_text))]
    rows = plain.module.bert.encoder.embeddings.token.weight.detach()
    assert torch.equal(of_text[is_special], rows[is_special])
    sizes = of_text[[not special for special in is_special]].square().mean(dim=1).sqrt()
    torch.testing.assert_close(sizes, torch.full_like(sizes, 0.02))
    straight = carry_out(started, tmp_path / "straight", log=ignore)
    result = carry_out(started, tmp_path / "stopped", log=ignore, on_status=stop)
    assert not result.is_finished
    monkeypatch.setattr("glassbert.runs.pretrain.token_vectors", None)  # not asked for again
    assert carry_out(started, tmp_path / "stopped", log=ignore).metrics == straight.metrics


def test_phases_and_rates_are_written_and_read_back(corpus: Path, tmp_path: Path) -> None:
    before = recipe(corpus)
    (tmp_path / "recipe.toml").write_text(write_recipe(before.tables()))
    assert PretrainRecipe.of(read_recipe(tmp_path / "recipe.toml")) == before
    plain = recipe(corpus, data={"phases": None}, objective={"mask": {}}).tables()
    assert "phases" not in plain["data"]
    assert "final_select_prob" not in plain["objective"]["mask"]


def test_scores_are_told_for_each_file(corpus: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    result = carry_out(recipe(corpus), tmp_path / "run", log=lines.append)
    names = ["mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"]
    assert list(result.metrics)[:4] == names
    assert set(result.metrics) == {*names, *(f"{name}/{file}" for name in names for file in LANGUAGES)}
    between = sorted(result.metrics[f"mlm_loss/{file}"] for file in LANGUAGES)
    assert between[0] <= result.metrics["mlm_loss"] <= between[1]
    assert any("nsp_accuracy/zh" in line for line in lines)
    measured = evaluate(load(tmp_path / "run" / "last"), corpus / "held-out")
    assert measured.metrics == pytest.approx(dict(result.metrics))


def test_a_corpus_without_its_files_gives_no_partner_and_no_scores_by_file(
    corpus: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(corpus, old)
    for path in (old / "manifest.json", old / "held-out" / "manifest.json"):
        content = json.loads(path.read_text())
        for shard in content["shards"]:
            del shard["documents_of_sources"]
        path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="does not say which file"):
        carry_out(recipe(old), tmp_path / "run", log=ignore)
    result = carry_out(recipe(old, objective={"partner": "any"}), tmp_path / "run", log=ignore)
    assert len(result.metrics) == 4


@pytest.mark.parametrize(
    ("files", "reported"),
    [
        (["en"], "changes nothing: the corpus is of one file"),
        (["en", "one"], "1 of 2 files have one document"),
    ],
)
def test_it_is_told_where_partners_of_one_file_cannot_be(
    files: list[str], reported: str, corpus: Path, tmp_path: Path
) -> None:
    (corpus.parent / "one.txt").write_text("a b c .\nb c d .\n")
    texts = [corpus.parent / f"{name}.txt" for name in files]
    build_corpus(texts, tokenizer=Corpus.open(corpus).tokenizer(), out=tmp_path / "corpus", form="sentences")
    lines: list[str] = []
    recipe(tmp_path / "corpus").prepare(tmp_path / "run", lines.append)
    assert any(reported in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": {"steps": None, "epochs": 1}}, r"data\.phases are shares .* set train\.steps"),
        ({"data": {"phases": [{"until": 2.0}]}}, r"until=2\.0; expected a number of more than 0"),
        ({"data": {"phases": [{"until": 1.0, "max_length": 60}]}}, r"data\.phases\.max_length=60 exceeds"),
        ({"data": {"phases": [{"until": 1.0, "batch_tokens": 8}]}}, "batch_tokens=8 is less than"),
        ({"data": {"phases": {"until": 1.0}}}, "expected a list"),
        ({"data": {"phases": [{"till": 1.0}]}}, r"unknown key data\.phases\[0\]\.till"),
        (
            {"data": {"phases": None}, "train": {"steps": None, "minutes": 1.0}},
            r"set train\.steps or train\.epochs instead of train\.minutes",
        ),
    ],
)
def test_phases_that_cannot_be_are_refused_before_a_folder_is_made(
    corpus: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        carry_out(recipe(corpus, **changes), tmp_path / "run", log=ignore)
    assert not (tmp_path / "run").exists()

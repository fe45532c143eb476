import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from glassbert.errors import DataError, ModelError, UserError
from glassbert.inference.loading import load
from glassbert.model_names import model_folder
from glassbert.runs.finetune import FineTuneRecipe, make_trainable
from glassbert.runs.folder import open_run
from glassbert.runs.recipe import write_recipe
from glassbert.runs.rows import read_rows
from glassbert.storage import locked, read_json
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.partial_embedding import PartlyTrainedEmbedding
from glassbert.training.checkpoint import checkpoints
from glassbert.training.processes import Processes
from glassbert.training.state import TrainState
from helpers.small_finetune import NUM_DEV, STEPS, recipe_of, run, write_inputs, write_rows

FILES = ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl", "best/run.json")
FINAL = f"checkpoint-{STEPS}/training.safetensors"

SCRIPT = Path(__file__).parents[1] / "helpers" / "small_finetune.py"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def finished(given: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    result = run(given, out)
    assert result.is_finished
    return out


def assert_same_bytes(out: Path, finished: Path) -> None:
    for name in (*FILES, FINAL):
        assert (out / name).read_bytes() == (finished / name).read_bytes(), name


def signal_at(monkeypatch: pytest.MonkeyPatch, step: int, number: int) -> None:
    """Let this process receive a signal when the batch of ``step`` is asked for."""
    batch = FineTune.batch

    def with_signal(task: FineTune[Any, Any], wanted: int) -> Any:
        if wanted == step:
            monkeypatch.setattr(FineTune, "batch", batch)
            os.kill(os.getpid(), number)
        return batch(task, wanted)

    monkeypatch.setattr(FineTune, "batch", with_signal)


def test_a_run_folder_holds_what_it_must(finished: Path) -> None:
    names = {path.name for path in finished.iterdir()}
    assert {"best", "last", "metrics.jsonl", "recipe.toml", f"checkpoint-{STEPS}"} <= names
    evaluations = [
        row for row in (finished / "metrics.jsonl").read_text().splitlines() if "evaluation" in row
    ]
    assert [json.loads(row)["step"] for row in evaluations] == [5, 10, 14]


def test_run_json_records_metrics_task_data_and_seed(finished: Path) -> None:
    reported = read_json(finished / "best" / "run.json")
    assert {"accuracy", "f1", "mcc", "ece"} <= reported["metrics"].keys()
    assert reported["task"]["name"] == "classify"
    assert reported["task"]["temperature"] > 0
    assert len(reported["data"]["train"]["sha256"]) == 64
    assert reported["seed"] == 0
    assert reported["recipe"]["train"]["learning_rate"] == 3e-3


def test_the_card_shows_labels_metrics_and_how_to_load(finished: Path) -> None:
    card = (finished / "best" / "README.md").read_text(encoding="utf-8")
    assert "head: classify; labels: bad, good" in card
    assert f'"accuracy": {read_json(finished / "best" / "run.json")["metrics"]["accuracy"]}' in card
    assert "BertForSequenceClassification.from_pretrained" in card


@pytest.mark.parametrize(("step", "number"), [(0, signal.SIGTERM), (6, signal.SIGINT), (13, signal.SIGTERM)])
def test_a_stopped_run_resumes_as_if_it_had_not_stopped(
    given: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, number: int
) -> None:
    signal_at(monkeypatch, step, number)
    result = run(given, tmp_path / "out")
    assert (result.step, result.is_finished) == (step + 1, step == STEPS - 1)
    assert run(given, tmp_path / "out").is_finished
    assert_same_bytes(tmp_path / "out", finished)


def test_a_finished_run_is_left_as_it_is(given: Path, finished: Path) -> None:
    before = {name: (finished / name).read_bytes() for name in FILES}
    run(given, finished)
    assert before == {name: (finished / name).read_bytes() for name in FILES}


def test_other_settings_and_other_rows_are_another_run(given: Path, finished: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds a run with another train.learning_rate"):
        run(given, finished, train={"learning_rate": 1e-3})
    write_inputs(tmp_path)
    run(tmp_path, tmp_path / "out")
    write_rows(tmp_path / "train.tsv", 100, seed=7)
    with pytest.raises(DataError, match="data.train is not the text that .* was started with"):
        run(tmp_path, tmp_path / "out")


def test_a_run_that_an_older_version_started_is_resumed(
    given: Path, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, tables = tmp_path / "out", {"runs": {"seeds": 1}}
    signal_at(monkeypatch, 6, signal.SIGTERM)
    assert not run(given, out, **tables).is_finished
    recipe = tomllib.loads((out / "recipe.toml").read_text())
    for table, key in (("train", "patience"), ("task", "focal_gamma"), ("data", "dev_share")):
        del recipe[table][key]  # as if the setting did not exist then
    del recipe["adapt"]
    (out / "recipe.toml").write_text(write_recipe(recipe))
    with pytest.raises(UserError, match=r"another task.focal_gamma \(0.0, now 2.0\)"):
        run(given, out, task={"focal_gamma": 2.0})
    assert run(given, out, **tables).is_finished
    assert_same_bytes(out, finished)


def test_a_folder_of_another_task_is_refused(given: Path, finished: Path) -> None:
    tables = {"model": {"start": str(given / "model")}, "data": {"train": str(given / "train.tsv")}}
    other = FineTuneRecipe.of("tag", tables)
    with pytest.raises(UserError, match=r"holds a run of classify; name another folder"):
        open_run(finished, other.tables(), other.completed)


def test_transformers_gives_the_same_logits_and_scores(finished: Path) -> None:
    ours = load(finished / "best")
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(finished / "best").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(finished / "best")
    texts = ["a e i l m", "b c d", "l", "a b c d e f g " * 3]
    for text, found in zip(texts, ours.predict(texts), strict=True):
        with torch.no_grad():
            logits = theirs(**tokenizer(text, return_tensors="pt", truncation=True, max_length=40)).logits[0]
        encoding = ours.tokenize([text])
        mine = ours.engine.map(encoding, lambda output, batch, _: list(output.labels.numpy()))[0]
        np.testing.assert_allclose(mine, logits.numpy(), atol=1e-5)
        assert theirs.config.id2label[int(logits.argmax())] == found.label
        np.testing.assert_allclose(list(found.scores.values()), logits.softmax(-1).numpy(), atol=1e-5)


def test_only_the_rows_of_the_training_text_are_trained(given: Path, finished: Path) -> None:
    name = "bert.embeddings.word_embeddings.weight"
    before = load_file(given / "model" / "model.safetensors")[name]
    after = load_file(finished / "last" / "model.safetensors")[name]
    rows = read_rows("classify", recipe_of(given).data, lambda line: None)
    task = make_trainable(recipe_of(given), rows, lambda line: None)
    used = {int(id_) for windows in task.train_inputs for one in windows for id_ in one.ids}
    changed = {row for row in range(len(before)) if not torch.equal(before[row], after[row])}
    assert changed == used
    assert len(used) < len(before)
    assert isinstance(task.module.bert.encoder.embeddings.token, PartlyTrainedEmbedding)


def test_a_frozen_encoder_stays_as_it_was(given: Path, tmp_path: Path) -> None:
    run(given, tmp_path / "out", task={"freeze_encoder": True}, train={"epochs": 1.0})
    before = load_file(given / "model" / "model.safetensors")
    after = load_file(tmp_path / "out" / "last" / "model.safetensors")
    encoder = [name for name in before if name.startswith(("bert.embeddings.", "bert.encoder."))]
    assert len(encoder) > 30
    assert all(torch.equal(before[name], after[name]) for name in encoder)
    assert not torch.equal(before["bert.pooler.dense.weight"], after["bert.pooler.dense.weight"])
    run(given, tmp_path / "out", task={"freeze_encoder": True}, train={"epochs": 1.0})


def test_patience_ends_a_run_early_and_for_good(given: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    settings = {"epochs": 30.0, "patience": 2, "learning_rate": 1e-9, "evaluate_every": 2}
    result = run(given, tmp_path / "out", reported.append, train=settings, task={"metric": "accuracy"})
    assert result.step < 30
    assert result.step == (result.best_step or 0) + 4
    assert any(line.startswith("no improvement since step") for line in reported)
    assert run(given, tmp_path / "out", train=settings, task={"metric": "accuracy"}).step == result.step


def test_of_equal_metrics_the_lower_loss_is_better(given: Path) -> None:
    recipe = recipe_of(given)
    task = make_trainable(recipe, read_rows("classify", recipe.data, lambda line: None), lambda line: None)
    state = TrainState(task, recipe.train, Processes.join(recipe.train))
    values = [(0.5, 1.0), (0.5, 0.9), (0.5, 0.95), (0.4, 0.1), (0.6, 2.0)]
    is_best = [state.note_metrics({"accuracy": metric, "loss": loss}) for metric, loss in values]
    assert is_best == [True, True, False, False, True]


def test_a_head_for_other_labels_is_not_kept(given: Path, finished: Path) -> None:
    reported: list[str] = []
    recipe = recipe_of(given, model={"start": str(finished / "best")})
    rows = read_rows("classify", recipe.data, lambda line: None)
    make_trainable(recipe, rows, reported.append)
    assert any("new, to be trained: none" in line for line in reported)
    renamed = [type(row)(row.text, None, ("x" + row.labels[0],), None, row.where) for row in rows.train]
    reported.clear()
    make_trainable(recipe, type(rows)(renamed, [], {}), reported.append)
    assert any("new, to be trained: classifier.bias, classifier.weight" in line for line in reported)


def test_shares_cut_and_unknown_are_logged_before_the_first_step(given: Path, tmp_path: Path) -> None:
    rows = ["text\tlabel", "a b c d e f g h i\tgood", "\u7532\u4e59\tbad", "a\tgood", "b\tbad"]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    recipe = recipe_of(given, data={"train": str(tmp_path / "train.tsv")}, task={"max_length": 8})
    reported: list[str] = []
    make_trainable(recipe, read_rows("classify", recipe.data, reported.append), reported.append)
    described = next(line for line in reported if line.startswith("train: 4 rows"))
    assert "1 (25.0%) are cut at 8 tokens" in described
    assert "20.00% of the pieces are unknown" in described
    assert "train: 1 rows consist of unknown characters only; extend the vocabulary" in reported


def test_without_a_dev_file_the_same_rows_are_held_out_every_time(given: Path, tmp_path: Path) -> None:
    recipe = recipe_of(given, data={"dev": None, "dev_share": 0.2})
    reported: list[str] = []
    rows, again = (
        read_rows("classify", recipe.data, reported.append),
        read_rows("classify", recipe.data, print),
    )
    assert (len(rows.train), len(rows.dev)) == (80, 20)
    assert rows == again
    assert not set(map(id, rows.train)) & set(map(id, rows.dev))
    assert any(line.startswith("no --dev file: 20 of 100 training rows") for line in reported)


def test_a_run_without_any_dev_rows_keeps_its_last_weights(given: Path, tmp_path: Path) -> None:
    result = run(given, tmp_path / "out", data={"dev": None, "dev_share": 0.0}, train={"epochs": 1.0})
    assert result.metrics == {}
    best, last = (tmp_path / "out" / name / "model.safetensors" for name in ("best", "last"))
    assert best.read_bytes() == last.read_bytes()
    assert load(tmp_path / "out").predict(["a e"])[0].label in ("good", "bad")


def test_an_empty_dev_file_is_named(given: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("text\tlabel\n")
    with pytest.raises(DataError, match=r"dev.tsv.*no rows"):
        run(given, tmp_path / "out", data={"dev": str(tmp_path / "dev.tsv")})
    assert not (tmp_path / "out").exists()


def test_dev_rows_that_are_trained_on_are_reported(given: Path, tmp_path: Path) -> None:
    reported: list[str] = []
    read_rows("classify", recipe_of(given, data={"dev": str(given / "train.tsv")}).data, reported.append)
    assert "100 of 100 dev rows are training rows too: the metrics flatter the model" in reported


def test_the_learning_rate_follows_the_width(given: Path) -> None:
    assert recipe_of(given, train={"learning_rate": None}).train.learning_rate == 3e-4


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"train": {"batch_sise": 8}}, r"unknown key train.batch_sise; did you mean train.batch_size"),
        ({"task": {"long_text": "middle"}}, "task.long_text='middle'; expected one of head, tail"),
        ({"task": {"max_length": 600}}, "task.max_length=600 exceeds the 40 tokens that the model reads"),
        ({"task": {"metric": "beauty"}}, "task.metric='beauty'; expected one of loss, accuracy, "),
        ({"train": {"patience": -1}}, "train.patience=-1; expected a whole number of at least 0"),
        ({"runs": {"seeds": 0}}, "runs.seeds=0; expected a whole number of at least 1"),
        ({"data": {"dev_share": 1.5}}, "data.dev_share=1.5; expected a number of at least 0"),
    ],
)
def test_wrong_settings_are_one_clear_line(
    given: Path, tmp_path: Path, tables: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(given, tmp_path / "out", **tables)
    assert not (tmp_path / "out").exists()


def test_a_vocabulary_with_more_pieces_than_rows_is_refused(given: Path, tmp_path: Path) -> None:
    shutil.copytree(given / "model", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    with (tmp_path / "model" / "vocab.txt").open("a") as file:
        file.write("newword\n")
    with pytest.raises(ModelError, match="the vocabulary has 81 pieces, but the model has 80 rows"):
        run(given, tmp_path / "out", model={"start": str(tmp_path / "model")})
    assert not (tmp_path / "out").exists()


def test_a_recipe_may_name_a_model_as_a_command_may(given: Path, finished: Path) -> None:
    assert recipe_of(given, model={"start": "demo"}).model.start == model_folder("demo")
    assert recipe_of(given, model={"start": str(finished)}).model.start == finished / "best"


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_works(
    given: Path, finished: Path
) -> None:
    with locked(finished, "the first"), pytest.raises(UserError, match="is in use by another run; wait"):
        run(given, finished)
    assert run(given, finished).is_finished


def test_the_result_holds_the_rows_that_were_measured(given: Path, finished: Path) -> None:
    dev = run(given, finished).dev
    assert dev is not None
    assert (dev.name, dev.evaluate(finished / "best").examples) == (str(given / "dev.tsv"), NUM_DEV)


@pytest.mark.slow
def test_kills_change_no_bit(given: Path, tmp_path: Path) -> None:
    """Kill -9 at random moments, some of them during a save, and resume each time."""
    tables = {"train": {"epochs": 12.0, "save_every": 2}}
    run(given, tmp_path / "straight", **tables)
    killed = tmp_path / "killed"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        str(SCRIPT),
        str(given),
        str(killed),
    ]
    command.append(json.dumps(tables))
    generator = random.Random(0)
    num_kills = 0
    for _ in range(8):
        before = {path.name for path in killed.glob("*")} if killed.exists() else set()
        process = subprocess.Popen(command, env=environment)
        while process.poll() is None and {path.name for path in killed.glob("*")} == before:
            time.sleep(0.001)
        time.sleep(generator.uniform(0.0, 0.3))
        num_kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, env=environment, check=True)
    assert num_kills >= 4
    newest = checkpoints(tmp_path / "straight")[-1].name
    for name in (*FILES, f"{newest}/training.safetensors"):
        assert (killed / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_learn_what_one_learns(given: Path, tmp_path: Path, strategy: str) -> None:
    # Dropout is drawn per process; without it, one and two processes compute the same sums in another order.
    tables: dict[str, dict[str, Any]] = {"model": {"hidden_dropout_prob": 0.0}}
    run(given, tmp_path / "one", **tables)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [
        str(SCRIPT),
        str(given),
        str(tmp_path / "two"),
    ]
    command.append(json.dumps({**tables, "train": {"strategy": strategy}}))
    subprocess.run(command, env=environment, check=True, timeout=600)
    one, two = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("one", "two")
    )
    assert len(one) == len(two) > STEPS
    for mine, theirs in zip(one, two, strict=True):
        for name in set(mine) & {"loss", "grad_norm"}:
            assert theirs[name] == pytest.approx(mine[name], rel=1e-4), (mine["step"], name)
    assert (
        load(tmp_path / "two").predict(["a e"])[0].label == load(tmp_path / "one").predict(["a e"])[0].label
    )

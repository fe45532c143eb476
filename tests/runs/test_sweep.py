import json
import os
import signal
import statistics
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from glassbert.data.examples import AnswerExample
from glassbert.errors import DataError, ModelError, UserError
from glassbert.inference.loading import load
from glassbert.runs import sweep
from glassbert.runs.adapt import texts_of
from glassbert.runs.sweep import best_of, in_time, search_grid, summary
from glassbert.storage import read_json
from glassbert.tasks.fine_tuning import FineTune
from glassbert.tasks.pretraining import Pretrain
from helpers.small_finetune import NUM_TRAIN, recipe_of, run, write_inputs, write_rows

SHORT = {"epochs": 1.0}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inputs(tmp_path_factory.mktemp("given"))


def record(name: str, metric: float, best_by: str = "accuracy", elapsed_s: float = 1.0) -> dict[str, object]:
    return {
        "name": name,
        "tried": {"seed": 1},
        "best_by": best_by,
        "metrics": {best_by: metric},
        "elapsed_s": elapsed_s,
    }


def test_the_best_run_knows_which_way_its_metric_points() -> None:
    assert best_of([record("a", 0.8), record("b", 0.9), record("c", 0.9)])["name"] == "b"
    assert best_of([record("a", 0.8, "mse"), record("b", 0.9, "mse")])["name"] == "a"
    for metric, value in (("mse", 0.1), ("mcc", -0.1)):
        unknown = record("a", 0.0, metric) | {"metrics": {}}
        assert best_of([unknown, record("b", value, metric)])["name"] == "b", "what is unknown wins nothing"


def test_a_search_starts_no_run_that_will_not_end_in_time() -> None:
    assert in_time([], 0.0), "one run is always done"
    done = [record("a", 0.8, elapsed_s=10.0), record("b", 0.8, elapsed_s=20.0)]
    assert in_time(done, 45.0)
    assert not in_time(done, 44.0)


def test_the_grid_is_that_of_berts_authors_around_the_usual_rate(given: Path) -> None:
    grid = search_grid(recipe_of(given, train={"learning_rate": 3e-5}))
    assert {one.tried["learning_rate"] for one in grid} == {2e-5, 3e-5, 5e-5}
    assert {one.tried["batch_size"] for one in grid} == {16, 32}
    assert {one.tried["epochs"] for one in grid} == {3.0, 4.0}
    assert len({tuple(one.tried.values()) for one in grid}) == len(grid) == 12
    assert grid[0].tried == {"epochs": 3.0, "batch_size": 32, "learning_rate": 3e-5}
    with pytest.raises(UserError, match="a search tries numbers of epochs"):
        search_grid(recipe_of(given, train={"epochs": None, "steps": 3}))


def test_seeds_give_mean_and_deviation_and_the_best_model(given: Path, tmp_path: Path) -> None:
    out, reported = tmp_path / "out", list[str]()
    result = run(given, out, reported.append, train=SHORT, runs={"seeds": 3})
    values = [one["metrics"]["accuracy"] for one in result.runs]
    assert [one["name"] for one in result.runs] == ["seed-0", "seed-1", "seed-2"]
    assert len(set(map(str, (one["metrics"] for one in result.runs)))) > 1, "the seed changes nothing"
    assert result.metrics["accuracy"] == max(values)
    assert (
        f"accuracy over 3 runs: mean {statistics.mean(values):.4f}, "
        f"standard deviation {statistics.stdev(values):.4f}" in reported
    )
    best = best_of(list(result.runs))["name"]
    weights = (out / "best" / "model.safetensors").read_bytes()
    assert weights == (out / best / "best" / "model.safetensors").read_bytes()
    losers = [out / one["name"] for one in result.runs if one["name"] != best]
    assert not any((folder / "best").exists() or list(folder.glob("checkpoint-*")) for folder in losers)
    assert load(out).predict(["a e"])


def test_seeds_can_be_compared_by_their_loss(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run(given, out, train={**SHORT, "seed": 1}, task={"metric": "loss"}, runs={"seeds": 2})
    lowest = {}
    for one in result.runs:
        rows = map(json.loads, (out / one["name"] / "metrics.jsonl").read_text().splitlines())
        lowest[one["name"]] = min(row["evaluation"]["loss"] for row in rows if "evaluation" in row)
    assert {one["name"]: one["metrics"]["loss"] for one in result.runs} == lowest
    best = min(lowest, key=lowest.__getitem__)
    assert best != "seed-1", "that the first wins shows nothing"
    assert result.metrics["loss"] == lowest[best]
    weights = (out / "best" / "model.safetensors").read_bytes()
    assert weights == (out / best / "best" / "model.safetensors").read_bytes()


@pytest.mark.parametrize("runs", [{"seeds": 2}, {"search_minutes": 1.0}])
def test_several_runs_without_rows_to_measure_on_are_refused(
    given: Path, tmp_path: Path, runs: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=r"^data\.dev_share=0: .*; give a --dev file, or do one run$"):
        run(given, tmp_path / "out", data={"dev": None, "dev_share": 0.0}, runs=runs)
    assert not (tmp_path / "out").exists()


def test_seeds_that_are_done_are_not_run_again(
    given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(given, tmp_path / "out", train=SHORT, runs={"seeds": 2})
    monkeypatch.setattr(sweep, "carry_out", None)
    assert run(given, tmp_path / "out", train=SHORT, runs={"seeds": 2}).runs == first.runs


@pytest.mark.parametrize("name", ["../other", "/tmp", "seed-1", ""])
def test_a_list_of_runs_leads_to_no_other_folder(given: Path, tmp_path: Path, name: str) -> None:
    run(given, tmp_path / "other", train=SHORT)
    run(given, tmp_path / "out", train=SHORT, runs={"seeds": 2})
    listed = read_json(tmp_path / "out" / "seeds.json")["runs"]
    (tmp_path / "out" / "seeds.json").write_text(json.dumps({"runs": [{**listed[0], "name": name}]}))
    with pytest.raises(ModelError, match=r"seeds\.json: lists other runs than these settings make"):
        run(given, tmp_path / "out", train=SHORT, runs={"seeds": 2})
    assert (tmp_path / "other" / "best" / "model.safetensors").is_file()


def test_a_run_that_was_listed_with_odd_settings_is_shown() -> None:
    odd = record("seed-0", 0.5) | {"tried": {"seed": "x", "rate": [1], "epochs": 3.0}}
    assert list(summary([odd])) == ["seed-0: seed 'x', rate [1], epochs 3: accuracy 0.5000"]


def stopping(kind: type[Any], nth: int) -> Any:
    """Return a patch of a task's `batch` that asks its own process to stop at the ``nth`` second step."""
    batch, num_seen = kind.batch, 0

    def with_signal(task: Any, step: int) -> Any:
        nonlocal num_seen
        num_seen += step == 1
        if step == 1 and num_seen == nth:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(task, step)

    return patch.object(kind, "batch", with_signal)


@pytest.mark.parametrize(
    ("tables", "kind", "nth"),
    [
        ({"runs": {"seeds": 2}}, FineTune, 2),
        ({"adapt": {"epochs": 2.0, "max_length": 32, "batch_tokens": 256}}, Pretrain, 1),
        ({"adapt": {"epochs": 2.0, "max_length": 32, "batch_tokens": 256}}, FineTune, 1),
    ],
    ids=["second seed", "adaptation", "after adaptation"],
)
def test_a_stop_within_one_of_several_runs_changes_no_bit(
    given: Path, tmp_path: Path, tables: dict[str, Any], kind: type[Any], nth: int
) -> None:
    tables = {"train": SHORT, **tables}
    straight = run(given, tmp_path / "straight", **tables)
    with stopping(kind, nth):
        assert not run(given, tmp_path / "out", **tables).is_finished
    again = run(given, tmp_path / "out", **tables)
    assert (again.is_finished, again.metrics, again.best_step) == (True, straight.metrics, straight.best_step)
    for name in ("best/model.safetensors", "last/model.safetensors", "metrics.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name


@pytest.mark.parametrize(
    "tables",
    [{"runs": {"seeds": 2}}, {"adapt": {"epochs": 2.0, "max_length": 32, "batch_tokens": 256}}],
    ids=["seeds that are done", "an adaptation that was stopped"],
)
def test_rows_that_have_changed_are_another_run(tmp_path: Path, tables: dict[str, Any]) -> None:
    given, out = write_inputs(tmp_path), tmp_path / "out"
    with stopping(Pretrain, 1):
        run(given, out, train=SHORT, **tables)
    write_rows(given / "train.tsv", NUM_TRAIN, seed=7)
    with pytest.raises(DataError, match=r"data\.train is not the text that .* was started with"):
        run(given, out, train=SHORT, **tables)


def test_a_search_within_no_time_tries_one_setting(given: Path, tmp_path: Path) -> None:
    result = run(given, tmp_path / "out", runs={"search_minutes": 0.0001})
    assert [one["name"] for one in result.runs] == ["trial-0"]
    assert read_json(tmp_path / "out" / "search.json")["runs"][0]["tried"]["batch_size"] == 32


def test_adapting_changes_the_encoder_before_fine_tuning_and_keeps_the_pooler(
    given: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    result = run(given, out, train=SHORT, adapt={"epochs": 2.0, "max_length": 32, "batch_tokens": 256})
    assert result.is_finished
    before = load_file(given / "model" / "model.safetensors")
    adapted = load_file(out / "adapt" / "model" / "model.safetensors")
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(before[f"bert.{name}"], adapted[name])
    assert torch.equal(before["bert.pooler.dense.weight"], adapted["pooler.dense.weight"])
    assert run(
        given, out, train=SHORT, adapt={"epochs": 2.0, "max_length": 32, "batch_tokens": 256}
    ).is_finished


def test_the_text_to_adapt_to_has_every_text_once_on_one_line() -> None:
    pairs = [("q", "a\nb"), ("q2", "a\nb"), ("", "c")]
    rows = [AnswerExample("1", question, context, None, "") for question, context in pairs]
    assert list(texts_of(rows)) == ["q", "a b", "q2", "c"]


def test_a_summary_of_one_run_has_no_deviation() -> None:
    assert list(summary([record("seed-1", 0.5)])) == ["seed-1: seed 1: accuracy 0.5000"]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        ({"adapt": {"epochs": 1.0}, "task": {"metric": "beauty"}}, "task.metric='beauty'; expected one of"),
        ({"runs": {"seeds": 2}, "task": {"max_length": 600}}, "task.max_length=600 exceeds the 40 tokens"),
        ({"runs": {"search_minutes": 1.0}, "train": {"epochs": None, "steps": 5}}, "remove train.steps"),
        ({"adapt": {"epochs": -1.0}}, "adapt.epochs=-1.0; expected a number of at least 0"),
        ({"adapt": {"batch_tokens": -5}}, "adapt.batch_tokens=-5; expected a whole number of at least 1"),
    ],
)
def test_errors_are_reported_before_the_folder_is_claimed(
    given: Path, tmp_path: Path, tables: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(given, tmp_path / "out", **tables)
    assert not (tmp_path / "out").exists()


def test_adapting_has_the_dropout_of_the_recipe(given: Path, tmp_path: Path) -> None:
    adapt = {"epochs": 0.1, "max_length": 32, "batch_tokens": 256}
    run(
        given,
        tmp_path,
        train=SHORT,
        model={"hidden_dropout_prob": 0.3, "attention_probs_dropout_prob": 0.2},
        adapt=adapt,
    )
    config = read_json(tmp_path / "adapt" / "start" / "config.json")
    assert (config["hidden_dropout_prob"], config["attention_probs_dropout_prob"]) == (0.3, 0.2)

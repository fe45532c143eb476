import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file

from glassbert.errors import DataError, ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator, best_targets
from glassbert.interop.folder import TranslatorFolder
from glassbert.metrics.translation import translation
from glassbert.runs.average import average_networks
from glassbert.runs.report import with_report
from glassbert.runs.run import RunResult, carry_out
from glassbert.runs.translate import TranslateRecipe, make_trainable
from glassbert.storage import locked, read_json
from glassbert.training.checkpoint import checkpoints
from helpers.sentence_pairs import SHAPE, VOCAB_SIZE, sentence_pairs, write_tsv

STEPS = 8
FILES = ("last/model.safetensors", "best/model.safetensors", "averaged/model.safetensors", "metrics.jsonl")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_tsv(folder / "train.tsv", sentence_pairs(200))
    write_tsv(folder / "dev.tsv", sentence_pairs(20, seed=1))
    return folder


def tables(data: Path, **train: Any) -> dict[str, dict[str, Any]]:
    return {
        "data": {"train": str(data / "train.tsv"), "dev": str(data / "dev.tsv"), "max_length": 64},
        "vocabulary": {"size": VOCAB_SIZE},
        "model": {"preset": "transformer-tiny", **SHAPE},
        "task": {"average_last": 2},
        "train": {
            "steps": STEPS,
            "batch_tokens": 512,
            "micro_tokens": 200,
            "evaluate_every": 4,
            "save_every": 3,
            "log_every": 1,
            **train,
        },
    }


def run(
    out: Path,
    settings: dict[str, dict[str, Any]],
    reported: list[str] | None = None,
    stop_at: int | None = None,
) -> RunResult:
    """Train; with ``stop_at`` a signal comes at that evaluation's decoding."""
    calls: list[int] = []

    def decode(network: Any, sources: Any, *, beam: int) -> Any:
        calls.append(beam)
        if stop_at == len(calls):
            os.kill(os.getpid(), signal.SIGTERM)
        return best_targets(network, sources, beam=beam)

    with decoded_by(decode):
        recipe = TranslateRecipe.of(settings)
        return carry_out(recipe, out, log=(reported if reported is not None else []).append)


@contextmanager
def decoded_by(decode: Callable[..., Any]) -> Iterator[None]:
    """Let ``decode`` write the translations that are measured, during and after training."""
    with (
        patch("glassbert.runs.translate.best_targets", decode),
        patch("glassbert.runs.measure_translator.best_targets", decode),
    ):
        yield


@pytest.fixture(scope="module")
def finished(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunResult, list[str]]:
    out, reported = tmp_path_factory.mktemp("finished"), list[str]()
    return out, run(out, tables(data), reported), reported


Finished = tuple[Path, RunResult, list[str]]


def test_a_run_leaves_a_translator_that_records_how_good_it_is(finished: Finished) -> None:
    out, result, reported = finished
    assert (result.is_finished, result.step, result.model) == (True, STEPS, out / "best")
    translator = load(out, Translator)
    assert len(translator.tokenizer) == VOCAB_SIZE
    said = read_json(out / "best" / "run.json")
    assert said["metrics"] == result.metrics
    assert "tok:13a" in said["dev"]["bleu_signature"]
    assert [len(said["samples"]), said["beam"]] == [3, 4]
    assert said["samples"][0]["source"] == sentence_pairs(20, seed=1)[0][0]
    assert said["training"]["tokens_per_s"] > 0
    assert said["training"]["dependent_steps"] == 2
    assert sum(part["sentences"] for part in said["dev"]["by_length"]) == 20
    assert any(line.startswith("train: 200 pairs, ") for line in reported)
    assert any(line.startswith(f"vocabulary: {VOCAB_SIZE} pieces of ") for line in reported)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert {"cross_entropy", "bleu", "chrf"} == set(rows[-1]["evaluation"])


def test_a_stopped_run_resumes_as_if_it_had_not_stopped(
    data: Path, tmp_path: Path, finished: Finished
) -> None:
    assert not run(tmp_path, tables(data), stop_at=1).is_finished
    reported: list[str] = []
    assert run(tmp_path, tables(data), reported).is_finished
    assert not any(line.startswith("vocabulary") for line in reported), "it is learned once"
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (finished[0] / name).read_bytes(), name


def test_a_finished_run_is_neither_trained_nor_measured_again(finished: Finished, data: Path) -> None:
    out, result, _ = finished
    before = {name: (out / name).read_bytes() for name in FILES}

    def refuse(network: Any, sources: Any, *, beam: int) -> Any:
        raise AssertionError("nothing is left to translate")

    with decoded_by(refuse):
        again = carry_out(TranslateRecipe.of(tables(data)), out, log=list[str]().append)
    assert (again.is_finished, again.step, again.metrics) == (True, STEPS, result.metrics)
    assert {name: (out / name).read_bytes() for name in FILES} == before


def test_the_report_shows_the_figures_of_run_json_also_when_an_earlier_call_measured_them(
    finished: Finished, data: Path, tmp_path: Path
) -> None:
    out, result, _ = finished
    reported: list[str] = []
    first = with_report(result, reported.append, tmp_path / "first.html")
    again = carry_out(TranslateRecipe.of(tables(data)), out, log=reported.append)
    assert (result.evaluation is None, again.evaluation is None) == (False, True)
    with_report(again, reported.append, tmp_path / "again.html")
    page = (tmp_path / "first.html").read_text(encoding="utf-8")
    for name, value in read_json(out / "best" / "run.json")["metrics"].items():
        assert f'{name}</th><td dir="auto">{value:.4f}</td>' in page
    assert f"{data / 'dev.tsv'}:" in page, "a mistake is named by its file and line"
    assert "over the training steps" in page
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == page
    assert (first.report, reported[1]) == (
        tmp_path / "first.html",
        f"the report is in {tmp_path / 'first.html'}",
    )


def test_a_run_resumes_though_its_recipe_lacks_newer_settings(
    finished: Finished, data: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(finished[0], tmp_path / "run")
    recipe = (out / "recipe.toml").read_text(encoding="utf-8")
    of_old = "".join(line for line in recipe.splitlines(keepends=True) if not line.startswith("final_beam"))
    assert of_old != recipe
    (out / "recipe.toml").write_text(of_old, encoding="utf-8")
    assert run(out, tables(data)).is_finished
    assert (out / "recipe.toml").read_text(encoding="utf-8") == recipe, "now it says all"
    other = tables(data) | {"task": {"average_last": 2, "final_beam": 3}}
    (out / "recipe.toml").write_text(of_old, encoding="utf-8")
    with pytest.raises(UserError, match=r"another task.final_beam \(4, now 3\)"):
        run(out, other)


def test_the_average_is_the_mean_of_the_last_checkpoints(finished: Finished) -> None:
    out = finished[0]
    last = checkpoints(out)[-2:]
    assert [path.name for path in last] == ["checkpoint-6", "checkpoint-8"]
    mean = load_file(out / "averaged" / "model.safetensors")
    parts = [load_file(path / "model.safetensors") for path in last]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, (parts[0][name] + parts[1][name]) / 2)
    assert not all(torch.equal(parts[0][name], parts[1][name]) for name in mean)
    assert read_json(out / "averaged" / "run.json")["average_of"] == ["checkpoint-6", "checkpoint-8"]


def test_checkpoints_of_stops_neither_enter_the_average_nor_displace_a_part_of_it(
    data: Path, tmp_path: Path
) -> None:
    settings, straight, stopped = tables(data, save_every=4, evaluate_every=2), tmp_path / "a", tmp_path / "b"
    run(straight, settings)
    assert read_json(straight / "averaged" / "run.json")["average_of"] == ["checkpoint-4", "checkpoint-8"]
    for evaluation, names in ((2, ["checkpoint-4", "checkpoint-5"]), (1, ["checkpoint-4", "checkpoint-7"])):
        assert not run(stopped, settings, stop_at=evaluation).is_finished
        assert {*names} <= {path.name for path in checkpoints(stopped)}
    assert run(stopped, settings).is_finished
    for name in FILES:
        assert (stopped / name).read_bytes() == (straight / name).read_bytes(), name


def test_a_run_that_averages_checkpoints_cannot_change_how_often_it_saves(
    finished: Finished, data: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"another train\.save_every \(3, now 4\), which decides what"):
        run(finished[0], tables(data, save_every=4))
    alone = tables(data, steps=1) | {"task": {}}
    run(tmp_path, alone)
    alone["train"]["save_every"] = 4
    assert run(tmp_path, alone).is_finished


def test_one_checkpoint_is_neither_averaged_nor_measured_twice(data: Path, tmp_path: Path) -> None:
    beams: list[int] = []
    reported: list[str] = []

    def decode(network: Any, sources: Any, *, beam: int) -> Any:
        beams.append(beam)
        return best_targets(network, sources, beam=beam)

    recipe = TranslateRecipe.of(tables(data, steps=2))
    assert recipe.task.average_last == 2
    with decoded_by(decode):
        result = carry_out(recipe, tmp_path, log=reported.append)
    assert [path.name for path in checkpoints(tmp_path)] == ["checkpoint-2"]
    assert beams == [recipe.task.dev_beam, recipe.task.final_beam]
    assert not any(line.startswith("average of") for line in reported)
    assert not (tmp_path / "averaged").exists()
    assert (result.model, result.best_step) == (tmp_path / "best", 2)


def test_models_of_different_shapes_are_not_averaged(finished: Finished, data: Path, tmp_path: Path) -> None:
    settings = tables(data, steps=1)
    settings["model"]["hidden_size"] = 16
    run(tmp_path, settings)
    with pytest.raises(ModelError, match="different shapes cannot be averaged"):
        average_networks([finished[0] / "last", tmp_path / "last"])


def test_few_dev_pairs_come_from_all_over_the_file(finished: Finished, data: Path) -> None:
    recipe = TranslateRecipe.of(tables(data) | {"task": {"dev_sentences": 3}})
    files, reported = recipe.data.files(recipe.data.train), list[str]()
    tokenizer = load(finished[0], Translator).tokenizer
    held_out = make_trainable(recipe, files, tokenizer, reported.append).held_out
    assert held_out is not None
    dev = sentence_pairs(20, seed=1)
    assert list(held_out.sources) == [dev[index][0] for index in (0, 6, 13)]
    assert list(held_out.targets) == [dev[index][1] for index in (0, 6, 13)]
    assert any(line.startswith("dev: 3 pairs, ") for line in reported)


def test_an_average_over_time_is_kept_as_everywhere(data: Path, tmp_path: Path) -> None:
    run(tmp_path, tables(data, ema_decay=0.5))
    last = load_file(tmp_path / "last" / "model.safetensors")
    raw = load_file(tmp_path / f"checkpoint-{STEPS}" / "model.safetensors")
    assert not torch.equal(last["model.shared.weight"], raw["model.shared.weight"])


def test_a_model_to_start_from_keeps_its_vocabulary(data: Path, tmp_path: Path, finished: Finished) -> None:
    settings = tables(data, steps=1, learning_rate=1e-9)
    del settings["vocabulary"], settings["task"]
    settings["model"] = {"start": str(finished[0] / "best")}
    run(tmp_path, settings)
    before, after = (TranslatorFolder.open(folder / "best").build()[0] for folder in (finished[0], tmp_path))
    torch.testing.assert_close(before.output.weight, after.output.weight)
    assert load(tmp_path, Translator).tokenizer.pieces == load(finished[0], Translator).tokenizer.pieces
    settings["model"]["hidden_size"] = 16
    with pytest.raises(UserError, match=r"model\.hidden_size is 16 in the recipe and 32 in model\.start="):
        run(tmp_path / "other", settings)


@pytest.mark.parametrize("name", ["lstm-small", "lstm-small-without-attention"])
def test_the_recurrent_baselines_train_in_the_same_way(data: Path, tmp_path: Path, name: str) -> None:
    settings = tables(data, steps=2)
    settings["model"] = {"preset": name, "hidden_size": 16, "num_hidden_layers": 1}
    result = run(tmp_path, settings)
    assert set(result.metrics) == {"bleu", "chrf"}
    assert load(tmp_path, Translator).config.hidden_size == 16  # type: ignore[union-attr]
    said = read_json(tmp_path / "best" / "run.json")
    assert said["training"]["dependent_steps"] == (
        said["training"]["source_tokens"] + said["training"]["target_tokens"]
    )
    assert sum(part["sentences"] for part in said["dev"]["by_length"]) == 20


def test_without_dev_pairs_the_last_model_is_the_model(data: Path, tmp_path: Path) -> None:
    settings = tables(data, steps=2)
    del settings["data"]["dev"], settings["task"]
    reported: list[str] = []
    result = run(tmp_path, settings, reported)
    assert result.model == tmp_path / "last"
    assert any("quality will not be measured" in line for line in reported)


@pytest.mark.parametrize("name", ["train", "dev"])
def test_a_run_is_not_resumed_on_text_that_has_changed(data: Path, tmp_path: Path, name: str) -> None:
    settings = tables(data, steps=1)
    path = Path(shutil.copy(settings["data"][name], tmp_path / f"{name}.tsv"))
    settings["data"][name] = str(path)
    run(tmp_path / "run", settings)
    for checkpoint in checkpoints(tmp_path / "run"):
        shutil.rmtree(checkpoint)  # the text is known from the start, not from a checkpoint
    write_tsv(path, sentence_pairs(201))
    with pytest.raises(DataError, match=rf"data\.{name} is not the text that .* was started with"):
        run(tmp_path / "run", settings)


def test_dev_pairs_that_are_too_long_count_in_the_scores_and_are_reported(
    finished: Finished, data: Path, tmp_path: Path
) -> None:
    settings = tables(data)
    pairs = [*sentence_pairs(5), ("one " * 80, "uno")]
    settings["data"]["dev"] = str(write_tsv(tmp_path / "dev.tsv", pairs))
    recipe, reported = TranslateRecipe.of(settings), list[str]()
    tokenizer = load(finished[0], Translator).tokenizer
    files = recipe.data.files(recipe.data.train)
    held_out = make_trainable(recipe, files, tokenizer, reported.append).held_out
    assert held_out is not None
    assert (len(held_out.sources), sum(len(batch.members) for batch in held_out.batches)) == (6, 5)
    assert (
        "dev: 1 pairs with a side of more than 64 tokens are not in the loss; to be translated, "
        "long sources are cut"
    ) in reported


def test_unknown_rules_of_bleu_are_refused_before_anything_is_done(data: Path, tmp_path: Path) -> None:
    settings = tables(data) | {"task": {"bleu_tokenizer": "chinese"}}
    reported: list[str] = []
    with pytest.raises(UserError, match="bleu_tokenizer='chinese'; expected one of"):
        run(tmp_path / "run", settings, reported)
    assert not reported
    assert not (tmp_path / "run").exists()


def test_bad_rows_and_long_pairs_are_left_out_and_reported(tmp_path: Path, data: Path) -> None:
    rows = [*sentence_pairs(100), ("one", " "), ("one " * 80, "uno")]
    settings = tables(data, steps=1)
    settings["data"] |= {"train": str(write_tsv(tmp_path / "train.tsv", rows)), "skip_bad": 1}
    reported: list[str] = []
    run(tmp_path / "run", settings, reported)
    assert any(line.endswith("train.tsv:101: empty target") for line in reported)
    assert "train: 1 pairs with a side of more than 64 tokens are left out" in reported
    settings["data"]["skip_bad"] = 0
    with pytest.raises(DataError, match=r"train\.tsv:101: empty target"):
        run(tmp_path / "other", settings)
    assert not (tmp_path / "other").exists(), "nothing is claimed before the text is known to be good"


def test_the_rate_follows_the_published_formula(data: Path, tmp_path: Path) -> None:
    width, warmup = SHAPE["hidden_size"], 0.25
    steps = 39  # the run's progress is counted in fortieths, so the warm-up takes 10 steps
    recipe = TranslateRecipe.of(tables(data, steps=steps, warmup=warmup, learning_rate=(width * 10) ** -0.5))
    from glassbert.training.schedule import rate_factor

    for step in range(1, steps + 1):
        rate = recipe.train.learning_rate * rate_factor(recipe.train.schedule, warmup, step / (steps + 1))
        assert rate == pytest.approx(width**-0.5 * min(step**-0.5, step * 10**-1.5))


@pytest.mark.slow
def test_a_small_model_learns_to_translate(data: Path, tmp_path: Path) -> None:
    write_tsv(tmp_path / "train.tsv", sentence_pairs(2000))
    dev = sentence_pairs(100, seed=1)
    settings = tables(
        data, steps=500, batch_tokens=1024, micro_tokens=1024, learning_rate=2e-3, evaluate_every=100,
        save_every=500,
    )  # fmt: skip
    settings["data"] |= {
        "train": str(tmp_path / "train.tsv"),
        "dev": str(write_tsv(tmp_path / "dev.tsv", dev)),
    }
    settings["model"] |= {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
    settings["model"] |= {"num_hidden_layers": 2, "hidden_dropout_prob": 0.0}
    result = run(tmp_path / "run", settings)
    translator = load(tmp_path / "run", Translator)
    guess = [found.text for found in translator.translate([source for source, _ in dev])]
    gold = [target for _, target in dev]
    # Fluent answers to other questions are what a network that ignores its source would give at best.
    of_others = translation(gold, guess[1:] + guess[:1]).bleu
    assert result.metrics["bleu"] > 60 > 2 * of_others
    assert translator.translate(["one two three."])[0].text == "\u00a1uno dos tres!"


def test_a_second_run_in_the_same_folder_is_refused_while_the_first_works(data: Path, tmp_path: Path) -> None:
    settings = tables(data, steps=1)
    tmp_path.joinpath("run").mkdir()
    with (
        locked(tmp_path / "run", "the first"),
        pytest.raises(UserError, match="is in use by another run"),
    ):
        run(tmp_path / "run", settings)
    assert run(tmp_path / "run", settings).is_finished

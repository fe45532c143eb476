"""Every task and every kind of label, from a file to a model that loads anywhere."""

import json
import os
import signal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import transformers

from glassbert.inference.model import load
from glassbert.storage import read_json
from glassbert.tasks.finetune import FineTune
from glassbert.training.finetune_recipe import FineTuneRecipe
from glassbert.training.several import finetune_all
from tasks.small_model import sentiment, small_folder

STEPS = 6


def rows_of(kind: str, number: int, seed: int) -> list[dict[str, Any]]:
    """Return JSON rows of a task: labels tell whether a text is good, spans and answers where `o` is."""
    rows = []
    for index, one in enumerate(sentiment(number, seed)):
        text, is_good = f"{one.text} o", one.labels[0] == "good"
        place = text.index("o")
        rows.append(
            {
                "single": {"text": text, "label": one.labels[0]},
                "multi": {"text": text, "labels": ["good", "text"] if is_good else ["text"]},
                "regression": {"text": text, "score": 1.5 if is_good else -0.5},
                "pair": {"text_a": text, "text_b": "a l", "label": one.labels[0]},
                "tag": {"text": text, "spans": [{"start": place, "end": place + 1, "label": "O"}]},
                "crf": {"text": text, "spans": [{"start": place, "end": place + 1, "label": "O"}]},
                "answer": {
                    "id": str(index),
                    "question": "a",
                    "context": text,
                    "answers": [{"text": "o", "answer_start": place}],
                },
            }[kind]
        )
    return rows


TASK_OF = {"pair": "pair", "tag": "tag", "crf": "tag", "answer": "answer"}
KINDS = ["single", "multi", "regression", "pair", "tag", "crf", "answer"]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given")
    small_folder(folder / "model", dropout=0.1)
    for kind in KINDS:
        for name, number, seed in (("train", 48, 0), ("dev", 24, 1)):
            lines = (json.dumps(row) + "\n" for row in rows_of(kind, number, seed))
            (folder / f"{kind}.{name}.jsonl").write_text("".join(lines))
    return folder


def run(given: Path, kind: str, out: Path) -> bool:
    tables: dict[str, dict[str, Any]] = {
        "model": {"folder": str(given / "model")},
        "data": {"train": str(given / f"{kind}.train.jsonl"), "dev": str(given / f"{kind}.dev.jsonl")},
        "train": {
            "steps": STEPS,
            "batch_size": 8,
            "learning_rate": 1e-3,
            "evaluate_every": 3,
            "log_every": 1,
        },
        "task": {"crf": True} if kind == "crf" else {},
    }
    recipe = FineTuneRecipe.of(TASK_OF.get(kind, "classify"), tables)
    # What the machine could do at best takes longer to measure than the whole run.
    with patch("glassbert.training.report.measured_peak", return_value=1e9):
        return finetune_all(recipe, out, lambda line: None).is_finished


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, given: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp(request.param) / "out"
    assert run(given, request.param, out)
    return request.param, out


def test_a_stopped_run_of_any_task_goes_on_to_the_same_bits(
    finished: tuple[str, Path], given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, straight = finished
    batch = FineTune.batch

    def with_signal(task: FineTune[Any, Any], step: int) -> Any:
        if step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return batch(task, step)

    monkeypatch.setattr(FineTune, "batch", with_signal)
    assert not run(given, kind, tmp_path / "out")
    monkeypatch.setattr(FineTune, "batch", batch)
    assert run(given, kind, tmp_path / "out")
    names = ["best/model.safetensors", "last/model.safetensors", "best/run.json", "metrics.jsonl"]
    names += [f"checkpoint-{STEPS}/training.safetensors"] + ["best/task.safetensors"] * (kind == "crf")
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (straight / name).read_bytes(), name


def test_the_metrics_in_run_json_are_those_of_the_loaded_model(
    finished: tuple[str, Path], given: Path
) -> None:
    kind, out = finished
    from glassbert.data.examples import ReadOptions
    from glassbert.data.readers.read import read_examples

    model = load(out)
    told = read_json(out / "best" / "run.json")["metrics"]
    label_kind = getattr(model.form, "kind", None)
    rows = read_examples(model.form.name, given / f"{kind}.dev.jsonl", ReadOptions(kind=label_kind)).examples
    predictions = model.predict_examples(rows)
    calibration = model.form.calibration(rows, predictions)
    found = model.form.measure(rows, predictions).metrics() | (calibration.metrics() if calibration else {})
    assert found == pytest.approx({name: told[name] for name in found}, abs=1e-6)


def test_transformers_loads_every_folder_with_equal_logits(finished: tuple[str, Path]) -> None:
    kind, out = finished
    auto = {
        "tag": transformers.AutoModelForTokenClassification,
        "answer": transformers.AutoModelForQuestionAnswering,
    }.get(TASK_OF.get(kind, "classify"), transformers.AutoModelForSequenceClassification)
    theirs, ours = auto.from_pretrained(out / "best").eval(), load(out)
    encodings = ours.tokenizer.encode_batch(
        ["a l m o", "b c"], ["e l", "o"] if kind in ("pair", "answer") else None
    )
    for encoding in encodings:
        with torch.no_grad():
            output = theirs(
                input_ids=torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.segments])
            )
        mine = ours.engine.map([encoding], lambda output, batch, _: [output])[0]
        if kind == "answer":
            expected = torch.stack([output.start_logits[0], output.end_logits[0]], dim=-1)
            np.testing.assert_allclose(mine.span.numpy(), expected.numpy(), atol=1e-5)
        else:
            expected = output.logits if output.logits.dim() == 2 else output.logits[0]
            np.testing.assert_allclose(mine.labels.numpy(), expected.numpy(), atol=1e-5)
    problem_type = read_json(out / "best" / "config.json").get("problem_type")
    wanted = {"multi": "multi_label_classification", "regression": "regression"}
    assert problem_type == wanted.get(
        kind, None if TASK_OF.get(kind) in ("tag", "answer") else "single_label_classification"
    )


def test_predictions_have_the_promised_shape(finished: tuple[str, Path]) -> None:
    kind, out = finished
    items = {"pair": [("a o", "l")], "answer": [{"question": "a", "context": "l o"}]}
    (found,) = load(out).predict(items.get(kind, ["a l o"]))
    content = found.to_json()
    json.dumps(content)
    expected = {"label", "score", "scores", "tokens", "truncated"}
    if kind in ("tag", "crf"):
        expected = {"spans", "tokens", "truncated"}
    if kind == "answer":
        expected = {"answer", "start", "end", "score", "n_best", "tokens", "truncated"}
    assert expected <= set(content)
    if kind == "multi":
        assert set(content["labels"]) <= {"good", "text"}
    if kind == "regression":
        assert content["label"] is None

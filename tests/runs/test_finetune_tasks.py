"""Every task and every kind of label, from a file to a model that loads anywhere."""

import json
import random
import shutil
import signal
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from glassbert.cli.main import main
from glassbert.data.examples import ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.errors import ModelError
from glassbert.inference.loading import load
from glassbert.inference.predict import as_examples
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.runs.finetune import FineTuneRecipe
from glassbert.runs.run import carry_out
from glassbert.storage import read_json
from glassbert.tasks.fine_tuning import FineTune
from helpers.predicting import predictions
from helpers.small_model import small_folder
from helpers.task_rows import TASK_OF, rows_of, signalled_at

STEPS = 6


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
        "model": {"start": str(given / "model")},
        "data": {"train": str(given / f"{kind}.train.jsonl"), "dev": str(given / f"{kind}.dev.jsonl")},
        "train": {
            "steps": STEPS,
            "batch_size": 8,
            "learning_rate": 1e-3,
            "evaluate_every": 3,
            "log_every": 1,
            "save_every": 2,
        },
        "task": {"crf": True} if kind == "crf" else {},
    }
    recipe = FineTuneRecipe.of(TASK_OF.get(kind, "classify"), tables)
    # What the machine could do at best takes longer to measure than the whole run.
    with patch("glassbert.training.log.measured_peak", return_value=1e9):
        return carry_out(recipe, out, log=lambda line: None).is_finished


@pytest.fixture(scope="module", params=KINDS)
def finished(request: pytest.FixtureRequest, given: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    out = tmp_path_factory.mktemp(request.param) / "out"
    assert run(given, request.param, out)
    return request.param, out


def run_and_be_killed(given: Path, kind: str, out: Path) -> None:
    with patch.object(FineTune, "batch", signalled_at(4, signal.SIGKILL)):
        run(given, kind, out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_of_any_task_that_is_stopped_or_killed_resumes_to_the_same_bits(
    finished: tuple[str, Path], given: Path, tmp_path: Path, number: int
) -> None:
    kind, straight = finished
    out = tmp_path / "out"
    if number == signal.SIGTERM:
        with patch.object(FineTune, "batch", signalled_at(3, number)):
            assert not run(given, kind, out)
    else:
        victim = get_context("fork").Process(target=run_and_be_killed, args=(given, kind, out))
        victim.start()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        assert (out / "checkpoint-2").is_dir()
        assert not (out / "best" / "run.json").is_file() or "metrics" not in read_json(
            out / "best" / "run.json"
        )
    assert run(given, kind, out)
    names = ["best/model.safetensors", "last/model.safetensors", "best/run.json", "metrics.jsonl"]
    names += [f"checkpoint-{STEPS}/training.safetensors"] + ["best/task.safetensors"] * (kind == "crf")
    for name in names:
        assert (out / name).read_bytes() == (straight / name).read_bytes(), name


def test_every_task_with_a_simple_method_is_measured_beside_it(finished: tuple[str, Path]) -> None:
    kind, folder = finished
    found = read_json(folder / "best" / "run.json").get("baselines")
    expected = {"single": {"bag_of_words", "majority"}, "pair": {"bag_of_words", "majority"}}
    expected |= dict.fromkeys(("multi", "regression"), {"bag_of_words"})
    expected |= dict.fromkeys(("tag", "crf"), {"frequent_tags"})
    assert (set(found["scores"]) if found else None) == expected.get(kind)
    if found:
        # The labels follow from single letters, which a bag of words sees at once.
        assert max(found["scores"].values()) > 0.7


def test_the_metrics_in_run_json_are_those_of_the_loaded_model(
    finished: tuple[str, Path], given: Path
) -> None:
    kind, out = finished
    model = load(out)
    reported = read_json(out / "best" / "run.json")["metrics"]
    options = ReadOptions(kind=getattr(model.task, "kind", None))
    rows = read_examples(model.task.schemas[0], given / f"{kind}.dev.jsonl", options).examples
    predictions = model.predict_examples(rows)
    calibration = model.task.calibration(rows, predictions)
    found = model.task.measure(rows, predictions).metrics() | (calibration.metrics() if calibration else {})
    assert found == pytest.approx({name: reported[name] for name in found}, abs=1e-6)


def lively(model: Path, folder: Path) -> Path:
    """Return a copy of a model folder whose weights are so random that every text gets scores of its own."""
    shutil.copytree(model, folder)
    generator = torch.Generator().manual_seed(0)
    weights = {
        name: tensor + 0.3 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in load_file(folder / "model.safetensors").items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def their_network(kind: str, folder: Path) -> Callable[[Batch], Output]:
    """Return the folder's model as `transformers` loads it, one padded batch a call, in our clothes."""
    auto = {
        "tag": transformers.AutoModelForTokenClassification,
        "answer": transformers.AutoModelForQuestionAnswering,
    }.get(TASK_OF.get(kind, "classify"), transformers.AutoModelForSequenceClassification)
    model = auto.from_pretrained(folder).eval()

    def network(batch: Batch) -> Output:
        rows = [
            torch.stack(row)
            for row in zip(*map(batch.layout.split, (batch.ids, batch.segments)), strict=True)
        ]
        padded = pad_sequence(
            [torch.cat([row, torch.ones_like(row[:1])]).T for row in rows], batch_first=True
        )
        ids, segments, mask = padded.unbind(dim=2)  # (B, longest) each
        found = model(input_ids=ids, token_type_ids=segments, attention_mask=mask)

        def packed(values: torch.Tensor) -> torch.Tensor:
            return torch.cat([row[: len(own.T)] for row, own in zip(values, rows, strict=True)])

        if kind == "answer":
            span = packed(torch.stack([found.start_logits, found.end_logits], dim=2))
            return Output(hidden=torch.zeros(0), span=span)
        labels = packed(found.logits) if found.logits.dim() == 3 else found.logits
        return Output(hidden=torch.zeros(0), labels=labels)

    return network


def items_of(kind: str) -> list[Any]:
    """Return texts of many lengths, some of which no input of 40 tokens can hold."""
    generator = random.Random(7)
    lengths = [1, 2, 3, 5, 8, 13, 21, 34, 37, 38, 60, 150]
    texts = [" ".join(generator.choices("aeioubcdfglmnprst", k=length)) for length in lengths]
    if kind == "pair":
        return list(zip(texts, texts[::-1], strict=True))
    return [("a", text) for text in texts] if kind == "answer" else texts


def numbers_of(content: Any) -> tuple[Any, list[float]]:
    """Return a prediction without its fractions, and these."""
    if isinstance(content, float):
        return None, [content]
    if isinstance(content, dict):
        names, values = list(content), list(content.values())
    elif isinstance(content, list | tuple):
        names, values = [], list(content)
    else:
        return content, []
    parts = [numbers_of(value) for value in values]
    return (names, [said for said, _ in parts]), [number for _, numbers in parts for number in numbers]


def test_an_answer_is_the_same_alone_in_any_batch_in_any_order_and_in_transformers(
    finished: tuple[str, Path], tmp_path: Path
) -> None:
    kind, out = finished
    folder = lively(out / "best", tmp_path / "model")
    model, items = load(folder), items_of(kind)
    together = model.predict(items)
    alone = [model.predict([item])[0] for item in items]
    order = random.Random(1).sample(range(len(items)), len(items))
    shuffled = dict(zip(order, model.predict([items[index] for index in order]), strict=True))
    examples = as_examples(model.task, items)
    with torch.no_grad():
        theirs = predictions(model.task, their_network(kind, folder), examples)
    said, scores = numbers_of([one.to_json() for one in together])
    assert len(set(np.round(scores, 3))) > 8, "all texts are alike"
    others = {"alone": alone, "shuffled": [shuffled[i] for i in range(len(items))], "transformers": theirs}
    for name, other in others.items():
        also_said, also_scores = numbers_of([one.to_json() for one in other])
        assert also_said == said, name
        np.testing.assert_allclose(also_scores, scores, rtol=0, atol=1e-5, err_msg=name)


def test_folders_tell_transformers_what_their_classes_are(finished: tuple[str, Path]) -> None:
    kind, out = finished
    wanted = {
        "single": "single_label_classification",
        "pair": "single_label_classification",
        "multi": "multi_label_classification",
        "regression": "regression",
    }
    assert read_json(out / "best" / "config.json").get("problem_type") == wanted.get(kind)


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


def test_the_weights_of_a_task_are_checked_when_they_are_read(
    finished: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, out = finished
    if kind != "crf":
        pytest.skip("only a CRF has weights beside the model's")
    folder = shutil.copytree(out / "best", tmp_path / "model")
    path, weights = folder / "task.safetensors", load_file(folder / "task.safetensors")
    assert path.stat().st_mode == (folder / "model.safetensors").stat().st_mode, "as readable as the model"
    assert main(["params", str(folder)]) == 0
    assert f"task.safetensors holds {sum(map(torch.numel, weights.values()))} more" in capsys.readouterr().out
    save_file({name: torch.zeros(9, 9) for name in weights}, path)
    with pytest.raises(ModelError, match="does not fit the labels in config.json"):
        load(folder).predict(["a"])
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(ModelError, match="damaged or truncated safetensors file"):
        load(folder).predict(["a"])

"""After training: what the held-out rows say of the best weights is measured, corrected and written down."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from glassbert.interop.huggingface import build
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.storage import new_folder, read_json
from glassbert.tasks.fine_tuning import FineTune, extra_of, load_task, save_finetuned
from glassbert.tasks.forward import decoded, raw_outputs
from glassbert.tasks.task import Task


def calibrate(folder: Path, trainable: FineTune[Any, Any], log: Callable[[str], None]) -> Mapping[str, float]:
    """Tune the model in ``folder`` on the held-out rows and return its metrics; what is settled stays so."""
    run = read_json(folder / "run.json")
    if "metrics" in run:
        return run["metrics"]
    network, _ = build(read_stored(folder))
    task = load_task(folder, run["task"], trainable.tokenizer, network.config)
    raw = raw_outputs(task, partial(network, heads_only=True), trainable.dev_inputs)
    tuning = task.tune(trainable.dev, trainable.dev_inputs, raw)
    tuned = {**run["task"], **tuning.run, "temperature": tuning.temperature}
    task = load_task(folder, tuned, trainable.tokenizer, network.config)
    scaled = [[logits / tuning.temperature for logits in windows] for windows in raw]
    about = {name: value for name, value in run.items() if name not in ("task", "glassbert", "torch")}
    about |= _findings(task, trainable, scaled, log)
    divide_head(network, tuning.temperature)
    with new_folder(folder, may_replace=True) as new:
        save_finetuned(network, trainable.tokenizer, task, new, about, extra_of(task), tuned)
    return about["metrics"]


def _findings(
    task: Task[Any, Any], trainable: FineTune[Any, Any], raw: list[list[Any]], log: Callable[[str], None]
) -> dict[str, Any]:
    """Return what run.json shall say of the model's quality."""
    predictions = decoded(task, trainable.dev, trainable.dev_inputs, raw)
    calibration = task.calibration(trainable.dev, predictions)
    of_scores = calibration.metrics() if calibration else {}
    found: dict[str, Any] = {"metrics": {**task.measure(trainable.dev, predictions).metrics(), **of_scores}}
    alarm = task.alarm(trainable.dev, predictions)
    if alarm:
        log(f"this run is degenerate: {alarm}; try another seed, a lower learning rate or more rows")
        found["alarm"] = alarm
    return found


def divide_head(network: Bert, temperature: float) -> None:
    """Divide a head's weights, and so its logits, by a temperature."""
    head = network.labels.dense if network.labels is not None else network.span
    if head is None or temperature == 1.0:
        return
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.div_(temperature)

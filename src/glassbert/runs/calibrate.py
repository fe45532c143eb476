"""After training: the best weights predict the dev rows once, and all reports use that."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.rows import baselines_of, measured, run_settings
from glassbert.interop.companions import read_companions
from glassbert.interop.folder import EncoderFolder
from glassbert.messages import Log
from glassbert.metrics.baselines import Baselines
from glassbert.model.bert import Bert
from glassbert.storage import new_folder, read_json
from glassbert.tasks.fine_tuning import FineTune, extra_of, load_task, save_finetuned
from glassbert.tasks.forward import decoded, raw_outputs
from glassbert.tasks.task import LOWER_IS_BETTER, Task


def calibrate(folder: Path, trainable: FineTune[Any, Any], log: Log) -> Evaluation:
    """Calibrate the best model on the dev rows, record its metrics in run.json and return its evaluation.

    A model that is already calibrated is only evaluated.
    """
    run = read_json(folder / "run.json")
    network, _ = EncoderFolder.open(folder).build()
    companions = read_companions(folder)
    task = load_task(folder, run["task"], trainable.tokenizer, network.config, companions)
    raw = raw_outputs(task, partial(network, heads_only=True), trainable.dev_inputs)
    if "metrics" in run:
        return _evaluated(task, trainable, raw, folder, run)
    tuning = task.tune(trainable.dev, trainable.dev_inputs, raw)
    tuned = {**run["task"], **tuning.run, "temperature": tuning.temperature}
    task = replace(task, **tuning.run, temperature=tuning.temperature)
    # The logits that the network gives once its head is divided by the temperature.
    raw = [[logits / tuning.temperature for logits in windows] for windows in raw]
    evaluation = _evaluated(task, trainable, raw, folder, run)
    about = {name: value for name, value in run.items() if name not in ("task", "glassbert", "torch")}
    about["metrics"] = dict(evaluation.metrics)
    baselines = measured_baselines(task, trainable, evaluation.metrics)
    if baselines is not None:
        about["baselines"] = baselines.to_json()
        evaluation = replace(evaluation, baselines=baselines)
    if evaluation.alarm:
        about["alarm"] = evaluation.alarm
        advice = "try another seed, a lower learning rate or more rows"
        log(f"this run is degenerate: {evaluation.alarm}; {advice}")
    divide_head(network, tuning.temperature)
    with new_folder(folder, overwrite=True) as new:
        save_finetuned(network, trainable.tokenizer, task, new, about, extra_of(task), tuned)
    return evaluation


def measured_baselines(
    task: Task[Any, Any], trainable: FineTune[Any, Any], metrics: Mapping[str, float]
) -> Baselines | None:
    """Return the scores of simple methods on the dev rows, beside the model's; None if there are none.

    Args:
        metrics: Of the model.
    """
    if not trainable.task.settings.baseline:  # the saved task knows only what predictions need
        return None
    rows, inputs = trainable.dev, trainable.dev_inputs
    found = task.baselines(trainable.train, trainable.train_inputs, rows, inputs)
    plain, scores = task.without_extra(), {}
    for name, raw in found.items():
        tuned = replace(plain, **plain.tune(rows, inputs, raw).run)
        scores[name] = tuned.measure(rows, decoded(tuned, rows, inputs, raw)).metrics()
    wanted = (task.best_by, task.usual_metric, *metrics)
    metric = next(one for one in wanted if one in metrics and one not in LOWER_IS_BETTER)
    if not scores:
        return None
    of_methods = {name: float(values[metric]) for name, values in scores.items()}
    return Baselines(metric=metric, rows=len(rows), model=float(metrics[metric]), scores=of_methods)


def _evaluated(
    task: Task[Any, Any],
    trainable: FineTune[Any, Any],
    raw: Sequence[Sequence[NDArray[Any]]],
    folder: Path,
    run: Mapping[str, Any],
) -> Evaluation:
    """Decode the logits of the dev rows and measure the predictions."""
    rows, inputs = trainable.dev, trainable.dev_inputs
    predictions = decoded(task, rows, inputs, raw)
    found = measured(task, rows, inputs, predictions, unk_id=trainable.tokenizer.vocabulary.unk_id)
    return replace(
        found,
        model=str(folder),
        data=f"{len(rows)} dev rows",
        baselines=baselines_of(run),
        settings=run_settings(run),
    )


def divide_head(network: Bert, temperature: float) -> None:
    """Divide a head's weights, and so its logits, by a temperature."""
    head = network.labels.dense if network.labels is not None else network.span
    if head is None or temperature == 1.0:
        return
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.div_(temperature)

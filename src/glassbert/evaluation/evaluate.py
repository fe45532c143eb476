"""`glassbert.evaluate`: how good a model is on data of the kind that it was trained for."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from glassbert.arguments import checked
from glassbert.data.corpus.manifest import MANIFEST
from glassbert.data.examples import ReadOptions
from glassbert.errors import UserError
from glassbert.evaluation.corpus import evaluate_corpus
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.rows import evaluate_file, evaluate_rows
from glassbert.evaluation.translation import evaluate_pairs
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.inference.predict import as_examples, schema_for
from glassbert.inference.translator import Translator
from glassbert.messages import Log, say_nothing, to_stderr
from glassbert.model.torch_state import with_own_torch_state


@checked
@with_own_torch_state
def evaluate(
    model: str | Path | Model | Translator,
    data: str | Path | Sequence[Any],
    *,
    task: str | None = None,
    options: ReadOptions | None = None,
    max_length: int | None = None,
    name: str | None = None,
    log: Log = to_stderr,
) -> Evaluation:
    """Measure a model on labelled rows, a translator on sentence pairs, a pre-trained model on a corpus.

    A model in int8 is measured in float32 as well.

    Args:
        model: A loaded model, or what `glassbert.load` takes.
        data: A file of labelled rows, or rows such as {"text": "well done", "label": "good"}. For a
            translator, a file of sentence pairs, two aligned files written FILE,FILE, or pairs of texts. For
            a pre-trained model, a folder of `corpus build`.
        task: How rows are read, if the model's folder does not name its task.
        options: Format, columns and labels of a file of rows, and how many bad rows it may have.
        max_length: Tokens of the longest example of a corpus; as in training when not given.
        name: What the result calls the model; its folder when not given.
        log: Receives what was assumed, cut or left out, line by line; `Evaluation.notes` keeps it.
    """
    loaded = load(model) if isinstance(model, str | Path) else model
    name = name or str(model if isinstance(model, str | Path) else loaded.folder or "model")
    options = options or ReadOptions()
    is_corpus = isinstance(data, str | Path) and (Path(data) / MANIFEST).is_file()
    is_plain = task is None and options == ReadOptions(skip_bad=options.skip_bad)
    if (is_corpus or isinstance(loaded, Translator)) and not is_plain:
        raise UserError("task, format, columns and kind are for labelled rows; leave them out")
    if max_length is not None and not is_corpus:
        raise UserError("max_length is for a corpus; leave it out")
    evaluated = partial(
        _evaluated,
        data=data,
        is_corpus=is_corpus,
        task=task,
        options=options,
        max_length=max_length,
        name=name,
    )
    evaluation = evaluated(loaded, log=log)
    if loaded.precision != "int8":
        return evaluation
    return replace(evaluation, float32=evaluated(loaded.in_precision("float32"), log=say_nothing).metrics)


def _evaluated(
    loaded: Model | Translator,
    *,
    data: str | Path | Sequence[Any],
    is_corpus: bool,
    task: str | None,
    options: ReadOptions,
    max_length: int | None,
    name: str,
    log: Log,
) -> Evaluation:
    if isinstance(loaded, Translator):
        return evaluate_pairs(loaded, data, name=name, skip_bad=options.skip_bad, log=log)
    assumed = [f"assumed: {assumption}" for assumption in loaded.tokenizer.assumptions]
    for line in assumed:
        log(line)
    if not isinstance(data, str | Path):
        are_read = all(hasattr(row, "is_labelled") for row in data)
        rows = data if are_read else as_examples(loaded.task, data)
        evaluation = evaluate_rows(loaded, rows, name=name, data=f"{len(data)} rows")
    elif is_corpus:
        evaluation = evaluate_corpus(loaded, Path(data), name=name, max_length=max_length, log=log)
    else:
        schema = schema_for(loaded.task, task)
        evaluation = evaluate_file(loaded, Path(data), schema, name=name, options=options, log=log)
    return replace(evaluation, notes=(*assumed, *evaluation.notes))

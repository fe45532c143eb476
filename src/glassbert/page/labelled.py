"""The rows of a user's file with the model's predictions, the worst first."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassbert.data.examples import AnswerExample, Example, ReadOptions, TagExample, TextExample
from glassbert.data.rows.read import read_examples
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import DataError, UserError
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.rows import measured
from glassbert.evaluation.translation import measured_translations
from glassbert.inference.model import Model
from glassbert.inference.predict import schema_for
from glassbert.inference.translator import Translation, Translator
from glassbert.metrics.mistakes import Mistake
from glassbert.model.bert import Output
from glassbert.model.layout import Batch
from glassbert.progress import each
from glassbert.sentence import Sentence, in_both
from glassbert.tasks.registry import task_of_head
from glassbert.tasks.task import Input, Prediction

MAX_ROWS = 2000
"""Rows that are judged: the page answers within seconds, whatever the file."""
MAX_PAIRS = 200
"""Sentence pairs that are judged: a translation takes far longer than a label."""
AT_ONCE = 32
"""Rows or pairs between two reports of progress."""
MAX_SHOWN = 500
"""Rows that are sent to the page, the worst ones."""
MAX_BAD = 1_000_000_000
"""Bad rows are counted, never refused: the page is for looking at a file."""


class LabelledRows:
    """A file and the model that is judged by it; judged once, when it is first looked at."""

    def __init__(self, model: Model | Translator, source: str, path: str | Path) -> None:
        self.model, self.source, self.path = model, source, Path(path)
        if not self.path.is_file():
            raise DataError(f"{path}: no such file; --data takes a file of labelled rows")

    @cached_property
    def judged(self) -> dict[str, Any]:
        """The file's figures, and its rows with the highest loss first."""
        try:
            if isinstance(self.model, Translator):
                return self._translated(self.model)
            return self._judged(self.model)
        except UserError as error:
            if isinstance(error.args[0], Sentence):  # written here: no path in it
                raise
            raise type(error)(self._place(str(error))) from None

    def _judged(self, model: Model) -> dict[str, Any]:
        if "task" not in model.run and task_of_head(model.config.head) is None:
            raise UserError(
                Sentence(
                    "{file}: this model has no task to judge rows by; open one that was fine-tuned",
                    file=self.path.name,
                )
            )
        task = model.task
        table = read_examples(
            schema_for(task, None), self.path, ReadOptions(kind=task.kind, skip_bad=MAX_BAD)
        )
        labelled: Sequence[Any] = [row for row in table.examples if task.is_labelled(row)]
        if not labelled:
            raise DataError(
                Sentence("{file}: no row has a label; the worst rows cannot be found", file=self.path.name)
            )
        rows = labelled[:MAX_ROWS]
        inputs = task.inputs(rows, with_targets=True)
        predictions: list[Prediction] = []
        losses: list[float] = []
        for part in each(_parts(len(rows))):
            predictions += model.predict_inputs(rows[part], inputs[part])
            losses += losses_of(model, inputs[part])
        unk_id = model.tokenizer.vocabulary.unk_id
        evaluation = measured(task, rows, inputs, predictions, unk_id=unk_id)
        # All of them: an evaluation keeps only the worst by the model's own score.
        wrong = {one.where: one for one in task.mistakes(rows, predictions)}
        shown = [
            {**self._row(row, wrong.get(row.where)), "loss": loss, "python": self._python(row, windows)}
            for row, windows, loss in zip(rows, inputs, losses, strict=True)
        ]
        left_out = {
            "bad": len(table.bad),
            "unlabelled": len(table.examples) - len(labelled),
            "not_judged": len(labelled) - len(rows),
        }
        return {**self._summary(evaluation, len(wrong)), **left_out, "rows": _worst(shown, "loss")}

    def _translated(self, model: Translator) -> dict[str, Any]:
        files = ParallelFiles.of(self.path, skip_bad=MAX_BAD)
        readable = list(files.pairs())
        pairs = readable[:MAX_PAIRS]
        found: list[Translation] = []
        for part in each(_parts(len(pairs))):
            found += model.translate([pair.source for pair in pairs[part]])
        evaluation = replace(
            measured_translations(pairs, [one.text for one in found], data=str(self.path)),
            truncated=sum(one.truncated for one in found),
        )
        rows = [
            {
                "where": self._place(one.where),
                "texts": [one.passages[0].text],
                "gold": one.passages[1].text,
                "guess": one.passages[2].text,
                "chrf": one.score,
                "is_right": False,
            }
            for one in evaluation.mistakes
        ]
        num_wrong = sum(one.text != pair.target for one, pair in zip(found, pairs, strict=True))
        left_out = {"bad": len(files.bad), "unlabelled": 0, "not_judged": len(readable) - len(pairs)}
        return {**self._summary(evaluation, num_wrong), **left_out, "rows": rows}

    def _summary(self, evaluation: Evaluation, num_wrong: int) -> dict[str, Any]:
        return {
            "file": self.path.name,
            "examples": evaluation.examples,
            "wrong": num_wrong,
            "truncated": evaluation.truncated,
            "metrics": dict(evaluation.metrics),
            "alarm": evaluation.alarm and in_both(evaluation.alarm),
        }

    def _python(self, row: Example, windows: Sequence[Input]) -> str | None:
        """Return code that prints the loss of a row; None for a text that was read in several windows."""
        if len(windows) > 1:
            return None
        assert isinstance(self.model, Model)
        task = self.model.task
        return "\n".join(
            [
                "import glassbert as gb",
                "",
                f"model = gb.load({self.source!r})",
                f"trace = model.trace(*{list(row.texts)!r}, target={_target(row)!r})",
                f'print(float(trace["loss"]) / {max(1, task.counts(windows)["loss"])})',
                "",
            ]
        )

    def _row(self, row: Example, mistake: Mistake | None) -> dict[str, Any]:
        gold = _gold(row) if mistake is None or not mistake.gold else mistake.gold
        return {
            "where": self._place(row.where),
            "texts": list(row.texts),
            "gold": gold,
            "guess": gold if mistake is None else mistake.guess,
            "target": _target(row),
            "is_right": mistake is None,
        }

    def _place(self, where: str) -> str:
        """Return file and line without the folder: no answer names a path of the disk."""
        return where.replace(str(self.path), self.path.name)


def losses_of(model: Model, inputs: Sequence[Sequence[Input]]) -> list[float]:
    """Return the loss of each example, as training would count it for that example alone.

    Args:
        inputs: The inputs of each example, with their targets.
    """
    task = model.task
    weights = task.loss_weights

    def read(output: Output, _: Batch, alone: list[Input]) -> list[Mapping[str, float]]:
        sums = task.losses(output, alone)
        return [{name: float(sums[name]) for name in weights}]

    flat = [one for windows in inputs for one in windows]
    # A batch for each input: losses come as sums over a batch.
    found = iter(replace(model.engine, batch_tokens=1).map(flat, read))
    losses = []
    for windows in inputs:
        parts, counts = [next(found) for _ in windows], task.counts(windows)
        losses.append(
            sum(
                weight * sum(part[name] for part in parts) / max(1, counts[name])
                for name, weight in weights.items()
            )
        )
    return losses


def _gold(row: Example) -> str:
    if row.labels:
        return ", ".join(row.labels)
    score, answers = getattr(row, "score", None), getattr(row, "answers", None)
    if score is not None:
        return f"{score:g}"
    return ", ".join(dict.fromkeys(one.text for one in answers or ()))


def _target(row: Example) -> Any:
    """Return what a row says is right, as `trace` takes it."""
    if isinstance(row, TagExample):
        return [asdict(span) for span in row.spans or ()]
    if isinstance(row, AnswerExample):
        return [{"text": one.text, "answer_start": one.start} for one in row.answers or ()]
    if isinstance(row, TextExample) and row.score is not None:
        return row.score
    return row.labels[0] if len(row.labels) == 1 else list(row.labels)


def _parts(count: int) -> list[slice]:
    """Return slices that cover this many items."""
    return [slice(start, start + AT_ONCE) for start in range(0, count, AT_ONCE)]


def _worst(rows: Sequence[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: -row[by])[:MAX_SHOWN]

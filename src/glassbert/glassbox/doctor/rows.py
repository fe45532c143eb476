"""Checks of data: whether tokenizer and model know its words and labels, whether scores can be trusted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from glassbert.data.examples import Example, ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.errors import UserError
from glassbert.evaluation.rows import measured
from glassbert.glassbox.doctor.verdict import NO_ADVICE, State, Verdict, named
from glassbert.inference.model import Model
from glassbert.inference.predict import schema_for
from glassbert.inference.translator import Translator
from glassbert.interop.names import nearest
from glassbert.sentence import Sentence, said_by
from glassbert.tasks.classify.task import Classify
from glassbert.tasks.registry import task_of_head
from glassbert.tasks.tag.task import Tag
from glassbert.text.files import read_lines

MAX_ROWS = 2000
"""Rows that are looked at: enough for shares that are right to a percent or two."""
MAX_BAD = 1_000_000_000
SOME_UNKNOWN, MANY_UNKNOWN = 0.02, 0.2
SOME_CUT, MOST_CUT = 0.2, 0.8
MAX_ECE = 0.15
MIN_ROWS_FOR_SCORES = 20


def check_data(model: Model | Translator, data: str | Path) -> Iterator[Verdict]:
    """Yield the verdicts on a file of rows; for a model without a task, of plain text."""
    path = Path(data)
    if isinstance(model, Model) and ("task" in model.run or task_of_head(model.config.head)):
        yield from _rows(model, path)
        return
    texts = [line for line in read_lines(path) if line.strip()][:MAX_ROWS]
    if not texts:
        finding = Sentence("{path}: no text in it", path=path)
        yield Verdict("data", "fault", finding, Sentence("is it the right file?"))
        return
    ids = model.tokenizer.ids_of_batch(texts)
    limit = model.max_length - 2 if isinstance(model, Model) else model.network.config.max_length
    unk_id = model.tokenizer.vocabulary.unk_id if isinstance(model, Model) else -1
    yield _unknown(sum(row.count(unk_id) for row in ids), sum(map(len, ids)))
    yield _cut(sum(len(row) > limit for row in ids), len(ids))


def _rows(model: Model, path: Path) -> Iterator[Verdict]:
    task = model.task
    try:
        table = read_examples(schema_for(task, None), path, ReadOptions(kind=task.kind, skip_bad=MAX_BAD))
    except UserError as error:
        yield Verdict("data", "fault", said_by(error))
        return
    rows: Sequence[Any] = table.examples[:MAX_ROWS]
    figure = Sentence(
        "{num_rows:,} of {total:,} rows looked at, {num_bad:,} bad",
        num_rows=len(rows),
        total=len(table.examples),
        num_bad=len(table.bad),
    )
    state: State = "warn" if table.bad else "ok"
    advice = Sentence("the first: {where}", where=table.bad[0].where) if table.bad else NO_ADVICE
    yield Verdict("data", state, figure, advice)
    try:
        inputs = task.inputs(rows, with_targets=False)
    except UserError as error:
        yield Verdict("data", "fault", said_by(error))
        return
    ids = [one.ids for windows in inputs for one in windows]
    unk_id = model.tokenizer.vocabulary.unk_id
    yield _unknown(sum(int((one == unk_id).sum()) for one in ids), sum(map(len, ids)))
    yield _cut(sum(windows[0].num_cut > 0 for windows in inputs), len(rows))
    labels = _labels(model, rows)
    if labels:
        yield labels
    labelled = [row for row in rows if task.is_labelled(row)]
    if (labels and labels.state == "fault") or len(labelled) < len(rows):
        finding = Sentence(
            "{count:,} of {total:,} rows have a label it knows", count=len(labelled), total=len(rows)
        )
        yield Verdict("scores", "skipped", finding)
        return
    evaluation = measured(task, rows, inputs, model.predict_inputs(rows, inputs), unk_id=unk_id)
    yield from _scores(evaluation, task.best_by, len(rows))


def _unknown(num_unknown: int, num_tokens: int) -> Verdict:
    share = num_unknown / max(1, num_tokens)
    finding = Sentence(
        "{count:,} of {total:,} tokens ({share:.2%})", count=num_unknown, total=num_tokens, share=share
    )
    if share <= SOME_UNKNOWN:
        return Verdict("[UNK]", "ok", finding)
    state: State = "fault" if share > MANY_UNKNOWN else "warn"
    advice = Sentence("the vocabulary does not fit the text; see `vocab extend`")
    return Verdict("[UNK]", state, finding, advice)


def _cut(num_cut: int, num_texts: int) -> Verdict:
    share = num_cut / max(1, num_texts)
    finding = Sentence(
        "{count:,} of {total:,} texts ({share:.1%}) are longer than the model takes",
        count=num_cut,
        total=num_texts,
        share=share,
    )
    if share <= SOME_CUT:
        return Verdict("truncation", "ok", finding)
    state: State = "fault" if share > MOST_CUT else "warn"
    advice = Sentence("read them in windows: task.long_text='window'")
    return Verdict("truncation", state, finding, advice)


def _labels(model: Model, rows: Sequence[Example]) -> Verdict | None:
    task = model.task
    if isinstance(task, Classify) and task.kind != "regression":
        known: Sequence[str] = task.labels
    elif isinstance(task, Tag):
        known = task.tag_set.labels
    else:
        return None
    found = Counter(label for row in rows for label in row.labels)
    strange = [label for label in found if label not in known]
    if strange:
        guess = nearest(strange[0], known)
        finding = Sentence(
            "{names} in the data, not in the model ({hint})",
            names=named([repr(label) for label in strange]),
            hint=Sentence("nearest: {label!r}", label=guess)
            if guess
            else Sentence("the model has {names}", names=named(list(known))),
        )
        advice = Sentence("rename them, or correct id2label in config.json")
        return Verdict("label map", "fault", finding, advice)
    absent = [label for label in known if label not in found]
    if absent and found:
        finding = Sentence("{names} not in the data", names=named(absent))
        return Verdict("label map", "warn", finding, Sentence("measure it on rows that have it"))
    finding = Sentence("{count} of {total} labels, all known", count=len(found), total=len(known))
    return Verdict("label map", "ok", finding)


def _scores(evaluation: Any, best_by: str, num_rows: int) -> Iterator[Verdict]:
    value = evaluation.metrics.get(best_by)
    figure = Sentence("{num_rows:,} rows", num_rows=num_rows)
    if value is not None:
        figure = Sentence("{metric} {value:.4f} on {rows}", metric=best_by, value=value, rows=figure)
    if evaluation.alarm and num_rows >= MIN_ROWS_FOR_SCORES:
        advice = Sentence("check the label map and the learning rate")
        finding = Sentence("{alarm}; {figure}", alarm=evaluation.alarm, figure=figure)
        yield Verdict("scores", "fault", finding, advice)
    else:
        yield Verdict("scores", "ok", figure)
    known = evaluation.calibration
    if known is None:
        return
    figure = Sentence("confidence and accuracy differ by {gap:.3f} on average", gap=known.ece)
    if known.ece <= MAX_ECE:
        yield Verdict("calibration", "ok", figure)
    else:
        yield Verdict(
            "calibration",
            "warn",
            figure,
            Sentence("do not read scores as probabilities; give such rows to training as --dev"),
        )

"""Distillation of vectors: any text and a teacher become a smaller encoder."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glassbert.config import BertConfig, preset
from glassbert.data.examples import ReadOptions
from glassbert.data.rows.read import read_examples
from glassbert.data.sentences import sampled_sentences
from glassbert.errors import DataError, ModelError, UserError
from glassbert.evaluation.comparison import STUDENT, comparison_of, side, speeds
from glassbert.evaluation.result import Evaluation
from glassbert.inference.inputs import inputs_of
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.messages import Log
from glassbert.metrics.comparison import Comparison
from glassbert.metrics.vectors import VectorReport
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.student import check_number
from glassbert.model_names import model_folder
from glassbert.ranges import Count, CountOrNone, Length, Rate
from glassbert.runs.describe import log_table
from glassbert.runs.folder import plain_tables
from glassbert.runs.recipe import Tables
from glassbert.runs.run import DevData, Finish, Session, SingleRun
from glassbert.runs.start import BERT_PRESETS, SIZES, StartModel
from glassbert.runs.teacher import (
    TEACHER,
    Teacher,
    check_vocabulary,
    number_of_blocks,
    remember_blocks,
    student_of,
)
from glassbert.storage import read_json, sha256_of, write_json
from glassbert.tasks.distillation import Distil, ScoredPairs, compared_vectors, pooled_vectors
from glassbert.tasks.registry import schema_of
from glassbert.tasks.task import Input
from glassbert.text.documents import Form
from glassbert.text.files import input_files
from glassbert.training.loop import TrainResult
from glassbert.training.settings import TrainSettings
from glassbert.typed import check_fields, check_keys, hints_of, settings_from

MODEL_FIELDS: Mapping[str, Any] = hints_of(BertConfig)
EPOCHS = 3.0
RATE = 1e-4
NO_DROPOUT = {"attention_probs_dropout_prob": 0.0, "hidden_dropout_prob": 0.0}
"""While the student learns: the teacher's states are without dropout too."""
_SAMPLE = 128
"""Held-out texts on which choices of blocks are tried."""
_TIMED_TEXTS = 200


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The `[data]` table."""

    text: tuple[Path, ...]
    """Files or folders of raw text; its sentences are what the student reads."""
    form: Form | None = None
    """Form of the text; detected if not set."""
    texts: Count = 20_000
    """Sentences to learn from, drawn evenly from all of the text."""
    held_out: Count = 1_000
    """More sentences, to measure on."""
    pairs: Path | None = None
    """File of text pairs scored by people, also to measure on; it never chooses the weights."""
    max_length: Length = 128
    """Tokens of the longest text."""

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True, kw_only=True)
class VectorStudent:
    """The `[distil]` table."""

    teacher: Path
    """Model whose vectors are learned."""
    keep: str = "auto"
    """The teacher's blocks that the student begins with, such as 0,2,5; auto tries choices beforehand."""
    blocks: Count | None = None
    """With auto: how many blocks; half of the teacher's if not set."""


@dataclass(frozen=True, kw_only=True)
class VectorTrainSettings(TrainSettings):
    """The `[train]` table; three epochs unless something else ends the run."""

    learning_rate: Rate = RATE
    """The highest learning rate."""
    batch_size: Count = 32
    """Texts of one update, over all processes."""
    batch_tokens: Count = 16384
    """Tokens of one update at most."""
    micro_tokens: Count = 4096
    """Most tokens computed at once; a larger batch is accumulated in parts."""
    evaluate_every: CountOrNone = 0
    """Steps between evaluations; 0: once an epoch. The end of the run is always evaluated."""


@dataclass(frozen=True, kw_only=True)
class DistilRecipe:
    """All tables of a distillation."""

    data: TextSettings
    model: StartModel
    distil: VectorStudent
    train: VectorTrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "DistilRecipe":
        """Check the tables of a recipe."""
        check_keys(tables, ("data", "model", "task", "distil", "train"), "recipe")
        data = dict(tables.get("data", {}))
        if isinstance(data.get("text"), str):
            data["text"] = [data["text"]]
        train = dict(tables.get("train", {}))
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["epochs"] = EPOCHS
        distil = settings_from(VectorStudent, tables.get("distil", {}), "distil")
        distil = replace(distil, teacher=model_folder(distil.teacher))
        model = StartModel.of(tables.get("model", {}), MODEL_FIELDS, BERT_PRESETS)
        is_given = model.preset is not None or model.start is not None
        if is_given and (distil.keep != "auto" or distil.blocks is not None):
            raise UserError(
                "the student is a preset or another model, so no blocks of the teacher are kept; leave out "
                "--model, or --keep and --blocks"
            )
        return cls(
            data=settings_from(TextSettings, data, "data"),
            model=model,
            distil=distil,
            train=settings_from(VectorTrainSettings, train, "train"),
        )

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        return plain_tables(
            {
                "task": {"name": "distil"},
                "data": asdict(self.data),
                "model": self.model.table(),
                "distil": asdict(self.distil),
                "train": asdict(self.train),
            }
        )

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe with the settings that it lacks."""
        return DistilRecipe.of(before).tables()

    def reads(self) -> list[Path]:
        """Return the files and folders that the run reads."""
        named = (*self.data.text, self.data.pairs, self.distil.teacher, self.model.start)
        return [path for path in named if path is not None]

    def prepare(self, out: Path, log: Log) -> SingleRun:
        """Open the teacher, draw the texts and make the student."""
        teacher = Teacher.of_vectors(self.distil.teacher)
        _check_teacher(teacher)
        if self.model.preset is None and self.model.start is None:  # before a long text is read
            depth = teacher.model.config.encoder.num_hidden_layers
            number_of_blocks(self.distil.keep, self.distil.blocks, depth)
        texts = Texts.of(self.data, teacher.model, self.train.seed, log)
        bert, keep = self._student(teacher, texts.dev, out, log)
        pooling = teacher.model.pooling
        trainable = Distil(
            bert,
            teacher.model.tokenizer,
            pooling,
            texts.train,
            texts.dev,
            teacher_width=teacher.model.config.encoder.hidden_size,
            batch_size=self.train.batch_size,
            batch_tokens=self.train.batch_tokens,
            seed=self.train.seed,
            companions=teacher.model.companions,
            dropout=_dropout(teacher.model.config.encoder),
            pairs=texts.pairs,
        )

        def begin(out: Path) -> None:
            outputs = teacher.outputs([*texts.train, *texts.dev], out / TEACHER, log)
            trainable.order.taught = outputs
            trainable.taught_dev = [outputs[len(texts.train) + place] for place in range(len(texts.dev))]
            remember_blocks(out, keep)

        settings = self.train
        if not settings.evaluate_every:
            settings = replace(settings, evaluate_every=trainable.steps_in_epochs(1.0))
        comparing = Comparing(
            teacher, trainable, keep, texts.sentences, str(self.data.pairs or "held-out sentences")
        )
        return SingleRun(
            trainable=trainable,
            settings=settings,
            data={**texts.about, "teacher": {"sha256": list(teacher.sha256)}},
            begin=begin,
            finish=comparing.finish,
            dev=DevData(comparing.data, comparing.evaluate),
        )

    def _student(
        self, teacher: Teacher, dev: Sequence[Input], out: Path, log: Log
    ) -> tuple[Bert, tuple[int, ...]]:
        """Return the student before training, and the teacher's blocks that it consists of."""
        shape = teacher.model.config.encoder
        dropout = {**NO_DROPOUT, **self.model.dropout}
        if self.model.preset is not None:
            sizes = {name: getattr(preset(self.model.preset), name) for name in SIZES}
            wanted = replace(shape, **{**dropout, **sizes, **self.model.fields})
            check_depth(wanted.num_hidden_layers, shape.num_hidden_layers)
            head = replace(teacher.model.config, head="none", labels=(), problem_type=None, has_pooler=False)
            return new_bert(replace(head, encoder=wanted), seed=self.train.seed), ()
        if self.model.start is not None:
            folder = self.model.folder()
            check_vocabulary(teacher.folder, teacher.model.tokenizer, folder.tokenizer())
            bert, _ = folder.build(head="none", changes=dropout)
            check_depth(bert.config.encoder.num_hidden_layers, shape.num_hidden_layers)
            return bert, ()
        network, _ = StartModel(start=self.distil.teacher).folder().build(changes=dropout)
        sample, pooling = dev[:_SAMPLE], teacher.model.pooling
        said = pooled_vectors(network, sample, pooling)

        def cost(student: Bert) -> float:
            return 1.0 - compared_vectors(pooled_vectors(student, sample, pooling), said)["cosine"]

        return student_of(network, self.distil.keep, self.distil.blocks, out, cost, log)


@dataclass(frozen=True)
class Texts:
    """The encoded texts of a run."""

    train: list[Input]
    dev: list[Input]
    sentences: list[str]
    """Those to measure on, as text."""
    pairs: ScoredPairs | None
    about: Mapping[str, Any]
    """Fingerprints of the files."""

    @classmethod
    def of(cls, settings: TextSettings, model: Model, seed: int, log: Log) -> "Texts":
        """Draw the sentences and encode them; read the pairs."""
        wanted = settings.texts + settings.held_out
        found = sampled_sentences(list(settings.text), wanted, settings.form, seed=seed, log=log)
        num_dev = min(settings.held_out, len(found) // 2)
        if num_dev < 2:
            raise DataError(
                f"{settings.text[0]}: {len(found)} sentences; expected some thousand to learn from"
            )
        limit = min(settings.max_length, model.max_length)
        inputs = encoded(found, model, limit)
        log(f"{len(found) - num_dev:,} sentences to learn from, {num_dev:,} to measure on")
        pairs = None if settings.pairs is None else _scored_pairs(settings.pairs, model, log)
        named = {
            "text": input_files(list(settings.text)),
            "pairs": [settings.pairs] if settings.pairs else [],
        }
        about = {
            name: {"files": [path.name for path in paths], "sha256": [sha256_of(path) for path in paths]}
            for name, paths in named.items()
            if paths
        }
        return cls(inputs[num_dev:], inputs[:num_dev], found[:num_dev], pairs, about)


@dataclass(frozen=True)
class Comparing:
    """Measures a student beside its teacher."""

    teacher: Teacher
    trainable: Distil
    keep: tuple[int, ...]
    sentences: Sequence[str]
    data: str

    def finish(self, session: Session, trained: TrainResult) -> Finish:
        """Measure the best weights; run.json keeps the comparison."""
        evaluation = self.evaluate(session.out / "best")
        return Finish(evaluation.metrics, evaluation)

    def evaluate(self, folder: Path) -> Evaluation:
        """Measure the model of a folder."""
        student, trainable = load(folder, Model), self.trainable
        pooling = student.pooling
        vectors = {
            name: pooled_vectors(model.network, trainable.dev, pooling)
            for name, model in (("teacher", self.teacher.model), ("student", student))
        }
        metrics = compared_vectors(vectors["student"], vectors["teacher"])
        scores: dict[str, float | None] = {"teacher": None, "student": None}
        if trainable.pairs is not None:
            for name, model in (("teacher", self.teacher.model), ("student", student)):
                found = pooled_vectors(model.network, trainable.pairs.inputs, pooling)
                scores[name] = trainable.pairs.spearman(found)
            metrics["spearman"] = scores["student"] or 0.0
        run = read_json(folder / "run.json")
        comparison = comparison_of(run) or self._compared(student, scores, metrics["agreement"])
        if STUDENT not in run:
            write_json(folder / "run.json", {**run, "metrics": metrics, STUDENT: comparison.to_json()})
        return Evaluation(
            task="distil",
            model=str(folder),
            data=self.data,
            examples=len(trainable.dev),
            report=VectorReport(metrics),
            comparison=comparison,
        )

    def _compared(self, student: Model, scores: Mapping[str, float | None], agreement: float) -> Comparison:
        models = {"teacher": self.teacher.model, "student": student}
        timed = self.sentences[:_TIMED_TEXTS]
        rates = speeds(models, partial(_embed, timed), len(timed))
        sides = {name: side(model, scores[name], rates[name]) for name, model in models.items()}
        return Comparison(metric="spearman", agreement=agreement, keep=self.keep, **sides)


def _embed(texts: Sequence[str], model: Model) -> object:
    return model.embed(texts)


def encoded(texts: Sequence[str], model: Model, max_length: int) -> list[Input]:
    """Return each text as an input, cut to ``max_length`` tokens."""
    return inputs_of(model.tokenizer, model.tokenizer.ids_of_batch(texts), max_length)


def _dropout(shape: BertConfig) -> dict[str, float]:
    return {name: getattr(shape, name) for name in NO_DROPOUT}


def check_depth(ours: int, theirs: int) -> None:
    """Refuse a student that is deeper than its teacher."""
    if ours > theirs:
        check_number(ours, theirs)


def _check_teacher(teacher: Teacher) -> None:
    task = teacher.model.run.get("task", {}).get("name")
    if task is not None:
        raise ModelError(
            f"{teacher.folder}: a model for {task}, and `distil` makes students of vectors; use `glassbert "
            f"train {task} --teacher`"
        )


def _scored_pairs(path: Path, model: Model, log: Log) -> ScoredPairs:
    table = read_examples(schema_of("pair"), path, ReadOptions(kind="regression"))
    log_table("pairs", table, log)
    rows = [row for row in table.examples if row.score is not None]
    if not rows:
        raise DataError(f"{path}: no pair has a score; name its column with data.columns, or leave it out")
    texts = [row.texts[side] for side in (0, 1) for row in rows]
    gold = np.array([row.score for row in rows], dtype=np.float64)
    return ScoredPairs(encoded(texts, model, model.max_length), gold)

"""Pre-training: a corpus becomes an encoder."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassbert.config import BertConfig, preset
from glassbert.data.corpus.manifest import HELD_OUT
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.data.pretraining.phases import Batches, Phase, PhasedBatches, stretches
from glassbert.data.pretraining.token_vectors import token_vectors
from glassbert.errors import UserError
from glassbert.messages import Log
from glassbert.model.bert import Bert
from glassbert.model.init import look_at_neighbours, new_bert
from glassbert.ranges import Count
from glassbert.runs.folder import plain_tables
from glassbert.runs.recipe import Tables
from glassbert.runs.run import SingleRun
from glassbert.runs.start import BERT_PRESETS, StartModel
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective, objective_type
from glassbert.tasks.pretraining import Pretrain
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.checkpoint import checkpoints
from glassbert.training.settings import TrainSettings
from glassbert.typed import check_fields, check_keys, hints_of, settings_from

DEFAULT_PRESET = "mini"
MODEL_FIELDS: Mapping[str, Any] = {
    **hints_of(BertConfig),
    "neighbour_heads": bool,
    "token_vectors": bool,
}
"""What `[model]` may set: the config, and how a fresh model starts: with heads that look at neighbours
(`look_at_neighbours`), with tokens that begin as vectors of the corpus (`token_vectors`)."""


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The `[data]` table."""

    corpus: Path
    """Folder that `corpus build` wrote."""
    held_out: Path | None = None
    """Another such folder, of text that is not trained on; the one inside the corpus if not set."""
    held_out_tokens: Count = 100_000
    """Tokens of it to measure on."""
    phases: tuple[Phase, ...] = ()
    """Stretches of the run with batches or texts of another size, such as
    `[{ until = 0.2, batch_tokens = 4096 }, { until = 1.0, max_length = 512 }]`."""

    def __post_init__(self) -> None:
        check_fields(self, "data")


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """All tables of a pre-training recipe."""

    data: DataSettings
    model: StartModel
    objective: ObjectiveSettings
    train: TrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "PretrainRecipe":
        """Check the tables of a recipe; without held-out text, take what the corpus itself holds out."""
        check_keys(tables, ("data", "model", "objective", "train"), "recipe")
        data = settings_from(DataSettings, tables.get("data", {}), "data")
        if data.held_out is None and (data.corpus / HELD_OUT).is_dir():
            data = replace(data, held_out=data.corpus / HELD_OUT)
        objective = tables.get("objective", {})
        kind = objective_type(objective.get("name", ObjectiveSettings.name)).settings_type
        return cls(
            data=data,
            model=StartModel.of(tables.get("model", {}), MODEL_FIELDS, BERT_PRESETS),
            objective=settings_from(kind, objective, "objective"),
            train=settings_from(TrainSettings, tables.get("train", {}), "train"),
        )

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        return plain_tables(
            {
                "data": asdict(self.data),
                "model": self.model.table(),
                "objective": asdict(self.objective),
                "train": asdict(self.train),
            }
        )

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe under today's keys, with the settings that it lacks."""
        return PretrainRecipe.of(before).tables()

    def reads(self) -> list[Path]:
        """Return the files and folders that the run reads."""
        named = (self.data.corpus, self.data.held_out, self.model.start)
        return [path for path in named if path is not None]

    def prepare(self, out: Path, log: Log) -> SingleRun:
        """Open the corpus and make the model."""
        if self.data.held_out == self.data.corpus / HELD_OUT:
            log(
                f"measuring on {self.data.held_out}, which was held out of the corpus; "
                "data.held_out names another"
            )
        corpora = {"corpus": Corpus.open(self.data.corpus)}
        if self.data.held_out is not None:
            corpora["held_out"] = Corpus.open(self.data.held_out)
        if self.objective.partner == "file":
            _log_partners(corpora["corpus"], log)
        return SingleRun(
            trainable=make_trainable(self, **corpora, has_weights=bool(checkpoints(out))),
            settings=self.train,
            data={name: _fingerprint(corpus) for name, corpus in corpora.items()},
            has_best=False,
        )


def _log_partners(corpus: Corpus, log: Log) -> None:
    """Warn where a partner cannot be from the same file, or where that rules nothing out."""
    if corpus.source_ends is None:
        return  # refused where pairs are drawn
    sizes = np.diff(corpus.source_ends, prepend=0)
    if len(sizes) == 1:
        log("objective.partner=file changes nothing: the corpus is of one file; build it of one a language")
    elif (alone := int((sizes == 1).sum())) > 0:
        log(f"objective.partner=file: {alone} of {len(sizes)} files have one document, whose partner is any")


def make_trainable(
    recipe: PretrainRecipe, corpus: Corpus, held_out: Corpus | None = None, *, has_weights: bool = False
) -> Pretrain:
    """Return the model and its objective on both corpora.

    Args:
        has_weights: Whether a checkpoint will replace the first weights, so that they may be any.
    """
    tokenizer = corpus.tokenizer()
    objective = make_objective(recipe.objective, tokenizer.vocabulary)
    batches = make_batches(recipe, corpus, objective)
    measured = () if held_out is None else _held_out_batches(objective, held_out, recipe)
    model = make_model(recipe, len(tokenizer.vocabulary))
    if recipe.model.start is not None:
        corpus.check_fits(Tokenizer.load(recipe.model.start))
    elif recipe.model.fields.get("token_vectors") and not has_weights:
        _start_from_text(model, corpus, recipe.train.seed)
    return Pretrain(
        model,
        tokenizer,
        objective,
        batches,
        held_out=measured,
        guess=lambda: objective.guessing_loss(corpus, measured),
        num_steps=recipe.train.num_steps,
    )


def make_batches(recipe: PretrainRecipe, corpus: Corpus, objective: Objective) -> Batches:
    """Return what the run is trained on."""
    train = recipe.train
    if not recipe.data.phases:
        batches = CorpusBatches(corpus, objective, batch_tokens=train.batch_tokens, seed=train.seed)
        if train.minutes is not None:
            # Fail now, not in the run: an objective that changes must know where the run ends.
            batches.batch(0)
        return batches
    if train.steps is None:
        raise UserError("data.phases are shares of a run of known length; set train.steps")
    return PhasedBatches(
        [
            CorpusBatches(
                corpus,
                _with_length(objective, stretch.phase.max_length),
                batch_tokens=stretch.phase.batch_tokens or train.batch_tokens,
                seed=train.seed,
                first_step=stretch.first_step,
                first_epoch=stretch.first_epoch,
            )
            for stretch in stretches(recipe.data.phases, train.steps)
        ]
    )


def _with_length(objective: Objective, max_length: int | None) -> Objective:
    if max_length is None:
        return objective
    return make_objective(replace(objective.settings, max_length=max_length), objective.vocabulary)


def make_model(recipe: PretrainRecipe, vocab_size: int) -> Bert:
    """Return the model that training starts from."""
    if recipe.model.start is not None:
        return _started_model(recipe, vocab_size)
    fields = dict(recipe.model.fields)
    has_neighbour_heads = fields.pop("neighbour_heads", False)
    fields.pop("token_vectors", None)  # these need the corpus
    shape = preset(recipe.model.preset or DEFAULT_PRESET, **{"vocab_size": vocab_size, **fields})
    _check_length(shape, recipe)
    if shape.vocab_size < vocab_size:
        raise UserError(
            f"model.vocab_size={shape.vocab_size} is less than the {vocab_size} pieces of the corpus; leave "
            "it out, or set it to that number or more"
        )
    model = new_bert(objective_type(recipe.objective.name).model_config(shape), seed=recipe.train.seed)
    if has_neighbour_heads:
        look_at_neighbours(model)
    return model


@torch.no_grad()
def _start_from_text(model: Bert, corpus: Corpus, seed: int) -> None:
    """Give tokens that are alike in the corpus rows that are alike; the others keep their random rows."""
    table = model.encoder.embeddings.token.weight  # (V, D)
    vectors = torch.from_numpy(token_vectors(corpus, len(table), table.shape[1], seed=seed))
    is_known = vectors.any(dim=1)
    table[is_known] = model.config.encoder.initializer_range * vectors[is_known]


def _started_model(recipe: PretrainRecipe, vocab_size: int) -> Bert:
    """Return the model of a folder; refuse one that does not fit the recipe or the corpus."""
    head = objective_type(recipe.objective.name).model_config(BertConfig()).head
    model, _ = recipe.model.folder().build(head=head, seed=recipe.train.seed, changes=recipe.model.dropout)
    shape = model.config.encoder
    recipe.model.check_same(shape)
    if shape.vocab_size < vocab_size:
        raise UserError(
            f"{recipe.model.start}: the model has {shape.vocab_size} rows, fewer than the {vocab_size} "
            "pieces of the corpus; use the vocabulary that it was trained with"
        )
    _check_length(shape, recipe)
    return model


def _check_length(shape: BertConfig, recipe: PretrainRecipe) -> None:
    """Refuse examples that are too long for the model."""
    lengths = [phase.max_length or 0 for phase in recipe.data.phases]
    for name, length in (
        ("data.phases", max(lengths, default=0)),
        ("objective", recipe.objective.max_length),
    ):
        if shape.max_position_embeddings < length:
            raise UserError(
                f"{name}.max_length={length} exceeds model.max_position_embeddings="
                f"{shape.max_position_embeddings}; raise the one or lower the other"
            )


def _held_out_batches(
    objective: Objective, corpus: Corpus, recipe: PretrainRecipe
) -> tuple[PretrainBatch, ...]:
    """Return the batches to measure on; errors name the held-out text, not the corpus."""
    num_tokens, batch_tokens = recipe.data.held_out_tokens, recipe.train.batch_tokens
    try:
        return tuple(objective.held_out_batches(corpus, num_tokens, batch_tokens=batch_tokens))
    except UserError as error:
        raise type(error)(f"data.held_out={corpus.folder}: {error}") from None


def _fingerprint(corpus: Corpus) -> dict[str, Any]:
    manifest = corpus.manifest
    return {
        "num_tokens": manifest.num_tokens,
        "content_sha256": manifest.content_sha256,
        "vocab_sha256": manifest.vocab_sha256,
    }

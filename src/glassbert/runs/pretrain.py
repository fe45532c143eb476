"""From a recipe to a trained encoder."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from glassbert.config import BertConfig, preset
from glassbert.data.corpus.manifest import HELD_OUT
from glassbert.data.corpus.reader import Corpus
from glassbert.data.pretraining.batches import PretrainBatch
from glassbert.data.pretraining.corpus_batches import CorpusBatches
from glassbert.errors import UserError
from glassbert.interop.huggingface import build
from glassbert.interop.stored import read_stored
from glassbert.model.bert import Bert
from glassbert.model.init import look_at_neighbours, new_bert
from glassbert.model_names import model_folder
from glassbert.runs.folder import check_data, lock_run, open_run, plain_tables
from glassbert.runs.recipe import check_keys, settings_from, typed_values
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.registry import make_objective, objective_type
from glassbert.tasks.pretraining import Pretrain
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.training.checkpoint import full_disk_told
from glassbert.training.loop import TrainResult, train
from glassbert.training.processes import choose_device, is_main_process
from glassbert.training.settings import TrainSettings
from glassbert.training.status import Status
from glassbert.version import __version__

# What a preset says of a shape.
_SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """The `[data]` table."""

    corpus: Path
    """Folder that `corpus build` wrote."""
    held_out: Path | None = None
    """Another such folder, of text that is not trained on; the one within the corpus when not set."""
    held_out_tokens: int = 100_000
    """How much of it is measured."""


@dataclass(frozen=True, kw_only=True)
class PretrainRecipe:
    """All tables of a pre-training recipe."""

    data: DataSettings
    model: Mapping[str, Any]
    """A preset or a folder to start from, and fields of its config.json to change.

    ``neighbour_heads``: a fresh model's first heads look at neighbours; see `look_at_neighbours`.
    """
    objective: ObjectiveSettings
    train: TrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "PretrainRecipe":
        """Check the tables of a recipe."""
        check_keys(tables, ("data", "model", "objective", "train"), "recipe")
        model = dict(tables.get("model", {}))
        own = ("preset", "init_from", "neighbour_heads")
        hints = get_type_hints(BertConfig)
        check_keys(model, (*own, *hints), "model")
        if not isinstance(model.get("neighbour_heads", False), bool):
            raise UserError(f"model.neighbour_heads={model['neighbour_heads']!r}; expected true or false")
        shape = {key: value for key, value in model.items() if key in hints}
        objective = tables.get("objective", {})
        kind = objective_type(objective.get("name", ObjectiveSettings.name)).settings_type
        return cls(
            data=settings_from(DataSettings, tables.get("data", {}), "data"),
            model=model | typed_values(shape, hints, "model"),
            objective=settings_from(kind, objective, "objective"),
            train=settings_from(TrainSettings, tables.get("train", {}), "train"),
        )

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return every setting of the run, defaults included."""
        return {
            "data": asdict(self.data),
            "model": dict(self.model),
            "objective": asdict(self.objective),
            "train": asdict(self.train),
        }


def pretrain(
    recipe: PretrainRecipe,
    out: Path,
    log: Callable[[str], None],
    on_status: Callable[[Status], None] | None = None,
) -> TrainResult:
    """Train an encoder in the folder ``out``; a folder that holds this very run is gone on with.

    Args:
        log: Receives remarks for the user.
        on_status: Draws how the run stands after each step; without it, lines are told.
    """
    recipe = _with_held_out(recipe, log)
    corpus = Corpus.open(recipe.data.corpus)
    tokenizer = corpus.tokenizer()
    objective = make_objective(recipe.objective, tokenizer.vocabulary)
    batches = CorpusBatches(corpus, objective, batch_tokens=recipe.train.batch_tokens, seed=recipe.train.seed)
    corpora = {"corpus": corpus}
    held_out: tuple[PretrainBatch, ...] = ()
    if recipe.data.held_out is not None:
        corpora["held_out"] = Corpus.open(recipe.data.held_out)
        held_out = _held_out_batches(objective, corpora["held_out"], recipe)
    model = make_model(recipe, len(tokenizer.vocabulary))
    if "init_from" in recipe.model:
        corpus.check_fits(Tokenizer.load(model_folder(recipe.model["init_from"])))
    task = Pretrain(
        model,
        tokenizer,
        objective,
        batches,
        held_out=held_out,
        guess=lambda: objective.guessing_loss(corpus, held_out),
        num_steps=recipe.train.num_steps,
    )
    tables = plain_tables(recipe.tables())
    data = {name: _identity(corpus) for name, corpus in corpora.items()}
    choose_device(recipe.train.device)
    # Last, so that a recipe that cannot be run leaves no folder behind.
    with full_disk_told(out):
        open_run(out, tables, lambda before: plain_tables(PretrainRecipe.of(before).tables()))
        check_data(out, data)
    about = {"recipe": tables, "data": data, "glassbert": __version__}
    with lock_run(out):
        return train(task, recipe.train, out, about=about, log=log, on_status=on_status)


def make_model(recipe: PretrainRecipe, vocab_size: int) -> Bert:
    """Return the model that training starts from."""
    table = dict(recipe.model)
    source, neighbour_heads = table.pop("init_from", None), table.pop("neighbour_heads", False)
    sizes = _SIZES if "preset" in table else ()
    shape = preset(table.pop("preset", "mini"), vocab_size=vocab_size)
    shape = replace(shape, **table)
    config = objective_type(recipe.objective.name).model_config(shape)
    if source is not None:
        model = build(read_stored(model_folder(source)), head=config.head, seed=recipe.train.seed)[0]
        _check_same(shape, model.config.encoder, (*sizes, *table), str(source))
        if model.config.encoder.vocab_size < vocab_size:
            raise UserError(
                f"{source}: the model has {model.config.encoder.vocab_size} rows, fewer than the "
                f"{vocab_size} pieces of the corpus; use the vocabulary that it was trained with"
            )
        _check_length(model.config.encoder, recipe)
        return model
    _check_length(shape, recipe)
    if shape.vocab_size < vocab_size:
        raise UserError(
            f"model.vocab_size={shape.vocab_size} is less than the {vocab_size} pieces of the corpus; leave "
            "it out, or set it to as many or more"
        )
    model = new_bert(config, seed=recipe.train.seed)
    if neighbour_heads:
        look_at_neighbours(model)
    return model


def _check_same(shape: BertConfig, found: BertConfig, names: Iterable[str], source: str) -> None:
    """Refuse a model to start from that is not as the recipe says."""
    for name in names:
        wanted, has = getattr(shape, name), getattr(found, name)
        if wanted != has:
            raise UserError(
                f"model.{name} is {wanted} in the recipe and {has} in model.init_from={source}; start from "
                "another model, or change the recipe"
            )


def _check_length(shape: BertConfig, recipe: PretrainRecipe) -> None:
    """Refuse examples that are too long for the model."""
    if shape.max_position_embeddings < recipe.objective.max_length:
        raise UserError(
            f"objective.max_length={recipe.objective.max_length} exceeds model.max_position_embeddings="
            f"{shape.max_position_embeddings}; raise the one or lower the other"
        )


def _held_out_batches(
    objective: Objective, corpus: Corpus, recipe: PretrainRecipe
) -> tuple[PretrainBatch, ...]:
    """Return what is measured; what is wrong with it is not blamed on the corpus."""
    num_tokens, batch_tokens = recipe.data.held_out_tokens, recipe.train.batch_tokens
    try:
        return tuple(objective.held_out_batches(corpus, num_tokens, batch_tokens=batch_tokens))
    except UserError as error:
        raise type(error)(f"data.held_out={corpus.folder}: {error}") from None


def _with_held_out(recipe: PretrainRecipe, log: Callable[[str], None]) -> PretrainRecipe:
    """Return the recipe with the text that `corpus build` held out, unless it names another."""
    folder = recipe.data.corpus / HELD_OUT
    if recipe.data.held_out is not None or not folder.is_dir():
        return recipe
    if is_main_process():
        log(f"measuring on {folder}, which was held out of the corpus; data.held_out names another")
    return replace(recipe, data=replace(recipe.data, held_out=folder))


def _identity(corpus: Corpus) -> dict[str, Any]:
    manifest = corpus.manifest
    return {
        "num_tokens": manifest.num_tokens,
        "content_sha256": manifest.content_sha256,
        "vocab_sha256": manifest.vocab_sha256,
    }

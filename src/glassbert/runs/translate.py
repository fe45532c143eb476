"""Translation: sentences with their translations become a translator."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from glassbert.config import TRANSLATOR_PRESETS, LstmConfig, TransformerConfig
from glassbert.data.pair_batches import TranslateObjective, encode_pairs
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import UserError
from glassbert.inference.translator import best_targets
from glassbert.interop.folder import TranslatorFolder
from glassbert.interop.folder import TranslatorNetwork as Network
from glassbert.messages import Log
from glassbert.metrics.translation import translation
from glassbert.model.init import new_lstm, new_transformer
from glassbert.runs.average import average_checkpoints
from glassbert.runs.describe import describe_pairs, left_out_lines
from glassbert.runs.folder import plain_tables
from glassbert.runs.measure_translator import evaluate_model, measure_best
from glassbert.runs.recipe import Tables
from glassbert.runs.run import DevData, Finish, Session, SingleRun
from glassbert.runs.start import SIZES, StartModel, with_current_keys
from glassbert.runs.translate_tables import (
    DEFAULT_PRESET,
    ParallelData,
    TranslateSettings,
    fields_of,
    fresh_config,
    known_fields,
    spread,
)
from glassbert.storage import new_folder, sha256_of
from glassbert.tasks.translation import HeldOut, Translate, held_out_batches
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.training.checkpoint import forget_stops
from glassbert.training.loop import TrainResult
from glassbert.training.settings import TrainSettings
from glassbert.typed import check_keys, settings_from

VOCABULARY = "vocabulary"
"""Folder of the run with the vocabulary that was learned before the first step."""
EPOCHS = 10.0
# The rate rises as published, up to (width x warm-up steps)^-1/2; this was the published warm-up.
PUBLISHED_WARMUP_STEPS = 4000
FINE_TUNING_RATE = 1e-4
_OPTIMIZER: dict[str, Any] = {
    "schedule": "inverse_sqrt",
    "beta2": 0.98,
    "epsilon": 1e-9,
    "weight_decay": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe:
    """All tables of a translation recipe."""

    data: ParallelData
    vocabulary: SubwordSettings
    model: StartModel
    task: TranslateSettings
    train: TrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "TranslateRecipe":
        """Check the tables of a recipe; fill in what depends on the model."""
        check_keys(tables, ("data", "vocabulary", "model", "task", "train"), "recipe")
        task = {key: value for key, value in tables.get("task", {}).items() if key != "name"}
        model = _start_model(tables.get("model", {}))
        if model.start is not None and tables.get("vocabulary"):
            raise UserError(f"{model.start} has its own vocabulary; remove the table vocabulary")
        vocabulary = settings_from(SubwordSettings, tables.get("vocabulary", {}), "vocabulary")
        settings = settings_from(TranslateSettings, task, "task")
        train = {
            "learning_rate": _usual_rate(model, vocabulary.size),
            **_OPTIMIZER,
            **tables.get("train", {}),
        }
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["epochs"] = EPOCHS
        # Checkpoints to average must still exist at the end, beside one that a stop left.
        num_needed = settings.average_last + 1 if settings.average_last > 1 else 1
        checked = settings_from(TrainSettings, train, "train")
        return cls(
            data=settings_from(ParallelData, tables.get("data", {}), "data"),
            vocabulary=vocabulary,
            model=model,
            task=settings,
            train=replace(checked, keep=max(checked.keep, num_needed)),
        )

    def config(self, vocab_size: int) -> TransformerConfig | LstmConfig:
        """Return the shape of a fresh model."""
        config = fresh_config(self.model, vocab_size)
        if config.max_length < self.data.max_length:
            raise UserError(
                f"data.max_length={self.data.max_length} exceeds model.max_position_embeddings="
                f"{config.max_length}; raise the one or lower the other"
            )
        return config

    def tables(self) -> Tables:
        """Return every setting of the run, defaults included."""
        tables = {
            "data": asdict(self.data),
            "vocabulary": asdict(self.vocabulary),
            "model": self.model.table(),
            "task": {"name": "translate", **asdict(self.task)},
            "train": asdict(self.train),
        }
        if self.model.start is not None:
            del tables["vocabulary"]
        return plain_tables(tables)

    def completed(self, before: Tables) -> Tables:
        """Return the tables of an older recipe under today's keys, with the settings that it lacks."""
        model = with_current_keys(before.get("model", {}), TRANSLATOR_PRESETS)
        if model.get("start") != self.tables()["model"].get("start"):
            return {**before, "model": model}  # another run; the model that it started from may be gone
        begun = TranslateRecipe.of(before)
        was, now = begun.train.save_every, self.train.save_every
        # Free to change in other runs; here it decides which weights are averaged.
        if self.task.average_last > 1 and was != now:
            raise UserError(
                f"the run folder has another train.save_every ({was}, now {now}), which decides what "
                "task.average_last averages; name another folder with --out"
            )
        return begun.tables()

    def reads(self) -> list[Path]:
        """Return the files and folders that the run reads."""
        named = [self.data.files(name) for name in (self.data.train, self.data.dev) if name is not None]
        start = [] if self.model.start is None else [self.model.start]
        return [*(path for files in named for path in files.paths), *start]

    def prepare(self, out: Path, log: Log) -> SingleRun:
        """Learn the vocabulary, unless there is one, encode the pairs and make the model."""
        if self.data.dev is not None:
            # Reports now, not after hours, that sacrebleu is missing or does not know its rules.
            translation([], [], tokenizer=self.task.bleu_tokenizer)
        files = self.data.files(self.data.train)
        data = _fingerprints(self.data)
        tokenizer = _vocabulary(self, files, out, log)
        trainable = make_trainable(self, files, tokenizer, log)
        is_averaged = self.task.average_last > 1

        def begin(out: Path) -> None:
            with new_folder(out / VOCABULARY, overwrite=True) as folder:
                tokenizer.save(folder)
            if is_averaged:
                forget_stops(out, self.train.save_every)

        return SingleRun(
            trainable=trainable,
            settings=self.train,
            data=data,
            begin=begin,
            finish=partial(_finish, self, trainable),
            has_best=self.data.dev is not None or is_averaged,
            dev=self._dev_data(),
        )

    def _dev_data(self) -> DevData | None:
        """Return how a model is measured on the dev pairs, and what they are called; None without any."""
        name = self.data.dev
        if name is None:
            return None
        files = self.data.files(name)
        return DevData(name, lambda folder: evaluate_model(folder, list(files.pairs()), self.task, data=name))


def _start_model(table: Mapping[str, Any]) -> StartModel:
    table = with_current_keys(table, TRANSLATOR_PRESETS)
    if "start" not in table:
        table.setdefault("preset", DEFAULT_PRESET)
    model = StartModel.of(table, known_fields(table.get("preset")))
    if model.start is not None and not model.start.is_dir():
        raise UserError(
            f"{model.start}: no such folder, and none of the presets {', '.join(TRANSLATOR_PRESETS)}"
        )
    return model


def _finish(recipe: TranslateRecipe, trainable: Translate, session: Session, trained: TrainResult) -> Finish:
    """Average the last checkpoints if the recipe asks for it, and measure the best model."""
    if recipe.task.average_last > 1:
        average_checkpoints(
            trainable,
            session,
            count=recipe.task.average_last,
            save_every=recipe.train.save_every,
            best=trained.best,
        )
    name = recipe.data.dev
    if name is None:
        return Finish({})
    return measure_best(session, list(recipe.data.files(name).pairs()), recipe.task, data=name)


def make_trainable(
    recipe: TranslateRecipe, files: ParallelFiles, tokenizer: SubwordTokenizer, log: Log
) -> Translate:
    """Encode the pairs and make the model that training starts from."""
    settings = recipe.train
    network = _start_network(recipe, len(tokenizer))
    limit = min(recipe.data.max_length, network.config.max_length)
    pairs = encode_pairs(files.pairs(), tokenizer, max_length=limit)
    for line in (*describe_pairs("train", pairs, limit, "left out"), *left_out_lines("train", files.bad)):
        log(line)
    held_out = _held_out(recipe, network, tokenizer, log)
    if held_out is None:
        log("no --dev file: the model's quality will not be measured")
    return Translate(
        network,
        tokenizer,
        TranslateObjective(pairs, batch_tokens=settings.batch_tokens, seed=settings.seed),
        label_smoothing=recipe.task.label_smoothing,
        held_out=held_out,
    )


def _held_out(
    recipe: TranslateRecipe, network: Network, tokenizer: SubwordTokenizer, log: Log
) -> HeldOut | None:
    """Return the pairs that are measured during the run; None without a dev file."""
    if recipe.data.dev is None:
        return None
    files, limit = recipe.data.files(recipe.data.dev), network.config.max_length
    rows = spread(list(files.pairs()), recipe.task.dev_sentences)
    pairs = encode_pairs(rows, tokenizer, max_length=limit)
    fate = "not in the loss; to be translated, long sources are cut"
    for line in (*describe_pairs("dev", pairs, limit, fate), *left_out_lines("dev", files.bad)):
        log(line)
    return HeldOut(
        sources=[row.source for row in rows],
        targets=[row.target for row in rows],
        batches=held_out_batches(pairs, max(recipe.train.micro_tokens, 2 * limit)),
        write=partial(best_targets, beam=recipe.task.dev_beam),
        bleu_tokenizer=recipe.task.bleu_tokenizer,
    )


def _vocabulary(recipe: TranslateRecipe, files: ParallelFiles, out: Path, log: Log) -> SubwordTokenizer:
    """Return the vocabulary of the model to start from, of an earlier session, or a new one."""
    if recipe.model.start is not None:
        return TranslatorFolder.open(recipe.model.start).tokenizer()
    if (out / VOCABULARY).is_dir():
        return SubwordTokenizer.load(out / VOCABULARY)
    learned = learn_subwords((text for pair in files.pairs() for text in pair[:2]), recipe.vocabulary)
    report = learned.report
    log(
        f"vocabulary: {len(learned.tokenizer):,} pieces of {report.num_words:,} words; "
        f"{report.alphabet_size:,} characters, others by bytes {report.num_characters_by_bytes:,} times; "
        f"the rarest piece was made of a pair that occurs {report.last_count:,} times"
    )
    return learned.tokenizer


def _start_network(recipe: TranslateRecipe, vocab_size: int) -> Network:
    if recipe.model.start is not None:
        network = TranslatorFolder.open(recipe.model.start).build()[0]
        preset = TRANSLATOR_PRESETS.get(recipe.model.preset or "")
        sizes = {} if preset is None else {n: v for n, v in fields_of(preset).items() if n in SIZES}
        recipe.model.check_values({**sizes, **recipe.model.fields}, fields_of(network.config))
        return network
    config = recipe.config(vocab_size)
    if isinstance(config, LstmConfig):
        return new_lstm(config, seed=recipe.train.seed)
    return new_transformer(config, seed=recipe.train.seed)


def _usual_rate(model: StartModel, vocab_size: int) -> float:
    """Return the published peak for a fresh model's width, and a low rate for a trained model."""
    if model.start is not None:
        return FINE_TUNING_RATE
    config = fresh_config(model, vocab_size)
    width = config.hidden_size if isinstance(config, LstmConfig) else config.encoder.hidden_size
    return (width * PUBLISHED_WARMUP_STEPS) ** -0.5


def _fingerprints(data: ParallelData) -> dict[str, Any]:
    """Return the names and hashes of the run's data files."""
    named = {"train": data.train, "dev": data.dev}
    paths = {what: data.files(name).paths for what, name in named.items() if name is not None}
    return {
        what: {"files": [path.name for path in of_it], "sha256": [sha256_of(path) for path in of_it]}
        for what, of_it in paths.items()
    }

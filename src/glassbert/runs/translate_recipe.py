"""What a translation run can be told: the tables of its recipe.toml."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_type_hints

from glassbert.config import TRANSLATOR_PRESETS, BertConfig, LstmConfig, TransformerConfig
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.runs.folder import Tables, plain_tables
from glassbert.runs.recipe import check_keys, settings_from, typed_values
from glassbert.text.bpe.learn import SubwordSettings
from glassbert.training.settings import TrainSettings

EPOCHS = 10.0
# The rate rises as published, up to (width x warm-up steps)^-1/2; the published warm-up took so many steps.
PUBLISHED_WARMUP_STEPS = 4000
FINE_TUNING_RATE = 1e-4
_OPTIMIZER: dict[str, Any] = {
    "schedule": "inverse_sqrt",
    "beta2": 0.98,
    "epsilon": 1e-9,
    "weight_decay": 0.0,
}

PRESETS = tuple(TRANSLATOR_PRESETS)
DEFAULT_PRESET = "transformer-small"


@dataclass(frozen=True, kw_only=True)
class ParallelData:
    """The `[data]` table."""

    train: str
    """File of sentence pairs to learn from: TSV or JSONL; or two aligned files, FILE,FILE."""
    dev: str | None = None
    """The same, of pairs to measure on."""
    source_key: str = "source"
    """Key of the source in JSONL."""
    target_key: str = "target"
    """Key of the target in JSONL."""
    skip_bad: int = 0
    """Rows of a file that may be left out since a side is empty or missing."""
    max_length: int = 128
    """Tokens of the longest side, its end included; longer pairs are not trained on, and counted."""

    def files(self, name: str) -> ParallelFiles:
        """Return the files that ``name``, as a user writes it, stands for."""
        return ParallelFiles.of(
            name, source_key=self.source_key, target_key=self.target_key, skip_bad=self.skip_bad
        )


@dataclass(frozen=True, kw_only=True)
class TranslateSettings:
    """The `[task]` table."""

    label_smoothing: float = 0.1
    """Probability that is taken from the right piece and spread over all pieces."""
    average_last: int = 1
    """Average the weights of so many last checkpoints; it becomes the model if it is better on dev."""
    dev_beam: int = 1
    """Beam of the translations that are measured during the run; 1 is greedy."""
    dev_sentences: int | None = None
    """How many dev pairs, from all over the file, are measured during the run; all when not given."""
    final_beam: int = 4
    """Beam of the translations that the finished model is measured by, on all dev pairs."""
    bleu_tokenizer: str | None = None
    """How sacrebleu cuts text into words; zh for Chinese, 13a otherwise, when not given."""

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise UserError(
                f"task.label_smoothing={self.label_smoothing}; expected from 0 up to, but not including, 1"
            )
        for name in ("average_last", "dev_beam", "dev_sentences", "final_beam"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"task.{name}={value}; expected at least 1")


@dataclass(frozen=True, kw_only=True)
class TranslateRecipe:
    """All tables of a translation recipe."""

    data: ParallelData
    vocabulary: SubwordSettings
    model: Mapping[str, Any]
    """`folder`: a preset, or a translator to go on with; and fields of the preset's config to change."""
    task: TranslateSettings
    train: TrainSettings

    @classmethod
    def of(cls, tables: Mapping[str, Mapping[str, Any]]) -> "TranslateRecipe":
        """Check the tables of a recipe."""
        check_keys(tables, ("data", "vocabulary", "model", "task", "train"), "recipe")
        task = {key: value for key, value in tables.get("task", {}).items() if key != "name"}
        model = {"folder": DEFAULT_PRESET, **tables.get("model", {})}
        if model["folder"] not in PRESETS:
            folder = model_folder(model["folder"])
            if not folder.is_dir():
                known = ", ".join(PRESETS)
                raise UserError(f"{folder}: no such folder, and none of the presets {known}")
            model["folder"] = str(folder)
            if tables.get("vocabulary"):
                raise UserError(
                    f"{model['folder']} brings its own vocabulary; leave the table vocabulary out"
                )
        data = settings_from(ParallelData, tables.get("data", {}), "data")
        vocabulary = settings_from(SubwordSettings, tables.get("vocabulary", {}), "vocabulary")
        settings = settings_from(TranslateSettings, task, "task")
        train = {
            "learning_rate": _usual_rate(model, vocabulary.size),
            **_OPTIMIZER,
            **tables.get("train", {}),
        }
        if not any(key in train for key in ("steps", "epochs", "minutes")):
            train["epochs"] = EPOCHS
        # What is to be averaged must still be there at the end, beside a checkpoint that a stop has left.
        num_needed = settings.average_last + 1 if settings.average_last > 1 else 1
        checked = settings_from(TrainSettings, train, "train")
        return cls(
            data=data,
            vocabulary=vocabulary,
            model=model,
            task=settings,
            train=replace(checked, keep=max(checked.keep, num_needed)),
        )

    @property
    def start_folder(self) -> Path | None:
        """The translator to go on with; None for a fresh model."""
        return None if self.model["folder"] in PRESETS else Path(self.model["folder"])

    def config(self, vocab_size: int) -> TransformerConfig | LstmConfig:
        """Return the shape of a fresh model."""
        config = _config_of(self.model, vocab_size)
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
            "model": self.model,
            "task": {"name": "translate", **asdict(self.task)},
            "train": asdict(self.train),
        }
        if self.start_folder is not None:
            del tables["vocabulary"]
        return plain_tables(tables)


def _usual_rate(model: Mapping[str, Any], vocab_size: int) -> float:
    """Return the published peak for a fresh model's width, and little for a model that has learnt."""
    if model["folder"] not in PRESETS:
        return FINE_TUNING_RATE
    config = _config_of(model, vocab_size)
    width = config.hidden_size if isinstance(config, LstmConfig) else config.encoder.hidden_size
    return (width * PUBLISHED_WARMUP_STEPS) ** -0.5


def _config_of(model: Mapping[str, Any], vocab_size: int) -> TransformerConfig | LstmConfig:
    start = TRANSLATOR_PRESETS[model["folder"]]
    changes = {key: value for key, value in model.items() if key != "folder"}
    if isinstance(start, LstmConfig):
        return _changed_lstm(start, changes, vocab_size)
    return _changed_transformer(start, changes, vocab_size)


def _changed_transformer(
    start: TransformerConfig, changes: dict[str, Any], vocab_size: int
) -> TransformerConfig:
    hints = {"num_decoder_layers": int, **get_type_hints(BertConfig)}
    own_names = ("vocab_size", "type_vocab_size")
    check_keys(changes, ("folder", *(name for name in hints if name not in own_names)), "model")
    changes = typed_values(changes, hints, "model")
    own: dict[str, Any] = {
        "vocab_size": vocab_size,
        "intermediate_size": 4 * changes.get("hidden_size", start.encoder.hidden_size),
    }
    # Who changes the depth of one side alone means both.
    depth = changes.get("num_hidden_layers", start.num_decoder_layers)
    num_decoder_layers = changes.pop("num_decoder_layers", depth)
    shape = replace(start.encoder, **own | changes)
    return replace(start, encoder=shape, num_decoder_layers=num_decoder_layers)


def _changed_lstm(start: LstmConfig, changes: dict[str, Any], vocab_size: int) -> LstmConfig:
    hints = get_type_hints(LstmConfig)
    names = [name for name in hints if not name.endswith(("_token_id", "vocab_size"))]
    check_keys(changes, ("folder", *names), "model")
    return replace(start, vocab_size=vocab_size, **typed_values(changes, hints, "model"))

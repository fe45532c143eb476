"""The tables of a translation recipe that other runs do not have, and the shape of a fresh translator."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeVar

from glassbert.config import TRANSLATOR_PRESETS, BertConfig, Depth, LstmConfig, TransformerConfig
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import UserError
from glassbert.ranges import Beam, Count, CountOrNone, Length, Range, ShareBelowOne
from glassbert.runs.start import StartModel
from glassbert.typed import check_fields, hints_of

DEFAULT_PRESET = "transformer-small"
Row = TypeVar("Row")

# Without the sizes that the vocabulary decides.
TRANSFORMER_FIELDS: Mapping[str, Any] = {
    "num_decoder_layers": Depth,
    **{name: hint for name, hint in hints_of(BertConfig).items() if not name.endswith("vocab_size")},
}
LSTM_FIELDS: Mapping[str, Any] = {
    name: hint
    for name, hint in hints_of(LstmConfig).items()
    if not name.endswith(("vocab_size", "_token_id"))
}


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
    skip_bad: CountOrNone = 0
    """Rows of a file that may be left out because a side is empty or missing."""
    max_length: Length = 128
    """Tokens of the longest side, its end included; longer pairs are not trained on, and counted."""

    def __post_init__(self) -> None:
        check_fields(self, "data")

    def files(self, name: str) -> ParallelFiles:
        """Return the files that a user means by ``name``."""
        return ParallelFiles.of(
            name, source_key=self.source_key, target_key=self.target_key, skip_bad=self.skip_bad
        )


@dataclass(frozen=True, kw_only=True)
class TranslateSettings:
    """The `[task]` table."""

    label_smoothing: ShareBelowOne = 0.1
    """Probability that is taken from the right piece and spread over all pieces."""
    average_last: Annotated[int, Range(1, 1000)] = 1
    """Average the weights of this many last checkpoints; if better on dev, the average is the model."""
    dev_beam: Beam = 1
    """Beam of the translations that are measured during the run; 1 is greedy."""
    dev_sentences: Count | None = None
    """Number of dev pairs, from all over the file, to measure on during the run; all if not set."""
    final_beam: Beam = 4
    """Beam of the translations that the finished model is measured by, on all dev pairs."""
    bleu_tokenizer: str | None = None
    """How sacrebleu splits text into words; if not set, zh for Chinese and 13a otherwise."""

    def __post_init__(self) -> None:
        check_fields(self, "task")


def known_fields(preset: str | None) -> Mapping[str, Any]:
    """Return what `[model]` may set, with types: for a preset, or for any translator to start from."""
    if preset is None:
        return {**LSTM_FIELDS, **TRANSFORMER_FIELDS}
    return LSTM_FIELDS if isinstance(TRANSLATOR_PRESETS.get(preset), LstmConfig) else TRANSFORMER_FIELDS


def fresh_config(model: StartModel, vocab_size: int) -> TransformerConfig | LstmConfig:
    """Return the shape of a fresh model."""
    name = model.preset or DEFAULT_PRESET
    if name not in TRANSLATOR_PRESETS:
        raise UserError(f"model.preset={name!r}; expected one of {', '.join(TRANSLATOR_PRESETS)}")
    preset, fields = TRANSLATOR_PRESETS[name], dict(model.fields)
    if isinstance(preset, LstmConfig):
        return replace(preset, vocab_size=vocab_size, **fields)
    inner = 4 * fields.get("hidden_size", preset.encoder.hidden_size)
    # A depth that is set for one side alone is meant for both.
    depth = fields.get("num_hidden_layers", preset.num_decoder_layers)
    num_decoder_layers = fields.pop("num_decoder_layers", depth)
    shape = replace(preset.encoder, **{"vocab_size": vocab_size, "intermediate_size": inner, **fields})
    return replace(preset, encoder=shape, num_decoder_layers=num_decoder_layers)


def fields_of(config: TransformerConfig | LstmConfig) -> dict[str, Any]:
    """Return a translator's config as `[model]` has it: all fields in one table."""
    own = vars(config)
    return own if isinstance(config, LstmConfig) else {**vars(config.encoder), **own}


def spread(rows: list[Row], count: int | None) -> list[Row]:
    """Return ``count`` rows from all over a file, which may be sorted by length; all of them if None."""
    if count is None or count >= len(rows):
        return rows
    return [rows[index * len(rows) // count] for index in range(count)]

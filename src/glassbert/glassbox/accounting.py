"""Where every parameter sits: the table of a preset, of a config.json or of a model folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from glassbert.config import (
    PRESETS,
    TRANSLATOR_PRESETS,
    BertConfig,
    Head,
    LstmConfig,
    ModelConfig,
    TransformerConfig,
    preset,
)
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.accounting_notes import Findings, Language, write_notes
from glassbert.glassbox.bert_table import TOPS, BertTable
from glassbert.glassbox.cost import Cost, WeightMemory, cost, default_lengths, weight_memory
from glassbert.glassbox.parameter_table import Group, Row
from glassbert.glassbox.translator_table import LstmTable, TransformerTable
from glassbert.glassbox.verify import StoredTensors, close, read_stored, without_tied_decoder
from glassbert.interop.config_json import read_config
from glassbert.interop.translator_config import is_encoder_decoder, read_translator_config
from glassbert.model_names import model_folder
from glassbert.storage import read_json

__all__ = ["Accounting", "Group", "Row", "params"]

AnyTable = BertTable | TransformerTable | LstmTable
_TOPS_OF_HEAD: dict[Head, tuple[str, ...]] = {
    "none": (),
    "pretraining": ("mlm", "nsp"),
    "mlm": ("mlm",),
    "nsp": ("nsp",),
    "classify": ("labels",),
    "tag": ("labels",),
    "answer": ("span",),
}


@dataclass(frozen=True)
class Accounting:
    """A table of parameters that closes to its total."""

    source: str
    config: BertConfig | TransformerConfig | LstmConfig
    total: int
    """Parameters of all `groups`."""
    includes: tuple[str, ...]
    """What the total counts."""
    groups: tuple[Group, ...]
    uncounted: tuple[Group, ...]
    """Pooler, MLM and NSP heads where the total does not count them."""
    totals: Mapping[str, int]
    """Each published way to count an encoder of this shape; nothing for a translator."""
    symbols: Mapping[str, int]
    """The letters of the formulas."""
    notes: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Group, ...]:
        """The groups that are blocks, or layers of an LSTM."""
        return tuple(group for group in self.groups if group.stack)

    @property
    def memory(self) -> WeightMemory:
        """Return the bytes of the parameters that the total counts, and of their training."""
        return weight_memory(self.total)

    @property
    def usual_lengths(self) -> tuple[int, ...]:
        """Return the lengths whose cost is shown: none for a translator, which has two at a time."""
        return default_lengths(self.config) if isinstance(self.config, BertConfig) else ()

    def cost(self, length: int) -> Cost:
        """Return operations and activation memory for sequences of ``length`` tokens."""
        if not isinstance(self.config, BertConfig):
            raise UserError(f"length={length}, but the cost of a translator is not given; leave it out")
        return cost(self.config, length)


def params(source: str | Path, *, language: Language = "en") -> Accounting:
    """Count every parameter, layer by layer.

    Args:
        source: A preset (`bert-base` or `base`, `transformer-base`), the path of a config.json, or a model
            folder, whose table is closed against the tensors in its weight file. A path that exists wins over
            a preset.
        language: Of the notes.
    """
    path = model_folder(source)
    if path.is_dir():
        return _of_folder(path, language)
    if path.is_file():
        return _of_config_file(path, language)
    if isinstance(source, Path) or "/" in source or "\\" in source or path.suffix == ".json":
        raise ModelError(f"no file or folder {source}; expected a config.json or a model folder")
    if source in TRANSLATOR_PRESETS:
        return _account(source, _translator_table(TRANSLATOR_PRESETS[source]), language, is_preset=True)
    if source.removeprefix("bert-") not in {name.removeprefix("bert-") for name in PRESETS}:
        names = ", ".join((*PRESETS, *TRANSLATOR_PRESETS))
        raise UserError(f"no preset and no path {source!r}; expected a path or one of {names}")
    return _account(source, BertTable(preset(source)), language, is_preset=True)


def _of_config_file(path: Path, language: Language) -> Accounting:
    data = read_json(path)
    if is_encoder_decoder(data):
        return _account(str(path), _translator_table(read_translator_config(data, str(path))), language)
    config = read_config(data, str(path))
    # Without these a file tells the shape of an encoder, as a preset does, and not what sits on it.
    is_whole_model = bool(data.get("architectures")) or "has_pooler" in data
    table = BertTable(config.encoder, _tops(config) if is_whole_model else (), len(config.labels))
    return _account(str(path), table, language)


def _of_folder(folder: Path, language: Language) -> Accounting:
    data, config_path, stored = read_stored(folder)
    if is_encoder_decoder(data):
        table: AnyTable = _translator_table(read_translator_config(data, str(config_path)))
        spare: tuple[str, ...] = ()
    else:
        table, stored, spare = _bert_of_folder(folder, data, config_path, stored)
    close(stored, table.shapes, folder)
    return _account(str(folder), table, language, stored, spare)


def _bert_of_folder(
    folder: Path, data: Mapping[str, Any], config_path: Path, stored: StoredTensors
) -> tuple[BertTable, StoredTensors, tuple[str, ...]]:
    """Return the table of a BERT, its tensors, and what of them its architecture does not use."""
    config = read_config(data, str(config_path), stored.file_names)
    encoder = config.encoder
    if encoder.tie_word_embeddings:
        stored = without_tied_decoder(stored, folder, (encoder.vocab_size, encoder.hidden_size))
    # Files often hold more than their architecture uses, such as the pooler of a `BertForMaskedLM`.
    spare = tuple(top for top in TOPS if top in stored.parts and top not in _tops(config))
    num_labels = len(config.labels) or stored.shapes.get("labels.dense.bias", (0,))[0]
    return BertTable(encoder, (*_tops(config), *spare), num_labels), stored, spare


def _translator_table(config: TransformerConfig | LstmConfig) -> TransformerTable | LstmTable:
    return LstmTable(config) if isinstance(config, LstmConfig) else TransformerTable(config)


def _tops(config: ModelConfig) -> tuple[str, ...]:
    return ("pooler",) * config.has_pooler + _TOPS_OF_HEAD[config.head]


def _account(
    source: str,
    table: AnyTable,
    language: Language,
    stored: StoredTensors | None = None,
    spare: tuple[str, ...] = (),
    *,
    is_preset: bool = False,
) -> Accounting:
    """Add up ``table`` and say what is in it."""
    groups = table.groups
    total = sum(group.count for group in groups)
    return Accounting(
        source=source,
        config=table.config,
        total=total,
        includes=table.includes,
        groups=tuple(_with_shares(group, total) for group in groups),
        uncounted=table.uncounted,
        totals=table.totals,
        symbols=table.symbols,
        notes=write_notes(
            language,
            Findings(
                config=table.config,
                total=total,
                includes=table.includes,
                excludes={group.name: group.count for group in table.uncounted},
                stored=stored,
                spare=spare,
                is_preset=is_preset,
            ),
        ),
    )


def _with_shares(group: Group, total: int) -> Group:
    return replace(group, rows=tuple(replace(row, share=row.count / total) for row in group.rows))

"""Where every parameter is: the table of a preset, of a config.json or of a model folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from glassbert.arguments import checked
from glassbert.config import (
    PRESETS,
    TRANSLATOR_PRESETS,
    BertConfig,
    LstmConfig,
    ModelConfig,
    TransformerConfig,
    preset,
)
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.accounting_notes import Findings, write_notes
from glassbert.glassbox.bert_table import BertTable
from glassbert.glassbox.cost import Cost, WeightMemory, cost, default_lengths, weight_memory
from glassbert.glassbox.parameter_table import Group, Row
from glassbert.glassbox.translator_table import LstmTable, TransformerTable
from glassbert.glassbox.verify import StoredShapes, read_stored_shapes, verify
from glassbert.heads import Part
from glassbert.interop.config_keys import QUANTISATION
from glassbert.interop.families import family_of
from glassbert.model_names import model_folder
from glassbert.sentence import Language
from glassbert.storage import read_json

__all__ = ["Accounting", "Group", "Row", "params"]

AnyTable = BertTable | TransformerTable | LstmTable


@dataclass(frozen=True)
class Accounting:
    """A table of parameters whose rows add up to its total."""

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
        """Return the bytes of the counted parameters, and what training adds."""
        return weight_memory(self.total)

    @property
    def usual_lengths(self) -> tuple[int, ...]:
        """Return the lengths whose cost is shown: none for a translator, which has two at a time."""
        return default_lengths(self.config) if isinstance(self.config, BertConfig) else ()

    def cost(self, length: int) -> Cost:
        """Return operations and activation memory for sequences of ``length`` tokens."""
        if not isinstance(self.config, BertConfig):
            raise UserError(f"length={length}, but costs of translators are not computed; leave it out")
        return cost(self.config, length)


@checked
def params(source: str | Path, *, language: Language = "en") -> Accounting:
    """Count every parameter, layer by layer.

    Args:
        source: A preset (`bert-base` or `base`, `transformer-base`), the path of a config.json, or a model
            folder, whose table is verified against the tensors in its weight file. A path that exists wins
            over a preset.
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
        return _account(source, _table(TRANSLATOR_PRESETS[source]), language, is_preset=True)
    if source.removeprefix("bert-") not in {name.removeprefix("bert-") for name in PRESETS}:
        names = ", ".join((*PRESETS, *TRANSLATOR_PRESETS))
        raise UserError(f"no preset and no path {source!r}; expected a path or one of {names}")
    return _account(source, BertTable(preset(source)), language, is_preset=True)


def params_of_shape(shape: BertConfig, *, language: Language = "en") -> Accounting:
    """Count the parameters of an encoder that need not exist."""
    return _account("", BertTable(shape), language, is_preset=True)


def _of_config_file(path: Path, language: Language) -> Accounting:
    data = read_json(path)
    data.pop(QUANTISATION, None)  # says how weights are stored, not how many there are
    config, notes = family_of(data).read_config(data, str(path))
    # Without these a file describes an encoder, as a preset does, and not what sits on it.
    is_whole_model = bool(data.get("architectures")) or "has_pooler" in data
    if isinstance(config, ModelConfig) and not is_whole_model:
        return _account(str(path), BertTable(config.encoder), language, remarks=notes)
    return _account(str(path), _table(config), language, remarks=notes)


def _of_folder(folder: Path, language: Language) -> Accounting:
    from glassbert.interop.folder import ModelFolder  # imports torch

    found = ModelFolder.open(folder)
    stored, config = read_stored_shapes(found), found.config
    table = _table(config)
    spare: tuple[Part, ...] = ()
    if isinstance(config, ModelConfig):
        shape = config.encoder
        if shape.tie_word_embeddings:
            stored = stored.without("mlm.decoder.weight", (shape.vocab_size, shape.hidden_size))
        # Files often hold more than their architecture uses, such as the pooler of a `BertForMaskedLM`.
        spare = tuple(part for part in stored.parts if part not in config.parts)
        num_labels = len(config.labels) or stored.shapes.get("labels.dense.bias", (0,))[0]
        table = BertTable(shape, (*config.parts, *spare), num_labels)
    verify(stored, table.shapes)
    return _account(str(folder), table, language, stored, spare, remarks=stored.remarks)


def _table(config: ModelConfig | TransformerConfig | LstmConfig) -> AnyTable:
    if isinstance(config, ModelConfig):
        return BertTable(config.encoder, config.parts, len(config.labels))
    return LstmTable(config) if isinstance(config, LstmConfig) else TransformerTable(config)


def _account(
    source: str,
    table: AnyTable,
    language: Language,
    stored: StoredShapes | None = None,
    spare: tuple[Part, ...] = (),
    *,
    remarks: tuple[str, ...] = (),
    is_preset: bool = False,
) -> Accounting:
    """Add up ``table`` and write its notes."""
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
                remarks=remarks,
                is_preset=is_preset,
            ),
        ),
    )


def _with_shares(group: Group, total: int) -> Group:
    return replace(group, rows=tuple(replace(row, share=row.count / total) for row in group.rows))

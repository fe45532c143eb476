"""Where every parameter sits: the table of a preset, of a config.json or of a model folder."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from glassbert.config import PRESETS, BertConfig, Head, ModelConfig, preset
from glassbert.errors import ModelError, UserError
from glassbert.glassbox.accounting_notes import Findings, Language, write_notes
from glassbert.glassbox.closing import StoredTensors, close, read_stored, without_tied_decoder
from glassbert.glassbox.cost import Cost, WeightMemory, cost, weight_memory
from glassbert.glassbox.parameter_table import TOPS, Group, Row, Table
from glassbert.interop.config_json import read_config
from glassbert.model_names import model_folder
from glassbert.storage import read_json

__all__ = ["Accounting", "Group", "Row", "params"]

_TOPS_OF_HEAD: dict[Head, tuple[str, ...]] = {
    "none": (),
    "pretraining": ("mlm", "nsp"),
    "mlm": ("mlm",),
    "nsp": ("nsp",),
    "classify": ("labels",),
    "tag": ("labels",),
    "answer": ("span",),
}
# Each published way to count, with what it has on the encoder.
_PUBLISHED: dict[str, tuple[str, ...]] = {
    "encoder": (),
    "with pooler": ("pooler",),
    "with pooler, MLM and NSP heads": ("pooler", "mlm", "nsp"),
}
_PUBLISHED_TOPS = frozenset(top for added in _PUBLISHED.values() for top in added)


@dataclass(frozen=True)
class Accounting:
    """A table of parameters that closes to its total."""

    source: str
    config: BertConfig
    total: int
    """Parameters of all `groups`."""
    includes: tuple[str, ...]
    """What the total counts."""
    groups: tuple[Group, ...]
    uncounted: tuple[Group, ...]
    """Pooler, MLM and NSP heads where the total does not count them."""
    totals: Mapping[str, int]
    """Each published way to count an encoder of this shape."""
    symbols: Mapping[str, int]
    """The letters of the formulas."""
    notes: tuple[str, ...]

    @property
    def blocks(self) -> tuple[Group, ...]:
        """The groups that are blocks."""
        return tuple(group for group in self.groups if group.name.startswith("block "))

    @property
    def memory(self) -> WeightMemory:
        """Return the bytes of the parameters that the total counts, and of their training."""
        return weight_memory(self.total)

    def cost(self, length: int) -> Cost:
        """Return operations and activation memory for sequences of ``length`` tokens."""
        return cost(self.config, length)


def params(source: str | Path, *, language: Language = "en") -> Accounting:
    """Count every parameter, layer by layer.

    Args:
        source: A preset (`bert-base` or `base`), the path of a config.json, or a model folder, whose table is
            closed against the tensors in its weight file. A path that exists wins over a preset.
        language: Of the notes.
    """
    path = model_folder(source)
    if path.is_dir():
        return _of_folder(path, language)
    if path.is_file():
        return _of_config_file(path, language)
    if isinstance(source, Path) or "/" in source or "\\" in source or path.suffix == ".json":
        raise ModelError(f"no file or folder {source}; expected a config.json or a model folder")
    if source.removeprefix("bert-") not in {name.removeprefix("bert-") for name in PRESETS}:
        raise UserError(f"no preset and no path {source!r}; expected a path or one of {', '.join(PRESETS)}")
    return _account(source, Table(preset(source)), language)


def _of_config_file(path: Path, language: Language) -> Accounting:
    data = read_json(path)
    config = read_config(data, str(path))
    # Without these a file tells the shape of an encoder, as a preset does, and not what sits on it.
    is_whole_model = bool(data.get("architectures")) or "has_pooler" in data
    table = Table(config.encoder, _tops(config) if is_whole_model else (), len(config.labels))
    return _account(str(path), table, language)


def _of_folder(folder: Path, language: Language) -> Accounting:
    data, config_path, stored = read_stored(folder)
    config = read_config(data, str(config_path), stored.file_names)
    encoder = config.encoder
    if encoder.tie_word_embeddings:
        stored = without_tied_decoder(stored, folder, (encoder.vocab_size, encoder.hidden_size))
    # Files often hold more than their architecture uses, such as the pooler of a `BertForMaskedLM`.
    spare = tuple(top for top in TOPS if top in stored.parts and top not in _tops(config))
    num_labels = len(config.labels) or stored.shapes.get("labels.dense.bias", (0,))[0]
    table = Table(encoder, (*_tops(config), *spare), num_labels)
    close(stored, table.shapes, folder)
    return _account(str(folder), table, language, stored, spare)


def _tops(config: ModelConfig) -> tuple[str, ...]:
    return ("pooler",) * config.has_pooler + _TOPS_OF_HEAD[config.head]


def _account(
    source: str,
    table: Table,
    language: Language,
    stored: StoredTensors | None = None,
    spare: tuple[str, ...] = (),
) -> Accounting:
    """Add up ``table`` and say what is in it."""
    groups = table.groups
    total = sum(group.count for group in groups)
    tops = {top: table.top(top) for top in TOPS if top in table.tops or top in _PUBLISHED_TOPS}
    uncounted = tuple(group for top, group in tops.items() if top not in table.tops)
    encoder = total - sum(tops[top].count for top in table.tops)
    includes = ("embeddings", "encoder", *(top for top in tops if top in table.tops))
    return Accounting(
        source=source,
        config=table.config,
        total=total,
        includes=includes,
        groups=tuple(_with_shares(group, total) for group in groups),
        uncounted=uncounted,
        totals={name: encoder + sum(tops[top].count for top in added) for name, added in _PUBLISHED.items()},
        symbols=table.symbols,
        notes=write_notes(
            language,
            Findings(
                config=table.config,
                total=total,
                includes=includes,
                excludes={group.name: group.count for group in uncounted},
                stored=stored,
                spare=spare,
            ),
        ),
    )


def _with_shares(group: Group, total: int) -> Group:
    return replace(group, rows=tuple(replace(row, share=row.count / total) for row in group.rows))

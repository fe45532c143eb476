"""The `[model]` table, the same for every kind of run: what training starts from."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassbert.config import PRESETS, BertConfig, preset
from glassbert.errors import UserError
from glassbert.interop.folder import EncoderFolder
from glassbert.model_names import model_folder
from glassbert.typed import check_keys, typed_values

BERT_PRESETS = frozenset(PRESETS) | {name.removeprefix("bert-") for name in PRESETS}
OLD_KEYS = {
    "folder": "start",
    "init_from": "start",
    "hidden_dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
}
"""Keys of older recipes, with those of today."""
# What a preset says about a shape.
SIZES = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")
# What can be changed in a model that is trained already: it has no weights.
_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@dataclass(frozen=True, kw_only=True)
class StartModel:
    """A preset with fresh weights, or a model to start from, and fields of its config."""

    preset: str | None = None
    """Size of a fresh model; beside ``start``, the size that the model must have."""
    start: Path | None = None
    """Folder of the model to start from."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the config: of a fresh model, they set its shape. A model to start from takes the dropout
    and must agree with the rest."""

    @classmethod
    def of(
        cls, table: Mapping[str, Any], known: Mapping[str, Any], presets: Collection[str] = ()
    ) -> "StartModel":
        """Check the table.

        Args:
            known: The fields that may be set, with their types.
            presets: Names that the older key ``folder`` may hold instead of a folder.
        """
        table = with_current_keys(table, presets)
        check_keys(table, ("preset", "start", *known), "model")
        values = typed_values(table, {"preset": str, "start": Path, **known}, "model")
        start = values.pop("start", None)
        return cls(
            preset=values.pop("preset", None),
            start=None if start is None else model_folder(start),
            fields=values,
        )

    def table(self) -> dict[str, Any]:
        """Return the table; what is not set is None."""
        return {"preset": self.preset, "start": self.start, **self.fields}

    def folder(self) -> EncoderFolder:
        """Open the BERT to start from."""
        assert self.start is not None
        return EncoderFolder.open(self.start)

    @property
    def dropout(self) -> dict[str, Any]:
        """The dropout that the recipe asks for, by fields of the config."""
        return {name: value for name, value in self.fields.items() if name in _DROPOUT}

    def check_same(self, found: BertConfig) -> None:
        """Refuse a BERT to start from that differs from what the recipe says about it."""
        sizes = {} if self.preset is None else {name: getattr(preset(self.preset), name) for name in SIZES}
        self.check_values({**sizes, **self.fields}, vars(found))

    def check_values(self, wanted: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Refuse a model to start from if a value of its config is not the one wanted."""
        for name, value in wanted.items():
            if name in found and found[name] != value:
                raise UserError(
                    f"model.{name} is {value} in the recipe and {found[name]} in model.start={self.start}; "
                    "start from another model, or change the recipe"
                )


def with_current_keys(table: Mapping[str, Any], presets: Collection[str] = ()) -> dict[str, Any]:
    """Return a `[model]` table with today's keys; ``folder`` could also hold a preset."""
    current = {OLD_KEYS.get(key, key): value for key, value in table.items()}
    if current.get("start") in presets and current["start"] == table.get("folder"):
        current["preset"] = current.pop("start")
    return current


def with_model(table: Mapping[str, Any], name: str | Path, presets: Collection[str] = ()) -> dict[str, Any]:
    """Return a `[model]` table that starts from what a user calls ``name``: a preset, or a model."""
    kept = {key: value for key, value in table.items() if OLD_KEYS.get(key, key) not in ("preset", "start")}
    return {"preset" if str(name) in presets else "start": str(name), **kept}

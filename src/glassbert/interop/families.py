"""Which families of model folders there are. To add one, write its file and add it here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError
from glassbert.interop.bert import BertFamily
from glassbert.interop.family import Config, Family
from glassbert.interop.marian import MarianFamily
from glassbert.interop.own import OwnFamily
from glassbert.model_names import model_folder
from glassbert.storage import read_json

BERT = BertFamily()
MARIAN = MarianFamily()
OWN = OwnFamily()
FAMILIES: tuple[Family[Any], ...] = (MARIAN, OWN, BERT)
"""In the order in which they are tried: a form that `transformers` reads before our own, BERT last."""


def family_of(data: Mapping[str, Any]) -> Family[Any]:
    """Return the family of a folder by the content of its config.json."""
    return next(family for family in FAMILIES if family.describes(data))


def family_for(config: Config) -> Family[Any]:
    """Return the family that a network of this config is written as."""
    return next(family for family in FAMILIES if family.holds(config))


def check_kind(family: Family[Any], name: str | Path, *, is_translator: bool) -> None:
    """Refuse a translator where an encoder is needed, and the reverse.

    Args:
        name: What the user calls the model.
    """
    if family.is_translator and not is_translator:
        raise ModelError(f"{name} is a translator; use `glassbert translate {name}`")
    if is_translator and not family.is_translator:
        raise ModelError(
            f"{name} is {family.name}, not a translator; train one with `glassbert train translate`"
        )


def encoder_folder(name: str | Path) -> Path:
    """Return the folder that ``name`` means, where it may hold anything but a translator.

    It needs no weights and no config.json: a vocabulary is enough for verbs that only tokenise.
    """
    folder = model_folder(name)
    if (folder / "config.json").is_file():
        check_kind(family_of(read_json(folder / "config.json")), name, is_translator=False)
    return folder

"""The lab on the page: what can be run, with which settings, and results with their plots drawn."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, get_args

from glassbert.glassbox.lab.catalogue import CATALOGUE
from glassbert.glassbox.lab.experiment import find, lab
from glassbert.glassbox.lab.page import drawn
from glassbert.page import scripts
from glassbert.sentence import Language

MODEL = "model"
LANGUAGES: tuple[Language, ...] = get_args(Language)


def experiments() -> list[dict[str, Any]]:
    """Return the experiments with their settings, in the order of the list."""
    return [
        {
            "name": name,
            "question": vars(entry.question),
            "theory": vars(find(name).theory),
            "settings": _settings(find(name).settings),
        }
        for name, entry in CATALOGUE.items()
    ]


def run_experiment(name: str, settings: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Run the small form of an experiment; its plots come as SVG in both languages.

    Args:
        model: What experiments on a real model look into: no other folder can be asked for.
    """
    chosen = {key: value for key, value in settings.items() if key != MODEL}
    if any(field.name == MODEL for field in fields(find(name).settings)):
        chosen[MODEL] = model
    result = lab(name, **chosen)
    drawings = {
        language: [drawn(plot, index, language) for index, plot in enumerate(result.plots)]
        for language in LANGUAGES
    }
    return {**result.to_json(), "drawings": drawings, "python": scripts.of_experiment(name, chosen)}


def _settings(kind: type[Any]) -> list[dict[str, Any]]:
    return [
        {"name": field.name, "default": None if field.default is MISSING else field.default}
        for field in fields(kind)
        if field.name != MODEL
    ]

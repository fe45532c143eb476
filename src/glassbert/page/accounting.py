"""The table of parameters for the page: of the model itself, or of a preset, with fields changed."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassbert.config import PRESETS, TRANSLATOR_PRESETS, BertConfig
from glassbert.errors import UserError
from glassbert.glassbox.accounting import Accounting, params, params_of_shape
from glassbert.glassbox.accounting_json import accounting_json
from glassbert.page import scripts
from glassbert.sentence import Language, Sentence

CHANGEABLE = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size", "vocab_size")
"""Fields of the shape that the page has sliders for."""


def accounting_for_page(
    source: str | Path, changes: Mapping[str, int], length: int | None, language: Language
) -> dict[str, Any]:
    """Return what the page shows of a model's or preset's parameters.

    Args:
        changes: Values of `CHANGEABLE` fields.
        length: Tokens of a text; the usual lengths without it.
    """
    found = params(source, language=language)
    if changes:
        found = _changed(found, changes, language)
    lengths = (length,) if length else found.usual_lengths
    costs = [found.cost(one) for one in lengths]
    shape = {name: getattr(found.config, name) for name in CHANGEABLE if hasattr(found.config, name)}
    return {
        **accounting_json(found, costs),
        "shape": {**shape, "length": lengths[0] if lengths else None},
        "presets": [*PRESETS, *TRANSLATOR_PRESETS],
        "python": scripts.of_accounting(str(source), changes, lengths),
    }


def _changed(found: Accounting, changes: Mapping[str, int], language: Language) -> Accounting:
    if not isinstance(found.config, BertConfig):
        raise UserError(Sentence("only the shape of a BERT can be changed here; choose one of its presets"))
    shape = replace(found.config, **changes)  # type: ignore[arg-type]
    return params_of_shape(shape, language=language)

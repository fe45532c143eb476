"""Objectives by name."""

from collections.abc import Mapping
from typing import Any

from glassbert.arguments import checked
from glassbert.config import ModelConfig
from glassbert.errors import ModelError, UserError
from glassbert.tasks.objectives.left_out import LeftOutTokens
from glassbert.tasks.objectives.masked import MaskedLanguage
from glassbert.tasks.objectives.next_token import MaskedOrNextTokens
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.pair_order import NextSentence, SentenceOrder
from glassbert.tasks.objectives.parts import ObjectiveSettings
from glassbert.tasks.objectives.replaced import ReplacedTokens
from glassbert.text.vocabulary import Vocabulary
from glassbert.typed import settings_from, typed

OBJECTIVES: dict[str, type[Objective]] = {
    "mlm": MaskedLanguage,
    "mlm+nsp": NextSentence,
    "sop": SentenceOrder,
    "rtd": ReplacedTokens,
    "mae": LeftOutTokens,
    "mlm+causal": MaskedOrNextTokens,
}
"""`register_objective` adds to it."""


@checked
def register_objective(name: str, objective: type[Objective]) -> None:
    """Make an objective known to `pretrain` and `evaluate`, in Python and on the command line."""
    if name in OBJECTIVES:
        raise UserError(f"there is an objective {name!r} already; choose another name")
    OBJECTIVES[name] = objective


def objective_type(name: str) -> type[Objective]:
    """Return the objective of that name."""
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise UserError(f"objective.name={name!r}; expected one of {', '.join(OBJECTIVES)}")
    return OBJECTIVES[name]


def make_objective(settings: ObjectiveSettings, vocabulary: Vocabulary) -> Objective:
    """Return the objective that the settings name."""
    return objective_type(settings.name)(settings, vocabulary)


def settings_of_run(run: Mapping[str, Any], config: ModelConfig) -> ObjectiveSettings:
    """Return the settings that a saved model was pre-trained with.

    Args:
        run: The content of its run.json. Where it says nothing of pre-training, as in foreign folders, the
            heads decide.
    """
    table = run.get("recipe", {}).get("objective")
    if table is None:
        return ObjectiveSettings(name="mlm" if config.head == "mlm" else "mlm+nsp")
    try:
        kind = objective_type(typed(table.get("name"), str, "objective.name")).settings_type
        settings: ObjectiveSettings = settings_from(kind, table, "objective")
        return settings
    except UserError as problem:
        raise ModelError(f"run.json: {problem}; was it written by a newer glassbert?") from None

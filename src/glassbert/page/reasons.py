"""Why the model answers as it does, for the page: what counts, attention beside it, and the Python."""

from typing import Any

from glassbert.data.rows.schema import Item
from glassbert.glassbox.why.attention import CAUTION
from glassbert.inference.model import Model
from glassbert.inference.questions import Method
from glassbert.page import scripts

BESIDE_ATTENTION: tuple[Method, ...] = ("gradients", "occlusion")
"""Methods that say what each token is worth: attention is shown beside them."""


def reasons_of(model: Model, source: str, item: Item, method: Method, target: str | None) -> dict[str, Any]:
    """Return what the page shows of an explanation."""
    found = model.why(item, method=method, target=target).to_json()
    attention = model.why(item, method="rollout", target=target) if method in BESIDE_ATTENTION else None
    return {
        **found,
        # The page says this in its reader's language, wherever it shows attention.
        "notes": [note for note in found["notes"] if note != CAUTION],
        "attention": attention and [part.to_json() for part in attention.parts],
        "python": scripts.of_reasons(source, item, method, target),
    }

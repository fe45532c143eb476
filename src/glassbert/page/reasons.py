"""Why the model answers as it does, for the page: what counts, attention beside it, and the Python."""

from typing import Any

from glassbert.data.rows.schema import Item
from glassbert.glassbox.why.attention import CAUTION
from glassbert.inference.model import Model
from glassbert.inference.questions import Method
from glassbert.page import scripts
from glassbert.sentence import in_both

BESIDE_ATTENTION: tuple[Method, ...] = ("gradients", "occlusion")
"""Methods that give each token a value: attention is shown beside them."""


def reasons_of(model: Model, source: str, item: Item, method: Method, target: str | None) -> dict[str, Any]:
    """Return what the page shows of an explanation."""
    found = model.why(item, method=method, target=target)
    attention = model.why(item, method="rollout", target=target) if method in BESIDE_ATTENTION else None
    return {
        **found.to_json(),
        "target": in_both(found.target),
        "unit": in_both(found.unit),
        "parts": [{**part.to_json(), "name": in_both(part.name)} for part in found.parts],
        # Beside every picture of attention, whatever the method.
        "notes": [in_both(note) for note in found.notes if note != CAUTION],
        "attention": attention and [part.to_json() for part in attention.parts],
        "python": scripts.of_reasons(source, item, method, target),
    }

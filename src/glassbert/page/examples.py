"""The first text that the page shows, by what the model is for."""

from glassbert.inference.model import Model
from glassbert.inference.translator import Translator


def example_for(model: Model | Translator) -> tuple[str, str | None]:
    """Return a text, and a second one for models that read two."""
    if isinstance(model, Translator):
        return "The cat sits on the mat.", None
    if "mlm" in model.config.parts:
        return "The capital of France is [MASK].", None
    head = model.config.head
    if head == "answer":
        return "Where does the cat sit?", "The cat sits on the mat, and the dog sleeps by the door."
    return "The cat sat on the mat.", None

"""The first texts that the page shows, by what the model is for and by the reader's language."""

from dataclasses import asdict, dataclass
from typing import Any

from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.sentence import Language


@dataclass(frozen=True)
class Example:
    """What a page shows before anything is typed."""

    text: str
    other: str
    """What it is compared with."""
    pair: str | None = None


Examples = dict[Language, Example]

MASKED: Examples = {
    "en": Example("He was born in the United [MASK].", "He was born in New [MASK]."),
    "zh": Example("北京是中[MASK]的首都。", "东京是日[MASK]的首都。"),
}
"""Sentences that even a small model completes."""
QUESTION: Examples = {
    "en": Example(
        "Where does the cat sit?",
        "Where does the dog sleep?",
        "The cat sits on the mat, and the dog sleeps by the door.",
    ),
    "zh": Example("猫坐在哪里？", "狗睡在哪里？", "猫坐在垫子上，狗睡在门边。"),
}
PLAIN: Examples = {
    "en": Example("The cat sat on the mat.", "The dog sat on the mat."),
    "zh": Example("猫坐在垫子上。", "狗坐在垫子上。"),
}


def examples_for(model: Model | Translator) -> dict[Language, dict[str, Any]]:
    """Return a text in each language, with a second one for models that read two.

    A model whose vocabulary lacks Chinese characters gets the English text in both.
    """
    examples = _examples(model)
    if not _reads(model, examples["zh"].text):
        examples = {**examples, "zh": examples["en"]}
    return {language: asdict(one) for language, one in examples.items()}


def _examples(model: Model | Translator) -> Examples:
    if isinstance(model, Translator):
        return PLAIN
    if "mlm" in model.config.parts:
        return MASKED
    return QUESTION if model.config.head == "answer" else PLAIN


def _reads(model: Model | Translator, text: str) -> bool:
    if isinstance(model, Translator):
        return False
    (ids,) = model.tokenizer.ids_of_batch([text])
    return model.tokenizer.vocabulary.unk_id not in ids

"""The first text that the page shows, by what the model is for and by the reader's language."""

from typing import Any

from glassbert.glassbox.trace.words import Language
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator

Texts = tuple[str, str | None]

MASKED: dict[Language, Texts] = {
    "en": ("He was born in the United [MASK].", None),
    "zh": ("北京是中[MASK]的首都。", None),
}
"""Sentences that even a small model completes."""
QUESTION: dict[Language, Texts] = {
    "en": ("Where does the cat sit?", "The cat sits on the mat, and the dog sleeps by the door."),
    "zh": ("猫坐在哪里？", "猫坐在垫子上，狗睡在门边。"),
}
PLAIN: dict[Language, Texts] = {"en": ("The cat sat on the mat.", None), "zh": ("猫坐在垫子上。", None)}


def examples_for(model: Model | Translator) -> dict[Language, dict[str, Any]]:
    """Return a text in each language, with a second one for models that read two.

    A model whose vocabulary lacks Chinese characters gets the English text in both.
    """
    texts = _texts(model)
    if not _reads(model, texts["zh"][0]):
        texts = {**texts, "zh": texts["en"]}
    return {language: {"text": text, "pair": pair} for language, (text, pair) in texts.items()}


def _texts(model: Model | Translator) -> dict[Language, Texts]:
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

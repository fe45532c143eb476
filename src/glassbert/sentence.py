"""What is said in English, and can be said in Chinese: a template and its values."""

from collections.abc import Sequence
from typing import Any, Literal

from glassbert.chinese import CHINESE

Language = Literal["en", "zh"]


class Sentence(str):
    """A sentence. As a string it is English; `in_language` says it in either language.

    A value may be a sentence itself.
    """

    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, /, **values: Any) -> "Sentence":
        """Make a sentence.

        Args:
            template: In English, as `str.format` takes it. If it has words, `CHINESE` has the Chinese one.
            values: What fills its slots.
        """
        made = super().__new__(cls, template.format(**values))
        made.template, made.values = template, values
        return made

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        return (self.template,), self.values

    def in_language(self, language: Language) -> str:
        """Return the sentence in one language."""
        if language == "en":
            return str.__str__(self)
        values = {name: in_language(value, language) for name, value in self.values.items()}
        return CHINESE.get(self.template, self.template).format(**values)


def in_language(value: Any, language: Language) -> Any:
    """Return a sentence in one language; anything else, such as a name or a number, as it is."""
    return value.in_language(language) if isinstance(value, Sentence) else value


def in_both(text: str) -> str | dict[Language, str]:
    """Return a sentence in both languages, for a reader who may switch; any other text as it is."""
    return (
        {"en": text.in_language("en"), "zh": text.in_language("zh")} if isinstance(text, Sentence) else text
    )


def said_by(error: Exception) -> Sentence:
    """Return the message of an error; one that was not raised with a sentence is in English only."""
    message = error.args[0] if error.args else None
    return message if isinstance(message, Sentence) else Sentence("{message}", message=str(error))


def joined(texts: Sequence[str], between: str = ", ") -> Sentence:
    """Return texts as one list; each may be a sentence."""
    values = {f"text{number}": text for number, text in enumerate(texts)}
    return Sentence(between.join(f"{{{name}}}" for name in values), **values)

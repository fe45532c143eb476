"""Text in both languages."""

from dataclasses import dataclass

from glassbert.sentence import Language


@dataclass(frozen=True)
class Words:
    """A text in English and in Chinese."""

    en: str
    zh: str

    def in_language(self, language: Language) -> str:
        """Return the text in one language."""
        return self.en if language == "en" else self.zh

    def format(self, *values: object, **named: object) -> "Words":
        """Return the text with values filled in, as `str.format` does; a value may be in both languages."""

        def filled(language: Language) -> str:
            def chosen(value: object) -> object:
                return value.in_language(language) if isinstance(value, Words) else value

            text = self.in_language(language)
            return text.format(*map(chosen, values), **{name: chosen(one) for name, one in named.items()})

        return Words(filled("en"), filled("zh"))


Text = Words | str
"""A text; a plain str, such as a symbol, is the same in both languages."""


def said(text: Text, language: Language) -> str:
    """Return a text in one language."""
    return text if isinstance(text, str) else text.in_language(language)

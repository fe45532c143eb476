"""The rules of BERT's tokenisation that a vocabulary alone does not fix, and their form in the engine."""

from dataclasses import dataclass

from tokenizers import normalizers

DEFAULT_MAX_LENGTH = 512

MAX_CHARACTERS_PER_WORD = 100
"""A longer word becomes one [UNK]."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """How text is cut into words, and how long an input may be."""

    lowercase: bool = True
    strip_accents: bool | None = None
    """None means the same as ``lowercase``."""
    tokenize_chinese_chars: bool = True
    """Make each Chinese character a word."""
    max_length: int = DEFAULT_MAX_LENGTH

    @property
    def rules(self) -> dict[str, bool]:
        """What decides, with the vocabulary, which ids a text has."""
        return {
            "lowercase": self.lowercase,
            "strip_accents": self.lowercase if self.strip_accents is None else self.strip_accents,
            "tokenize_chinese_chars": self.tokenize_chinese_chars,
        }

    def normalizer(self) -> normalizers.Normalizer:
        """Return the first step of the engine."""
        return normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.tokenize_chinese_chars,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )

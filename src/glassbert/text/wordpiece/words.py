"""Text to the words that BERT's basic tokenizer sees.

Text is cleaned, lower-cased if asked, and split at spaces, at punctuation and around each Chinese character.
"""

import re
from collections import Counter

from tokenizers import pre_tokenizers

from glassbert.text.characters import CJK, DELETED
from glassbert.text.portions import portions
from glassbert.text.wordpiece.settings import TokenizerSettings

_CJK_RUN = re.compile(f"[{CJK}]+")

# To BERT all printable ASCII that is neither letter nor digit is punctuation, symbols too.
_ASCII_WORD = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]")


class WordSplitter:
    """Cut text into the words that a tokenizer with these settings sees before it looks up pieces."""

    def __init__(self, settings: TokenizerSettings) -> None:
        self._settings = settings
        self._normalizer = settings.normalizer()
        self._pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def words(self, text: str) -> list[str]:
        """Return the words of ``text`` in order."""
        found: list[str] = []
        for _, part in portions(
            DELETED.sub("", text), are_chinese_apart=self._settings.tokenize_chinese_chars
        ):
            normal = self._normalizer.normalize_str(part)
            found += [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normal)]
        return found

    def count(self, text: str) -> Counter[str]:
        """Return how often each word occurs: the same as counting `words`, many times as fast."""
        text = DELETED.sub("", text)
        raw_counts: Counter[str] = Counter()
        if self._settings.tokenize_chinese_chars:
            raw_counts.update("".join(_CJK_RUN.findall(text)))
            text = _CJK_RUN.sub(" ", text)
        # Each distinct run between spaces is normalised once: most runs of a language repeat.
        raw_counts.update(text.split())
        counts: Counter[str] = Counter()
        for raw, count in raw_counts.items():
            words = ascii_words(raw, self._settings)
            for word in self.words(raw) if words is None else words:
                counts[word] += count
        return counts


def ascii_words(run: str, settings: TokenizerSettings) -> list[str] | None:
    """Return the words of a run without spaces if it is plain ASCII, which does not need the engine."""
    if not (run.isascii() and run.isprintable()):
        return None
    return _ASCII_WORD.findall(run.lower() if settings.lowercase else run)

"""Chinese words, for whole-word masking and word vectors.

A segmenter sees runs of Chinese characters only. The text between them is cut here as BERT does it: a
punctuation mark is a word, and so is any other run without spaces.
"""

import importlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol

from glassbert.arguments import checked
from glassbert.errors import DataError, UserError
from glassbert.text.characters import CJK, is_punctuation
from glassbert.text.files import read_lines

Range = tuple[int, int]

_RUN = re.compile(f"(?P<chinese>[{CJK}]+)|[^\\s{CJK}]+")
_NAMES = ("rjieba", "jieba")


class Segmenter(Protocol):
    """Anything that finds the words of a text."""

    def words(self, text: str) -> list[Range]:
        """Return the words as (first character, character after the last), in order, without overlap.

        Together they cover every character that is not a space.
        """


class RjiebaSegmenter:
    """The `rjieba` package: jieba's dictionary and model, compiled."""

    def __init__(self) -> None:
        rjieba = _import("rjieba", "pip install 'glassbert[zh]'")
        # Our own instance: words that a program adds to the package's shared one must not change our results.
        self._cut: Callable[[str], list[str]] = rjieba.Jieba().cut

    def words(self, text: str) -> list[Range]:
        """Return the words; see `Segmenter`."""
        return list(_spans(text, self._cut))


class JiebaSegmenter:
    """The `jieba` package, pure Python."""

    def __init__(self) -> None:
        jieba = _import("jieba", "pip install jieba")
        tokenizer = jieba.Tokenizer()
        # What `initialize` does, without its log lines and its cache file in the temporary folder.
        tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
        tokenizer.initialized = True
        self._cut: Callable[[str], list[str]] = tokenizer.lcut

    def words(self, text: str) -> list[Range]:
        """Return the words; see `Segmenter`."""
        return list(_spans(text, self._cut))


class DictionarySegmenter:
    """The longest matching word of a list, from left to right; a character that starts none is a word."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = frozenset(word for word in words if len(word) > 1)
        lengths: dict[str, set[int]] = {}
        for word in self._words:
            lengths.setdefault(word[0], set()).add(len(word))
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    @classmethod
    def load(cls, path: str | Path) -> "DictionarySegmenter":
        """Read a list with one word per line; what follows a space, such as a count, is ignored."""
        words = [fields[0] for line in read_lines(path) if (fields := line.split())]
        if not words:
            raise DataError(f"{path}: no word in it; expected one word per line")
        return cls(words)

    def words(self, text: str) -> list[Range]:
        """Return the words; see `Segmenter`."""
        return list(_spans(text, self._cut))

    def _cut(self, run: str) -> Iterator[str]:
        start = 0
        while start < len(run):
            lengths = self._lengths.get(run[start], [])
            fitting = (run[start : start + length] for length in lengths)
            word = next((word for word in fitting if word in self._words), run[start])
            yield word
            start += len(word)


@checked
def segmenter(source: str | Path | Sequence[str]) -> Segmenter:
    """Return the segmenter of a name (rjieba, jieba), of a file of words, or of words themselves."""
    if source == "rjieba":
        return RjiebaSegmenter()
    if source == "jieba":
        return JiebaSegmenter()
    if not isinstance(source, str | Path):
        return DictionarySegmenter(source)
    path = Path(source)
    if not path.is_file():
        raise UserError(
            f"unknown segmenter {str(source)!r}; use {' or '.join(_NAMES)}, "
            "or the path of a file with one word per line"
        )
    return DictionarySegmenter.load(path)


def _spans(text: str, cut: Callable[[str], Iterable[str]]) -> Iterator[Range]:
    """Yield the words of ``text``; ``cut`` divides a run of Chinese characters completely."""
    for match in _RUN.finditer(text):
        run, start = match.group(), match.start()
        for word in cut(run) if match["chinese"] else _cut_at_punctuation(run):
            yield start, start + len(word)
            start += len(word)
        assert start == match.end(), f"the words of {run!r} do not make up the run"


def _cut_at_punctuation(run: str) -> Iterator[str]:
    start = 0
    for index, character in enumerate(run):
        if is_punctuation(character):
            if start < index:
                yield run[start:index]
            yield character
            start = index + 1
    if start < len(run):
        yield run[start:]


def _import(name: str, install: str) -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # jieba's old string escapes and its use of pkg_resources
            return importlib.import_module(name)
    except ImportError:
        raise UserError(f"segmenter {name} needs the package {name}; install it with `{install}`") from None

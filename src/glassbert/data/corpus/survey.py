"""Facts about blocks of text, added up over all blocks, to check text before a corpus is built."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassbert.data.corpus.duplicates import MIN_CHARACTERS, text_hash
from glassbert.data.corpus.encode import RunEncoder, part_sentences, runs
from glassbert.data.corpus.near_duplicates import signatures
from glassbert.text.characters import CJK
from glassbert.text.documents import Part
from glassbert.text.files import utf8_length
from glassbert.text.sentences import MAX_SENTENCE_CHARACTERS
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter

LONG_LINE_CHARACTERS = 100_000

# All control characters but tab and line ends, and the sign for what could not be decoded.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REPLACEMENT = re.compile("\ufffd")
# What UTF-8 looks like when it was read as Latin-1 or as Windows-1252 and written again.
_TWICE_ENCODED = re.compile(
    "\u00c3[\u0080-\u00bf]|\u00e2\u20ac[\u0080-\u00bf\u2018-\u2122]|\u00ef\u00bf\u00bd"
)
_MARKUP = re.compile(
    r"</?(?:p|br|div|span|ref|table|td|tr|li|ul)\b[^>]{0,200}>|&(?:amp|nbsp|lt|gt|quot|#\d+);"
)
_PROBLEMS = {
    "control": _CONTROL,
    "replacement": _REPLACEMENT,
    "twice_encoded": _TWICE_ENCODED,
    "markup": _MARKUP,
}
# Most letters of any text are of these scripts; the others are counted by their Unicode names.
_SCRIPTS = {
    "latin": re.compile("[A-Za-z\u00aa-\u024f\u1e00-\u1eff]+"),
    "chinese": re.compile(f"[{CJK}]+"),
}
_OTHER_LETTER = re.compile(f"[^\\W\\d_A-Za-z\u00aa-\u024f\u1e00-\u1eff{CJK}]")
_MAX_UNKNOWN = 10_000
_LINE_BITS = 40


@dataclass
class TextFacts:
    """Counts over some text; `add` adds those of another text."""

    counts: Counter[str] = field(default_factory=Counter)
    scripts: Counter[str] = field(default_factory=Counter)
    """Letters by script."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Words that become [UNK]; the rarest are dropped if there are very many."""
    first_places: dict[str, tuple[Path, int]] = field(default_factory=dict)
    """File and line where each problem occurs first."""
    sentence_lengths: NDArray[np.int64] = field(
        default_factory=lambda: np.zeros(MAX_SENTENCE_CHARACTERS + 1, np.int64)
    )
    """How many sentences have each length in characters."""
    longest_line: int = 0

    def add(self, other: "TextFacts") -> None:
        """Add the facts of a later text."""
        self.counts += other.counts
        self.scripts += other.scripts
        self.unknown += other.unknown
        if len(self.unknown) > _MAX_UNKNOWN:
            self.unknown = Counter(dict(self.unknown.most_common(_MAX_UNKNOWN // 2)))
        self.first_places = {**other.first_places, **self.first_places}
        self.sentence_lengths += other.sentence_lengths
        self.longest_line = max(self.longest_line, other.longest_line)


@dataclass(frozen=True)
class BlockFacts:
    """The facts of a block, and what is compared with other blocks."""

    facts: TextFacts
    line_hashes: NDArray[np.uint64]
    line_places: NDArray[np.uint64]
    """As `place_of` returns them."""
    document_places: NDArray[np.uint64]
    document_signatures: NDArray[np.uint32]


@dataclass(frozen=True)
class Examiner:
    """Find the facts of blocks in any process."""

    tokenizer_folder: Path | None

    def __call__(self, parts: Sequence[Part]) -> BlockFacts:
        """Return the facts of ``parts``."""
        encoder = _encoder(self.tokenizer_folder) if self.tokenizer_folder else None
        facts = TextFacts()
        hashes: list[int] = []
        places: list[int] = []
        for part in parts:
            for place, line in _lines(part):
                _examine_line(facts, line, part.path, place)
                if len(line) >= MIN_CHARACTERS:
                    hashes.append(text_hash(line))
                    places.append(place_of(part.file, place))
        sentences = [part_sentences(part) for part in parts]
        _examine_sentences(facts, parts, sentences)
        if encoder is not None:
            _examine_tokens(facts, encoder, [text for found in sentences for text in found])
        # A long document is compared part by part.
        compared, found = signatures([runs(" ".join(part.lines)) for part in parts])
        return BlockFacts(
            facts=facts,
            line_hashes=np.array(hashes, np.uint64),
            line_places=np.array(places, np.uint64),
            document_places=np.array(
                [place_of(parts[index].file, parts[index].first_line) for index in compared], np.uint64
            ),
            document_signatures=found,
        )


class _Encoder(RunEncoder):
    """Counts tokens and finds the words that become [UNK]."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(tokenizer)
        self._splitter = WordSplitter(tokenizer.settings)
        self._unk = np.array(tokenizer.vocabulary.unk_id, self.dtype).tobytes()

    def examine(self, texts: Sequence[str]) -> tuple[int, Counter[str]]:
        """Return the number of tokens, and how often each word occurs that becomes [UNK]."""
        counts = Counter(run for text in texts for run in self.runs(text))
        counted = list(zip(counts.items(), self.encode([(run,) for run in counts]), strict=True))
        num_bytes = sum(count * len(ids) for (_, count), ids in counted)
        words: Counter[str] = Counter()
        for (run, count), ids in counted:
            if self._unk in ids:  # the bytes of two neighbours may look like it as well
                for word in self._splitter.words(run):
                    words[word] += count
        encoded = zip(words.items(), self.encode([(word,) for word in words]), strict=True)
        unknown = Counter({word: count for (word, count), ids in encoded if ids == self._unk})
        return num_bytes // self.dtype.itemsize, unknown


@lru_cache(maxsize=1)
def _encoder(folder: Path) -> _Encoder:
    return _Encoder(Tokenizer.load(folder))


def place_of(file: int, line: int) -> int:
    """Return file and line as one number."""
    return file << _LINE_BITS | line


def file_and_line(place: int) -> tuple[int, int]:
    """Return the file and the line that `place_of` turned into a number."""
    return place >> _LINE_BITS, place & ((1 << _LINE_BITS) - 1)


def script_counts(text: str) -> Counter[str]:
    """Return how many letters of each script there are."""
    counts = Counter({script: sum(map(len, run.findall(text))) for script, run in _SCRIPTS.items()})
    for letter, count in Counter(_OTHER_LETTER.findall(text)).items():
        # Python does not know scripts, but a letter's name starts with its script: GREEK SMALL LETTER ALPHA.
        counts[unicodedata.name(letter, "unnamed").split()[0].lower()] += count
    return +counts


def _lines(part: Part) -> Iterator[tuple[int, str]]:
    for index, line in enumerate(part.lines):
        text = line.strip()
        if text:
            yield part.line_number(index), text


def _examine_line(facts: TextFacts, line: str, path: Path, place: int) -> None:
    facts.counts["lines"] += 1
    facts.counts["bytes"] += utf8_length(line)
    facts.longest_line = max(facts.longest_line, len(line))
    if len(line) > LONG_LINE_CHARACTERS:
        facts.counts["long_line"] += 1
        facts.first_places.setdefault("long_line", (path, place))
    if line.isascii() and line.isprintable() and "<" not in line and "&" not in line:
        return
    for problem, pattern in _PROBLEMS.items():
        if pattern.search(line):
            facts.counts[problem] += 1
            facts.first_places.setdefault(problem, (path, place))


def _examine_sentences(facts: TextFacts, parts: Sequence[Part], sentences: Sequence[Sequence[str]]) -> None:
    lengths = [len(text) for found in sentences for text in found]
    facts.sentence_lengths += np.bincount(
        np.minimum(np.array(lengths, np.int64), MAX_SENTENCE_CHARACTERS),
        minlength=MAX_SENTENCE_CHARACTERS + 1,
    )
    facts.counts["sentences"] += len(lengths)
    facts.counts["documents"] += sum(part.is_last for part in parts)
    facts.counts["short_documents"] += sum(
        part.is_last and len(found) == 1 for part, found in zip(parts, sentences, strict=True)
    )
    facts.scripts += script_counts(" ".join(text for found in sentences for text in found))


def _examine_tokens(facts: TextFacts, encoder: _Encoder, texts: Sequence[str]) -> None:
    num_tokens, unknown = encoder.examine(texts)
    facts.counts["tokens"] += num_tokens
    facts.counts["unknown"] += unknown.total()
    facts.unknown += unknown

"""Count the words of a corpus of any size in bounded memory, on any number of processes, with one result.

Words are what BERT's basic tokenizer gives: cleaned, lower-cased if asked, split at spaces, punctuation and
around each CJK character. The corpus is cut into blocks that do not depend on the number of processes, and
their counts are added up in the order of the corpus, so that rare words are always pruned at the same place.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

from glassbert.errors import DataError
from glassbert.text.files import read_lines
from glassbert.text.wordpiece.folder import TokenizerSettings
from glassbert.text.workers import map_in_order

OnProgress = Callable[[int, int, str], None]
"""Called with what is done, the total, and the name of the stage."""

# The characters that the engine puts spaces around. It begins one range at U+2B920 where BERT begins it at
# U+2B820; words are counted as they will be cut, so the engine holds.
CJK = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f"
)
"""Ranges for a regular expression."""

_CJK_RUN = re.compile(f"[{CJK}]+")

# `str.split` takes the first ones for spaces, but BERT deletes them. The last are lone surrogates: JSON can
# hold them, the engine cannot.
DELETED = re.compile("[\x0b\x0c\x1c-\x1f\x85\ud800-\udfff]")

# All printable ASCII that is neither letter nor digit is punctuation to BERT, symbols too.
ASCII_WORD = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]")

_BLOCK_CHARACTERS = 1 << 21
_PACKED_SUFFIXES = (".gz", ".zst")
_USUAL_PACKING_RATIO = 3


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs."""

    words: Counter[str]
    """Without the words that were pruned."""
    characters: Counter[str]
    """Of all words, the pruned ones too."""
    num_words: int
    """Occurrences, the pruned ones too."""
    num_pruned_words: int = 0
    num_pruned_occurrences: int = 0


@dataclass(frozen=True)
class Block:
    """Some whole lines of one file: the unit of work of a process."""

    path: Path
    first_line: int
    lines: tuple[str, ...]


class WordSplitter:
    """Cut text into the words that a tokenizer with these settings sees before it looks up pieces."""

    def __init__(self, settings: TokenizerSettings) -> None:
        self._settings = settings
        self._normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=settings.tokenize_chinese_chars,
            strip_accents=settings.strip_accents,
            lowercase=settings.lowercase,
        )
        self._pre_tokenizer = pre_tokenizers.BertPreTokenizer()

    def words(self, text: str) -> list[str]:
        """Return the words of ``text`` in order."""
        normal = self._normalizer.normalize_str(DELETED.sub("", text))
        return [word for word, _ in self._pre_tokenizer.pre_tokenize_str(normal)]

    def count(self, text: str) -> Counter[str]:
        """Return how often each word occurs: the same as counting `words`, many times as fast."""
        text = DELETED.sub("", text)
        raw_counts: Counter[str] = Counter()
        if self._settings.tokenize_chinese_chars:
            raw_counts.update("".join(_CJK_RUN.findall(text)))
            text = _CJK_RUN.sub(" ", text)
        # Each distinct run between spaces is normalised once: most runs of a language occur again and again.
        raw_counts.update(text.split())
        counts: Counter[str] = Counter()
        for raw, count in raw_counts.items():
            for word in self._words_of_run(raw):
                counts[word] += count
        return counts

    def _words_of_run(self, run: str) -> list[str]:
        """Return `words` of a run without spaces; what is plain ASCII does not need the engine."""
        if run.isascii() and run.isprintable():
            return ASCII_WORD.findall(run.lower() if self._settings.lowercase else run)
        return self.words(run)


def input_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files that ``paths`` name; a folder stands for the files in it, hidden ones left out."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            path.stat()  # a missing file is told before hours are spent on the others
            files.append(path)
            continue
        inside = {file.relative_to(path).as_posix(): file for file in path.rglob("*") if file.is_file()}
        names = sorted(name for name in inside if not any(part[0] == "." for part in name.split("/")))
        if not names:
            raise DataError(f"{path}: the folder holds no file; text files are expected")
        files += [inside[name] for name in names]
    return files


def read_blocks(path: Path) -> Iterator[Block]:
    """Yield the lines of ``path`` in blocks of about the same size."""
    lines: list[str] = []
    first_line, num_characters = 1, 0
    for line in read_lines(path):
        lines.append(line)
        num_characters += len(line)
        if num_characters >= _BLOCK_CHARACTERS:
            yield Block(path, first_line, tuple(lines))
            first_line += len(lines)
            lines, num_characters = [], 0
    if lines:
        yield Block(path, first_line, tuple(lines))


def block_texts(block: Block) -> list[str]:
    """Return the texts of a block: its lines, or the "text" of each line of a `.jsonl` file."""
    if not unpacked_name(block.path).endswith(".jsonl"):
        return list(block.lines)
    numbered = enumerate(block.lines, start=block.first_line)
    return [json_text(line, f"{block.path}:{number}") for number, line in numbered if line.strip()]


def unpacked_name(path: Path) -> str:
    """Return the name of a file without the suffix that packing gave it."""
    name = path.name
    for suffix in _PACKED_SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def bytes_on_disk(path: Path, num_text_bytes: int, size: int) -> int:
    """Return how much of a file of ``size`` bytes holds so much text; for a packed file an estimate."""
    ratio = _USUAL_PACKING_RATIO if path.suffix in _PACKED_SUFFIXES else 1
    return min(num_text_bytes // ratio, size)


def json_text(line: str, place: str) -> str:
    """Return the "text" of a line of a `.jsonl` file; ``place`` is where it stands."""
    try:
        row = json.loads(line)
    except ValueError as error:
        raise DataError(
            f'{place}: not JSON ({error}); each line of a .jsonl file is an object with a "text"'
        ) from None
    text = row.get("text") if isinstance(row, dict) else None
    if not isinstance(text, str):
        raise DataError(f'{place}: no string under "text"; each line of a .jsonl file is an object with one')
    return text


def count_words(
    files: Sequence[Path],
    settings: TokenizerSettings,
    *,
    max_words: int,
    processes: int = 1,
    on_progress: OnProgress | None = None,
) -> WordCounts:
    """Count the words of ``files``.

    Args:
        max_words: how many distinct words are held. When there are more, the rarest are dropped, always whole
            groups of words with the same count, until at most half of that number stays.
    """
    blocks = _all_blocks(files, on_progress)
    return add_up(map_in_order(partial(_count_block, settings), blocks, processes), max_words)


def add_up(counts_of_blocks: Iterable[Counter[str]], max_words: int) -> WordCounts:
    """Add up the counts of blocks of text in their order; see `count_words` for ``max_words``."""
    words: Counter[str] = Counter()
    pruned: Counter[str] = Counter()
    pruned_characters: Counter[str] = Counter()
    for counts in counts_of_blocks:
        words.update(counts)
        if len(words) > max_words:
            rare = _prune(words, max_words // 2)
            pruned.update(words=len(rare), occurrences=rare.total())
            pruned_characters.update(character_counts(rare))
    return WordCounts(
        words=words,
        characters=character_counts(words) + pruned_characters,
        num_words=words.total() + pruned["occurrences"],
        num_pruned_words=pruned["words"],
        num_pruned_occurrences=pruned["occurrences"],
    )


def character_counts(words: Counter[str]) -> Counter[str]:
    """Return how often each character occurs in the words."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    return counts


def _prune(words: Counter[str], num_kept: int) -> Counter[str]:
    """Take the rarest words out of ``words``, so that at most ``num_kept`` stay, and return them."""
    num_words_by_count = Counter(words.values())
    num_left, highest = len(words), 0
    for count in sorted(num_words_by_count):
        if num_left <= num_kept:
            break
        num_left -= num_words_by_count[count]
        highest = count
    rare = Counter({word: count for word, count in words.items() if count <= highest})
    for word in rare:
        del words[word]
    return rare


def _count_block(settings: TokenizerSettings, block: Block) -> Counter[str]:
    return WordSplitter(settings).count("\n".join(block_texts(block)))


def _all_blocks(files: Sequence[Path], on_progress: OnProgress | None) -> Iterator[Block]:
    """Yield the blocks of all files; progress is in bytes on disk, for packed files an estimate."""
    sizes = [file.stat().st_size for file in files]
    total, done = sum(sizes), 0
    for file, size in zip(files, sizes, strict=True):
        num_bytes = 0
        for block in read_blocks(file):
            yield block
            num_bytes += sum(len(line.encode("utf-8")) + 1 for line in block.lines)
            if on_progress:
                on_progress(done + bytes_on_disk(file, num_bytes, size), total, "count words")
        done += size

"""Count words of any amount of text in bounded memory; the number of processes does not change the result.

Text is cut into blocks that do not depend on the number of processes, and their counts are added up in the
order of the text, so that rare words are always pruned at the same places.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from glassbert.errors import DataError
from glassbert.messages import Log, to_stderr
from glassbert.text.documents import AmbiguousForm, Form, Part
from glassbert.text.sources import ReadProgress, find_sources, read_blocks
from glassbert.text.wordpiece.settings import TokenizerSettings
from glassbert.text.wordpiece.words import WordSplitter
from glassbert.text.workers import map_in_order

OnProgress = Callable[[int, int, str], None]
"""Called with what is done, the total, and the name of the stage."""

_BLOCK_CHARACTERS = 1 << 21
_NUM_NAMED = 3


@dataclass(frozen=True)
class WordCounts:
    """How often each word occurs."""

    words: Counter[str]
    """Without the pruned words."""
    characters: Counter[str]
    """Of all words, including the pruned ones."""
    num_words: int
    """Occurrences, including the pruned ones."""
    num_pruned_words: int = 0
    num_pruned_occurrences: int = 0


def count_words(
    files: str | Path | Sequence[str | Path],
    settings: TokenizerSettings,
    *,
    max_words: int,
    form: Form | None = None,
    processes: int = 1,
    log: Log = to_stderr,
    on_progress: OnProgress | None = None,
) -> WordCounts:
    """Count the words of text files or folders of them.

    Args:
        max_words: how many distinct words are held. When there are more, the rarest are dropped, always whole
            groups of words with the same count, until at most half of that number remains.
        form: of all files; detected if not given.
        on_progress: receives progress in bytes on disk, for packed files an estimate.
    """

    def on_read(progress: ReadProgress) -> None:
        assert on_progress is not None
        on_progress(progress.num_done, progress.num_total, "count words")

    sources = find_sources(files, form, on_error=_plain_if_ambiguous)
    # The other forms are all plain lines here: where a document ends does not matter.
    sources.describe(() if form else ("jsonl", "wikitext"), log)
    blocks = read_blocks(sources.texts, log=log, on_read=on_read if on_progress else None)
    parts = (part for block in blocks for part in block)
    counts = add_up(map_in_order(partial(_count_text, settings), _text_blocks(parts), processes), max_words)
    if not counts.num_words:
        raise DataError(f"{_names(files)}: no word found; expected text")
    return counts


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
    """Remove the rarest words from ``words`` so that at most ``num_kept`` remain, and return them."""
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


def _plain_if_ambiguous(error: DataError) -> Form:
    """Return a form for lines that do not show where documents end."""
    if isinstance(error, AmbiguousForm):
        return "sentences"
    raise error


def _names(files: str | Path | Sequence[str | Path]) -> str:
    names = [str(files)] if isinstance(files, str | Path) else list(map(str, files))
    return ", ".join(names[:_NUM_NAMED]) + (", ..." if len(names) > _NUM_NAMED else "") or "no file given"


def _count_text(settings: TokenizerSettings, text: str) -> Counter[str]:
    return WordSplitter(settings).count(text)


def _text_blocks(parts: Iterable[Part]) -> Iterator[str]:
    """Yield lines joined to texts of about the same size, none of them of two files.

    Where a block ends decides which words are pruned, so this rule must not change: it counts the characters
    of the lines of the file.
    """
    lines: list[str] = []
    file, num_characters = 0, 0
    for part in parts:
        if part.file != file and lines:
            yield "\n".join(lines)
            lines, num_characters = [], 0
        file = part.file
        for text, size in _file_lines(part):
            lines.append(text)
            num_characters += size
            if num_characters >= _BLOCK_CHARACTERS:
                yield "\n".join(lines)
                lines, num_characters = [], 0
    if lines:
        yield "\n".join(lines)


def _file_lines(part: Part) -> Iterator[tuple[str, int]]:
    """Yield the text of each line of the file, and how many characters the line has."""
    if part.is_one_line:
        yield "\n".join(part.lines), part.num_characters
    else:
        yield from zip(part.lines, map(len, part.lines), strict=True)

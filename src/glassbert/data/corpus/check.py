"""Check text before a corpus is built: what it is, what would go wrong, where, and what to do."""

import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from glassbert.arguments import checked
from glassbert.data.corpus.duplicates import MIN_CHARACTERS, RepetitionCounter, Repetitions
from glassbert.data.corpus.near_duplicates import MIN_SIMILARITY, NearDuplicateFinder, NearDuplicates
from glassbert.data.corpus.survey import LONG_LINE_CHARACTERS, Examiner, TextFacts, file_and_line
from glassbert.errors import DataError
from glassbert.messages import Log, to_stderr
from glassbert.model_names import model_folder
from glassbert.text.documents import AmbiguousForm, Form, TextSource
from glassbert.text.sources import OnRead, Sources, find_sources, read_blocks
from glassbert.text.workers import map_in_order

Level = Literal["error", "warning"]

_NUM_EXAMPLES = 5
_MAX_UNKNOWN_RATE = 0.01
_MAX_REPEATED_RATE = 0.01
_MAX_SHORT_DOCUMENTS = 0.5
_NUM_SCRIPTS = 8


@dataclass(frozen=True)
class Finding:
    """Something that would go wrong."""

    level: Level
    """`error` if `corpus build` would stop at it."""
    kind: str
    message: str
    """Where it is, what it is, and what to do."""


@dataclass(frozen=True)
class Lengths:
    """Of sentences, in characters."""

    mean: float
    median: int
    p95: int
    maximum: int


@dataclass(frozen=True)
class CheckReport:
    """What a text is, and what would go wrong with it."""

    forms: dict[Form, int]
    """How many files have each."""
    num_bytes: int
    num_lines: int
    """Blank ones not counted."""
    num_documents: int
    num_sentences: int
    sentence_lengths: Lengths
    longest_line: int
    """In characters."""
    scripts: dict[str, float]
    """Share of the letters."""
    num_compared_lines: int
    """Lines that are long enough for a repetition to matter."""
    num_repeated_lines: int
    """Lines that are the same as an earlier one."""
    num_compared_documents: int
    num_near_duplicates: int
    """Documents that have nearly everything in common with an earlier one."""
    num_tokens: int | None
    num_unknown: int | None
    """Words that become [UNK]."""
    unknown_examples: tuple[tuple[str, int], ...]
    findings: tuple[Finding, ...]


@checked
def check_corpus(
    files: str | Path | Sequence[str | Path],
    *,
    form: Form | None = None,
    tokenizer: str | Path | None = None,
    processes: int = 1,
    log: Log = to_stderr,
    on_read: OnRead | None = None,
) -> CheckReport:
    """Examine text files; one that cannot be read is a finding, and the others are still examined.

    Args:
        files: Text files, plain or packed, or folders of them.
        form: As for `build_corpus`.
        tokenizer: Folder with a vocabulary, to count unknown words.
        log: Receives lines for the user.
    """
    findings: list[Finding] = []
    texts = _find_sources(files, form, findings).texts
    facts = TextFacts()
    folder = None if tokenizer is None else model_folder(tokenizer)
    with tempfile.TemporaryDirectory() as scratch:
        lines, documents = RepetitionCounter(Path(scratch)), NearDuplicateFinder(Path(scratch))
        blocks = read_blocks(
            texts,
            log=log,
            on_read=on_read,
            on_error=lambda error: findings.append(Finding("error", "reading", str(error))),
        )
        for block in map_in_order(Examiner(folder), blocks, processes):
            facts.add(block.facts)
            lines.add(block.line_hashes, block.line_places)
            documents.add(block.document_places, block.document_signatures)
        repeated, alike = lines.finish(_NUM_EXAMPLES), documents.finish(_NUM_EXAMPLES)
    findings += _text_findings(facts)
    findings += _boundary_findings(facts)
    findings += _duplicate_findings(repeated, alike, texts)
    findings.sort(key=lambda finding: finding.level != "error")
    return _report(texts, facts, repeated, alike, findings, has_tokenizer=folder is not None)


def _report(
    texts: Sequence[TextSource],
    facts: TextFacts,
    repeated: Repetitions,
    alike: NearDuplicates,
    findings: Sequence[Finding],
    *,
    has_tokenizer: bool,
) -> CheckReport:
    return CheckReport(
        forms=dict(Counter(text.form for text in texts)),
        num_bytes=facts.counts["bytes"],
        num_lines=facts.counts["lines"],
        num_documents=facts.counts["documents"],
        num_sentences=facts.counts["sentences"],
        sentence_lengths=_lengths(facts.sentence_lengths),
        longest_line=facts.longest_line,
        scripts={
            script: count / facts.scripts.total() for script, count in facts.scripts.most_common(_NUM_SCRIPTS)
        },
        num_compared_lines=repeated.num_total,
        num_repeated_lines=repeated.num_repeated,
        num_compared_documents=alike.num_compared,
        num_near_duplicates=alike.num_found,
        num_tokens=facts.counts["tokens"] if has_tokenizer else None,
        num_unknown=facts.counts["unknown"] if has_tokenizer else None,
        unknown_examples=tuple(sorted(facts.unknown.items(), key=lambda item: (-item[1], item[0]))[:10]),
        findings=tuple(findings),
    )


def _find_sources(
    files: str | Path | Sequence[str | Path], form: Form | None, findings: list[Finding]
) -> Sources:
    """Return the files that can be examined; one that shows no form is read by its blank lines."""

    def on_error(error: DataError) -> Form | None:
        is_ambiguous = isinstance(error, AmbiguousForm)
        findings.append(Finding("error", "form" if is_ambiguous else "reading", str(error)))
        return "sentences" if is_ambiguous else None

    sources = find_sources(files, form, on_error=on_error)
    for path in sources.empty:
        findings.append(Finding("warning", "empty", f"{path}: no text in it; it would be left out"))
    return sources


def _text_findings(facts: TextFacts) -> Iterator[Finding]:
    """Yield what is wrong with the text itself, with the first line of each problem."""
    messages = {
        "control": "{} lines hold control characters, which the tokenizer deletes; is all of it text?",
        "replacement": "{} lines hold U+FFFD, where bytes were lost; extract the text again from its source",
        "twice_encoded": "{} lines look like UTF-8 that was read as Latin-1; encode them to Latin-1 and read "
        "that as UTF-8",
        "markup": "HTML in {} of the lines would be learned as text; strip tags and entities first",
        "long_line": f"{{}} lines are longer than {LONG_LINE_CHARACTERS:,} characters; they are cut into "
        "sentences, but memory is needed for a whole line: put paragraphs on lines of their own",
    }
    for kind, message in messages.items():
        count = facts.counts[kind]
        if count:
            path, line = facts.first_places[kind]
            yield Finding("warning", kind, f"{path}:{line}: {message.format(f'{count:,}')}")
    unknown, tokens = facts.counts["unknown"], facts.counts["tokens"]
    if tokens and unknown / tokens > _MAX_UNKNOWN_RATE:
        words = " ".join(word for word, _ in facts.unknown.most_common(_NUM_EXAMPLES))
        yield Finding(
            "warning",
            "unknown",
            f"{unknown / tokens:.1%} of the tokens are [UNK], such as {words}; learn a vocabulary from this "
            "text with `glassbert vocab train`, or add words with `glassbert vocab extend`",
        )


def _boundary_findings(facts: TextFacts) -> Iterator[Finding]:
    num_documents, num_short = facts.counts["documents"], facts.counts["short_documents"]
    if not facts.counts["sentences"]:
        yield Finding("error", "empty", "no text in any file; are they the right ones?")
    elif num_documents < 2:
        yield Finding(
            "warning",
            "one_document",
            "no document boundary: next-sentence prediction (objective mlm+nsp) needs text from another "
            "document; put blank lines between documents, or train with objective mlm or sop",
        )
    elif num_short / num_documents > _MAX_SHORT_DOCUMENTS:
        yield Finding(
            "warning",
            "short_documents",
            f"{num_short:,} of {num_documents:,} documents are one sentence, which has no next one to "
            "predict; if a line is not a document, add --form sentences, else train with objective mlm",
        )


def _duplicate_findings(
    repeated: Repetitions, alike: NearDuplicates, texts: Sequence[TextSource]
) -> Iterator[Finding]:
    def place(number: int) -> str:
        file, line = file_and_line(number)
        return f"{texts[file].path}:{line}"

    if repeated.num_repeated > _MAX_REPEATED_RATE * repeated.num_total:
        examples = "; ".join(
            f"{place(one.first_place)} occurs {one.count:,} times, next at {place(one.second_place)}"
            for one in repeated.most_frequent
        )
        yield Finding(
            "warning",
            "repeated_lines",
            f"{repeated.num_repeated:,} of {repeated.num_total:,} lines of {MIN_CHARACTERS} or more "
            f"characters repeat an earlier one ({examples}); add --drop-duplicates to `corpus build`",
        )
    if alike.num_found:
        examples = "; ".join(
            f"{place(one)} is like {place(other)} ({share:.0%})" for one, other, share in alike.examples
        )
        yield Finding(
            "warning",
            "near_duplicates",
            f"{alike.num_found:,} of {alike.num_compared:,} documents have {MIN_SIMILARITY:.0%} or more in "
            f"common with an earlier one ({examples}); remove them, or the model learns them by heart",
        )


def _lengths(counts: NDArray[np.int64]) -> Lengths:
    total = int(counts.sum())
    if not total:
        return Lengths(0.0, 0, 0, 0)
    ends = np.cumsum(counts)
    return Lengths(
        mean=float(np.dot(counts, np.arange(len(counts))) / total),
        median=int(np.searchsorted(ends, 0.5 * total)),
        p95=int(np.searchsorted(ends, 0.95 * total)),
        maximum=int(np.flatnonzero(counts)[-1]),
    )

"""`glassbert vocab`: learn, inspect and extend vocabularies."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import cyclopts

from glassbert.cli.output import print_json, progress_bar, tell_assumptions
from glassbert.errors import DataError, UserError
from glassbert.model_names import model_folder
from glassbert.storage import check_apart, new_folder

if TYPE_CHECKING:
    from glassbert.text.extend import ExtensionPlan
    from glassbert.text.inspection import TextReport, VocabularyReport
    from glassbert.text.wordpiece.learn import LearnedVocabulary, LearnSettings
    from glassbert.text.wordpiece.tokenizer import Tokenizer

app = cyclopts.App(name="vocab", help="Learn, inspect and extend vocabularies.")

_VOCABULARY_FILES = ("vocab.txt", "tokenizer.json")
_MODEL_FILES = ("config.json", "bert_config.json", "model.safetensors", "pytorch_model.bin")
_NUM_TOLD = 10


@app.command
def train(
    files: list[Path],
    /,
    *,
    size: int,
    out: Path,
    cased: bool = False,
    min_count: int = 1,
    alphabet_coverage: float = 0.9999,
    max_alphabet: int | None = None,
    unused: int = 0,
    processes: int | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Learn a vocabulary from text, always the same one from the same text.

    Parameters
    ----------
    files:
        Text, .jsonl with a "text" in each line, either packed with gzip, or folders of such files.
    size:
        Number of pieces, special ones included; met exactly.
    out:
        Folder to write; `glassbert tokenize` and transformers load it.
    cased:
        Keep capital letters and accents.
    min_count:
        How often a pair of pieces must occur to become a piece.
    alphabet_coverage:
        Share of the text's characters that the alphabet covers, the most frequent first.
    max_alphabet:
        Most characters that the alphabet may hold.
    unused:
        Rows to keep free as [unused1], [unused2], ...
    processes:
        Processes that count words, one for each core when not given; the result is the same.
    force:
        Replace a vocabulary that the folder holds.
    json:
        Print the report as JSON.
    """
    from glassbert.text.wordpiece.learn import LearnSettings

    settings = LearnSettings(
        size=size,
        cased=cased,
        min_count=min_count,
        alphabet_coverage=alphabet_coverage,
        max_alphabet=max_alphabet,
        num_unused=unused,
        processes=processes if processes is not None else os.cpu_count() or 1,
    )
    learned = _learn_into(out, files, settings, force)
    if json:
        print_json({"out": str(out), "sha256": learned.vocabulary.sha256, **asdict(learned.report)})
    else:
        print("\n".join(_learn_lines(out, learned)))


@app.command
def inspect(folder: str, /, *, text: list[Path] | None = None, json: bool = False) -> None:
    """Show what the rows of a vocabulary are, which can never be used, and how it does on a text.

    Parameters
    ----------
    folder:
        Folder with a vocabulary.
    text:
        Text to measure on: files as for `vocab train`; may be given several times.
    json:
        Print the report as JSON.
    """
    from glassbert.text.inspection import inspect_text, inspect_vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(model_folder(folder))
    tell_assumptions(tokenizer)
    report = inspect_vocabulary(tokenizer)
    text_report = None
    if text:
        with _progress() as on_progress:
            text_report = inspect_text(tokenizer, text, on_progress)
    if json:
        rest = {"text": asdict(text_report)} if text_report else {}
        print_json({**asdict(report), "num_dead": report.num_dead, **rest})
        return
    print("\n".join(_vocabulary_lines(report)))
    if text_report:
        print("\n".join(_text_lines(text_report)))


@app.command
def extend(model: str, /, *, words: Path, out: Path, force: bool = False, json: bool = False) -> None:
    """Add words to the vocabulary of a model, or of a folder with a vocabulary only.

    Free [unusedN] rows are taken first. A model's new row starts as the mean of the word's old pieces.

    Parameters
    ----------
    model:
        Folder to read.
    words:
        File with one word a line.
    out:
        Folder to write.
    force:
        Replace what the folder holds.
    json:
        Print the report as JSON.
    """
    from glassbert.text.extend import plan_extension
    from glassbert.text.files import read_lines
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    source = model_folder(model)
    check_apart(source, out)
    _check_out(out, force)
    tokenizer = Tokenizer.load(source)
    tell_assumptions(tokenizer)
    plan = plan_extension(tokenizer, list(read_lines(words)))
    if not plan.rows:
        raise DataError(
            f"{words}: no word to add ({len(plan.already)} are pieces already, {len(plan.refused)} cannot "
            "be pieces); one new word a line is expected"
        )
    if _holds_model(source):
        from glassbert.interop.extend_rows import extend_rows

        extend_rows(source, out, plan, may_replace=force)
    else:
        _check_no_model(out)
        _save(Tokenizer(plan.vocabulary, **asdict(tokenizer.settings)), out)
    if json:
        print_json({"out": str(out), **_extension_json(plan)})
    else:
        print(f"{out}: {len(plan.vocabulary):,} pieces, {len(plan.rows):,} of them new")
        print("\n".join(_extension_lines(plan)))


def _learn_into(out: Path, files: list[Path], settings: "LearnSettings", force: bool) -> "LearnedVocabulary":
    from glassbert.text.wordpiece.learn import learn_vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    _check_out(out, force)
    _check_no_model(out)
    with _progress() as on_progress:
        learned = learn_vocabulary(files, settings, on_progress)
    _save(Tokenizer(learned.vocabulary, lowercase=not settings.cased), out)
    return learned


def _check_out(out: Path, force: bool) -> None:
    """Refuse a folder that must not be written to, before any work is done."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; name a folder to write to")
    if not force and any((out / name).exists() for name in _VOCABULARY_FILES):
        raise UserError(f"{out} holds a vocabulary; name another folder, or add --force to replace it")


def _check_no_model(out: Path) -> None:
    if _holds_model(out):
        raise UserError(f"{out} holds a model, which another vocabulary would spoil; name another folder")


def _holds_model(folder: Path) -> bool:
    return any((folder / name).exists() for name in _MODEL_FILES)


def _save(tokenizer: "Tokenizer", out: Path) -> None:
    """Write the tokenizer's files; a folder that is new appears with all of them or not at all."""
    if out.exists():
        tokenizer.save(out)
        return
    with new_folder(out) as folder:
        tokenizer.save(folder)


@contextmanager
def _progress() -> Iterator[Callable[[int, int, str], None]]:
    """Give a callback that draws one bar for each stage."""
    with progress_bar() as bar:
        tasks = {}

        def on_progress(done: int, total: int, stage: str) -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage)
            bar.update(tasks[stage], completed=done, total=total)

        yield on_progress


def _learn_lines(out: Path, learned: "LearnedVocabulary") -> Iterator[str]:
    report = learned.report
    yield f"{out}: {report.size:,} pieces, sha256 {learned.vocabulary.sha256}"
    yield f"text      {report.num_words:,} words, {report.num_distinct_words:,} distinct"
    yield f"alphabet  {report.alphabet_size:,} characters in {report.alphabet_rows:,} rows"
    yield f"coverage  {report.coverage:.5%} of {report.num_characters:,} characters"
    if report.num_dropped_characters:
        examples = _counted(report.dropped_examples)
        yield f"dropped   {report.num_dropped_characters:,} rare characters: {examples}"
    share = report.num_unknown_words / report.num_words
    yield f"unknown   {report.num_unknown_words:,} words ({share:.3%}) with such a character, or too long"
    yield f"learned   {report.num_learned:,} pieces; the last pair occurs {report.last_count:,} times"
    if report.num_pruned_words:
        yield (
            f"pruned    {report.num_pruned_occurrences:,} occurrences of "
            f"{report.num_pruned_words:,} rare words, to bound memory"
        )


def _vocabulary_lines(report: "VocabularyReport") -> Iterator[str]:
    yield f"size       {report.size:,}, {'cased' if report.cased else 'uncased'}"
    yield f"specials   {' '.join(f'{special}={id_}' for special, id_ in report.specials.items())}"
    yield f"unused     {report.num_unused:,}"
    yield "kind              start     ##"
    for kind, count in report.kinds.items():
        yield f"  {kind:<14} {count.starting:>6,} {count.continuing:>6,}"
    yield f"dead rows  {report.num_dead:,}, which no text can give"
    for rows in report.dead.values():
        yield f"  {rows.count:>6,}  {rows.reason}: {' '.join(map(_visible, rows.examples))}"


def _text_lines(report: "TextReport") -> Iterator[str]:
    yield f"text       {report.num_words:,} words, {report.num_pieces:,} pieces"
    yield (
        f"pieces     {report.pieces_per_word:.4f} a word, {report.pieces_per_long_word:.4f} a word of two "
        f"or more characters; {report.characters_per_piece:.4f} characters a piece"
    )
    yield f"unknown    {report.num_unknown:,} [UNK] ({report.unknown_rate:.3%} of pieces)"
    if report.num_unknown:
        examples = _counted(report.unknown_examples)
        yield f"           {report.num_distinct_unknown:,} distinct words: {examples}"
    yield f"coverage   {report.coverage:.5%} of characters stand in known words"
    yield f"rows used  {report.num_rows_used:,} ({report.rows_used:.1%} of those that can be used)"
    if report.num_pruned_occurrences:
        yield f"pruned     {report.num_pruned_occurrences:,} occurrences of rare words, to bound memory"


def _extension_lines(plan: "ExtensionPlan") -> Iterator[str]:
    before, after = plan.before, plan.after
    yield f"rows      {plan.num_reused:,} that were free, {len(plan.rows) - plan.num_reused:,} at the end"
    yield (
        f"words     {before.num_whole:,} -> {after.num_whole:,} of {before.num_words:,} in one piece; "
        f"{before.num_pieces:,} -> {after.num_pieces:,} pieces; {before.num_unknown:,} -> 0 with [UNK]"
    )
    if plan.unknown_starts:
        yield f"unknown   {len(plan.unknown_starts):,} start from [UNK] alone: {_some(plan.unknown_starts)}"
    if plan.already:
        yield f"already   {len(plan.already):,} are pieces: {_some(plan.already)}"
    if plan.num_duplicates or plan.num_empty:
        yield f"skipped   {plan.num_duplicates:,} lines that repeat a word, {plan.num_empty:,} empty lines"
    for refusal in plan.refused:
        yield f"refused   {refusal.word}: {refusal.reason}"


def _extension_json(plan: "ExtensionPlan") -> dict[str, object]:
    return {
        "size": len(plan.vocabulary),
        "added": [row._asdict() for row in plan.rows],
        "num_reused": plan.num_reused,
        "unknown_starts": plan.unknown_starts,
        "already": plan.already,
        "refused": [refusal._asdict() for refusal in plan.refused],
        "num_duplicates": plan.num_duplicates,
        "num_empty": plan.num_empty,
        "before": plan.before._asdict(),
        "after": plan.after._asdict(),
    }


def _counted(examples: Iterable[tuple[str, int]]) -> str:
    return " ".join(f"{_visible(text)} ({count:,})" for text, count in examples)


def _some(words: tuple[str, ...]) -> str:
    return " ".join(words[:_NUM_TOLD]) + (" ..." if len(words) > _NUM_TOLD else "")


def _visible(text: str) -> str:
    """Return ``text`` as it is, or escaped when printing it would show nothing or break the line."""
    return text if text.isprintable() else ascii(text)

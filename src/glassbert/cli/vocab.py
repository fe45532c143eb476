"""`glassbert vocab`: learn, inspect, extend and trim vocabularies."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter

from glassbert.cli.input import num_processes
from glassbert.cli.options import RunOptions, carry_out_and_print
from glassbert.cli.output import print_assumptions, print_json, print_lines, progress_bar, remark
from glassbert.errors import UserError
from glassbert.interop.families import encoder_folder
from glassbert.ranges import COUNT, PROCESSES, SHARE_ABOVE_ZERO, VOCABULARY_SIZE, Range
from glassbert.text.documents import Form

if TYPE_CHECKING:
    from glassbert.text.extend import ExtensionPlan
    from glassbert.text.inspection import TextReport, VocabularyReport
    from glassbert.text.wordpiece.learn import LearnedVocabulary

app = cyclopts.App(name="vocab", help="Learn, inspect, extend and trim vocabularies.")

_NUM_SHOWN = 10


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LearnOptions:
    """The options of `vocab train`."""

    size: Annotated[int, Parameter(validator=VOCABULARY_SIZE)]
    """Number of pieces, special ones included; met exactly."""
    out: Path
    """Folder to write; `glassbert tokenize` and transformers load it."""
    form: Form | None = None
    """As for `corpus build`: sentences, paragraphs, documents, jsonl or wikitext; detected when not given."""
    cased: bool = False
    """Keep capital letters and accents."""
    min_count: Annotated[int, Parameter(validator=COUNT)] = 1
    """How often a pair of pieces must occur to become a piece."""
    alphabet_coverage: Annotated[float, Parameter(validator=SHARE_ABOVE_ZERO)] = 0.9999
    """Share of the text's characters that the alphabet covers, the most frequent first."""
    max_alphabet: Annotated[int | None, Parameter(validator=VOCABULARY_SIZE)] = None
    """Most characters that the alphabet may hold."""
    unused: Annotated[int, Parameter(validator=Range(0, 10**6))] = 0
    """Rows to keep free as [unused1], [unused2], ..."""
    processes: Annotated[int | None, Parameter(validator=PROCESSES)] = None
    """Processes that count words, one for each core when not given; the result is the same."""
    force: bool = False
    """Replace a vocabulary that the folder holds."""
    json: bool = False
    """Print the report as JSON."""


@app.command
def train(files: list[Path], /, *, options: LearnOptions) -> None:
    """Learn a vocabulary from text; the same text always gives the same vocabulary.

    Args:
        files: Text, plain or packed (.gz, .zst), or folders of such files.
    """
    from glassbert.text.wordpiece.learn import learn_vocabulary

    with _progress() as on_progress:
        learned = learn_vocabulary(
            files,
            out=options.out,
            form=options.form,
            overwrite=options.force,
            log=remark,
            on_progress=on_progress,
            size=options.size,
            cased=options.cased,
            min_count=options.min_count,
            alphabet_coverage=options.alphabet_coverage,
            max_alphabet=options.max_alphabet,
            num_unused=options.unused,
            processes=num_processes(options.processes),
        )
    if options.json:
        out, sha256 = str(options.out), learned.vocabulary.sha256
        print_json({"out": out, "sha256": sha256, **asdict(learned.report)})
    else:
        print_lines(_learn_lines(options.out, learned))


@app.command
def inspect(
    folder: str, /, *, text: list[Path] | None = None, form: Form | None = None, json: bool = False
) -> None:
    """Show what the rows of a vocabulary are, which can never be used, and how well it fits a text.

    Args:
        folder: Folder with a vocabulary.
        text: Text to measure on: files as for `vocab train`; may be given several times.
        form: Form of the text, as for `vocab train`.
        json: Print the report as JSON.
    """
    from glassbert.text.inspection import inspect_text, inspect_vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(encoder_folder(folder))
    print_assumptions(tokenizer)
    report = inspect_vocabulary(tokenizer)
    text_report = None
    if text:
        with _progress() as on_progress:
            text_report = inspect_text(tokenizer, text, form=form, log=remark, on_progress=on_progress)
    if json:
        rest = {"text": asdict(text_report)} if text_report else {}
        print_json({**asdict(report), "num_dead": report.num_dead, **rest})
        return
    print_lines(_vocabulary_lines(report))
    if text_report:
        print_lines(_text_lines(text_report))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExtendOptions:
    """The options of `vocab extend`."""

    out: Path
    """Folder to write; with --from, the folder of a run."""
    words: Path | None = None
    """File with one word per line."""
    from_: Annotated[list[Path] | None, Parameter(name="--from")] = None
    """Raw text whose words are added where they become [UNK] or many pieces; the new rows are trained."""
    components: Path | None = None
    """With --from: file of Chinese characters with their components, to initialise new characters."""
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None
    """With --from: change a setting, such as extend.most=200 or train.steps=100."""
    force: bool = False
    """With --words: replace what the folder holds."""
    json: bool = False
    """Print the report as JSON."""


@app.command
def extend(model: str, /, *, options: ExtendOptions) -> None:
    """Add words to the vocabulary of a model, or of a folder with a vocabulary only.

    Free [unusedN] rows are taken first. With --words, a model's new row starts as the mean of the word's old
    pieces. With --from, it starts as what the model expects in its contexts, and the new rows are trained.

    Args:
        model: Folder to read.
    """
    if (options.words is None) == (options.from_ is None):
        raise UserError("name either --words FILE or --from TEXT")
    if options.from_ is not None:
        _extend_from_text(model, options)
        return
    if options.set_ or options.components:
        raise UserError("--set and --components are for --from TEXT; leave them out")
    from glassbert.interop.extend import extend_vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    assert options.words is not None
    source = encoder_folder(model)
    print_assumptions(Tokenizer.load(source))
    plan = extend_vocabulary(source, options.words, options.out, overwrite=options.force)
    if options.json:
        print_json({"out": str(options.out), **_extension_json(plan)})
    else:
        first = f"{options.out}: {len(plan.vocabulary):,} pieces, {len(plan.rows):,} of them new"
        print_lines([first, *_extension_lines(plan)])


def _extend_from_text(model: str, options: ExtendOptions) -> None:
    from glassbert.runs.extend import ExtendRecipe
    from glassbert.runs.recipe import changed

    given = {
        "model": model,
        "text": list(map(str, options.from_ or ())),
        **({} if options.components is None else {"components": str(options.components)}),
    }
    recipe = ExtendRecipe.of(changed({"extend": given}, options.set_ or ()))
    carry_out_and_print(recipe, "extend", RunOptions(out=options.out, json=options.json))


@app.command
def trim(
    model: str,
    /,
    *,
    text: list[Path],
    out: Path,
    form: Form | None = None,
    characters: bool = False,
    force: bool = False,
    json: bool = False,
) -> None:
    """Drop the rows of a model's vocabulary that a text never uses; for that text, it computes the same.

    Args:
        model: Folder to read.
        text: Text that the model will be used for: files as for `vocab train`; may be given several times.
        out: Folder to write.
        form: Form of the text, as for `vocab train`.
        characters: Also keep every single character, so that few words of other text become [UNK].
        force: Replace what the folder holds.
        json: Print the report as JSON.
    """
    from glassbert.interop.trim import trim_vocabulary

    found = trim_vocabulary(model, text, out, form=form, characters=characters, overwrite=force, log=remark)
    if json:
        print_json({"out": str(out), **found.to_json()})
        return
    print_lines(
        [
            f"{out}: {found.rows_after:,} of {found.rows_before:,} rows",
            f"parameters {found.parameters_before:,} -> {found.parameters_after:,}",
            f"text       {found.words:,} distinct words, all cut as before",
            f"dropped    {len(found.dropped):,} pieces: {_some(found.dropped)}",
        ]
    )


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
        f"pieces     {report.pieces_per_word:.4f} per word, {report.pieces_per_long_word:.4f} per word of "
        f"two or more characters; {report.characters_per_piece:.4f} characters per piece"
    )
    yield f"unknown    {report.num_unknown:,} [UNK] ({report.unknown_rate:.3%} of pieces)"
    if report.num_unknown:
        examples = _counted(report.unknown_examples)
        yield f"           {report.num_distinct_unknown:,} distinct words: {examples}"
    yield f"coverage   {report.coverage:.5%} of characters are in known words"
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
    return " ".join(words[:_NUM_SHOWN]) + (" ..." if len(words) > _NUM_SHOWN else "")


def _visible(text: str) -> str:
    """Return ``text`` as it is, or escaped when printing it would show nothing or break the line."""
    return text if text.isprintable() else ascii(text)

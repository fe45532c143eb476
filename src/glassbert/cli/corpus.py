"""`glassbert corpus`: build a corpus for pre-training, and check text before."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cyclopts
from cyclopts import Parameter
from rich.progress import TextColumn

from glassbert.cli.input import num_processes
from glassbert.cli.output import print_json, print_lines, progress_bar, remark
from glassbert.interop.families import encoder_folder
from glassbert.ranges import COUNT, PROCESSES, SHARE_BELOW_ONE
from glassbert.text.documents import Form

if TYPE_CHECKING:
    from glassbert.data.corpus.build import Built
    from glassbert.data.corpus.check import CheckReport
    from glassbert.text.sources import ReadProgress

app = cyclopts.App(name="corpus", help="Build a corpus for pre-training; check text before.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """The options of `corpus build`."""

    tokenizer: str
    """Folder with a vocabulary."""
    out: Path
    """Folder to write."""
    form: Form | None = None
    """sentences or paragraphs (one per line, blank lines between documents), documents (one per line), jsonl
    (a "text" in each line) or wikitext (` = Title = ` opens a document); detected when not given."""
    segmenter: str | None = None
    """Finds Chinese words for whole-word masking: rjieba, jieba, or a file with one word per line."""
    shard_tokens: Annotated[int, Parameter(validator=COUNT)] = 1 << 24
    """A shard ends with the first document that brings it to this size."""
    processes: Annotated[int | None, Parameter(validator=PROCESSES)] = None
    """Number of processes, one for each core when not given; the result is the same."""
    drop_duplicates: bool = False
    """Leave out repeated lines; takes 8 bytes of memory for each line."""
    held_out: Annotated[float, Parameter(validator=SHARE_BELOW_ONE)] = 0.0
    """Share of the documents, such as 0.01, that go into a corpus of their own in OUT/held-out; `pretrain`
    measures on them and does not train on them. The choice depends on their place in the files alone."""
    force: bool = False
    """Replace a corpus that the folder holds."""
    json: bool = False
    """Print the report as JSON."""


@app.command
def build(files: list[Path], /, *, options: BuildOptions) -> None:
    """Turn text into shards of token ids. The same command resumes a build that was interrupted.

    Args:
        files: Text, plain or packed (.gz, .zst), or folders of such files.
    """
    from glassbert.data.corpus.build import build_corpus

    try:
        with _reading("build") as on_read:
            built = build_corpus(
                files,
                tokenizer=encoder_folder(options.tokenizer),
                out=options.out,
                form=options.form,
                segmenter=options.segmenter,
                shard_tokens=options.shard_tokens,
                drop_duplicates=options.drop_duplicates,
                held_out=options.held_out,
                processes=num_processes(options.processes),
                overwrite=options.force,
                log=remark,
                on_read=on_read,
            )
    except KeyboardInterrupt:
        remark("finished shards are kept; run the same command again to resume")
        raise
    _remark_on(built)
    if options.json:
        held = {"held_out": built.held_out.totals()} if built.held_out else {}
        print_json({"out": str(options.out), **built.manifest.to_json(), **held})
    else:
        print_lines(_build_lines(options.out, built))


@app.command
def check(
    files: list[Path],
    /,
    *,
    tokenizer: str | None = None,
    form: Form | None = None,
    processes: Annotated[int | None, Parameter(validator=PROCESSES)] = None,
    json: bool = False,
) -> None:
    """Report what a text is and what would go wrong with it: where, and what to do.

    Args:
        files: Text, plain or packed (.gz, .zst), or folders of such files.
        tokenizer: Folder with a vocabulary, to count unknown words.
        form: As for `corpus build`.
        processes: Number of processes, one for each core when not given.
        json: Print the report as JSON.
    """
    from glassbert.data.corpus.check import check_corpus
    from glassbert.errors import DataError

    with _reading("check") as on_read:
        report = check_corpus(
            files,
            form=form,
            tokenizer=None if tokenizer is None else encoder_folder(tokenizer),
            processes=num_processes(processes),
            log=remark,
            on_read=on_read,
        )
    if json:
        print_json(asdict(report))
    else:
        print_lines(_check_lines(report))
    num_errors = sum(finding.level == "error" for finding in report.findings)
    if num_errors:
        raise DataError(f"`corpus build` would stop at {num_errors} of the findings; see the errors above")


def _remark_on(built: "Built") -> None:
    """Say what was there before, and what the corpus lacks."""
    if built.num_shards_before:
        num_shards = len(built.manifest.shards)
        were = "were" if num_shards > 1 else "was"
        remark(f"{built.num_shards_before} of {_counted(num_shards, 'shard')} {were} there already")
    if not built.manifest.has_documents:
        remark(
            "one document only: next-sentence prediction needs two; train with objective mlm or sop, or put "
            "blank lines between documents"
        )
    elif built.held_out and not built.held_out.has_documents:
        remark("one document only is held out: next-sentence prediction needs two; hold out a larger share")


@contextmanager
def _reading(stage: str) -> Iterator[Callable[["ReadProgress"], None]]:
    """Give a callback that draws how far the files are read, at how many megabytes of text a second."""
    with progress_bar() as bar:
        bar.columns = (*bar.columns, TextColumn("{task.fields[rate]}"))
        task = bar.add_task(stage, total=None, rate="")

        def on_read(progress: "ReadProgress") -> None:
            elapsed_s = bar.tasks[0].elapsed or 0.0
            rate = f"{progress.num_text_bytes / 1e6 / elapsed_s:.1f} MB/s" if elapsed_s else ""
            bar.update(task, completed=progress.num_done, total=progress.num_total, rate=rate)

        yield on_read


def _build_lines(out: Path, built: "Built") -> Iterator[str]:
    from glassbert.data.corpus.manifest import HELD_OUT

    manifest = built.manifest
    yield f"{out}: {manifest.num_tokens:,} tokens in {_counted(len(manifest.shards), 'shard')}"
    yield f"text        {manifest.num_bytes / 1e6:,.1f} MB of {_counted(len(manifest.sources), 'file')}"
    yield f"documents   {manifest.num_documents:,}"
    yield (
        f"sentences   {manifest.num_sentences:,}, {manifest.num_tokens / manifest.num_sentences:.1f} tokens "
        "on average"
    )
    yield f"unknown     {manifest.num_unknown:,} [UNK] ({manifest.num_unknown / manifest.num_tokens:.3%})"
    if manifest.num_duplicate_lines_dropped is not None:
        yield f"duplicates  {manifest.num_duplicate_lines_dropped:,} repeated lines were dropped"
    if manifest.segmenter:
        yield f"segmenter   {manifest.segmenter}"
    if built.held_out:
        total = manifest.num_documents + built.held_out.num_documents
        yield (
            f"held out    {built.held_out.num_documents:,} more documents "
            f"({built.held_out.num_documents / total:.1%} of all), {built.held_out.num_tokens:,} tokens, in "
            f"{out / HELD_OUT}"
        )


def _check_lines(report: "CheckReport") -> Iterator[str]:
    lengths = report.sentence_lengths
    yield "form        " + ", ".join(
        f"{form} ({_counted(count, 'file')})" for form, count in report.forms.items()
    )
    yield f"text        {report.num_bytes / 1e6:,.1f} MB, {report.num_lines:,} lines"
    yield f"documents   {report.num_documents:,}"
    yield (
        f"sentences   {report.num_sentences:,}; characters: mean {lengths.mean:.0f}, "
        f"median {lengths.median}, 95% up to {lengths.p95}, longest {lengths.maximum}"
    )
    yield "scripts     " + ", ".join(f"{script} {share:.1%}" for script, share in report.scripts.items())
    yield (
        f"repeated    {report.num_repeated_lines:,} of {report.num_compared_lines:,} lines; "
        f"{report.num_near_duplicates:,} of {report.num_compared_documents:,} documents nearly"
    )
    if report.num_tokens:
        examples = " ".join(f"{word} ({count:,})" for word, count in report.unknown_examples)
        share = (report.num_unknown or 0) / report.num_tokens
        yield f"tokens      {report.num_tokens:,}"
        yield f"unknown     {report.num_unknown:,} [UNK] ({share:.3%} of the tokens) {examples}"
    for finding in report.findings:
        yield f"{finding.level:<11} {finding.message}"
    if not report.findings:
        yield "nothing would go wrong"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

"""`glassbert corpus`: build a corpus for pre-training, and check text before."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import cyclopts
from rich.progress import TextColumn

from glassbert.cli.output import print_json, progress_bar, remark, tell_assumptions
from glassbert.model_names import model_folder

if TYPE_CHECKING:
    from glassbert.data.corpus.build import BuildSettings, Built
    from glassbert.data.corpus.check import CheckReport
    from glassbert.data.corpus.stream import ReadProgress, Sources

app = cyclopts.App(name="corpus", help="Build a corpus for pre-training; check text before.")

# As in data/documents.py, which is not imported for a help text.
Form = Literal["sentences", "paragraphs", "documents", "jsonl", "wikitext"]


@app.command
def build(
    files: list[Path],
    /,
    *,
    tokenizer: str,
    out: Path,
    form: Form | None = None,
    segmenter: str | None = None,
    shard_tokens: int = 1 << 24,
    processes: int | None = None,
    drop_duplicates: bool = False,
    held_out: float = 0.0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Turn text into shards of token ids. A build that was stopped goes on when it is called again.

    Parameters
    ----------
    files:
        Text, plain or packed (.gz, .zst), or folders of such files.
    tokenizer:
        Folder with a vocabulary.
    out:
        Folder to write.
    form:
        sentences or paragraphs (one a line, blank lines between documents), documents (one a line), jsonl (a
        "text" in each line) or wikitext (` = Title = ` opens a document); seen from the text when not given.
    segmenter:
        Finds Chinese words for whole-word masking: rjieba, jieba, or a file with one word a line.
    shard_tokens:
        A shard ends with the first document that brings it to this size.
    processes:
        Processes that work, one for each core when not given; the result is the same.
    drop_duplicates:
        Leave out every line that came before; takes 8 bytes of memory for each line.
    held_out:
        Share of the documents, such as 0.01, that go into a corpus of their own in OUT/held-out; `pretrain`
        measures on them and does not train on them. Which ones depends on their place in the files alone.
    force:
        Replace a corpus that the folder holds.
    json:
        Print the report as JSON.
    """
    from glassbert.data.corpus.build import BuildSettings

    settings = BuildSettings(
        segmenter=segmenter,
        shard_tokens=shard_tokens,
        drop_duplicates=drop_duplicates,
        held_out=held_out,
        processes=processes if processes is not None else os.cpu_count() or 1,
    )
    built = _build_into(out, files, form, tokenizer, settings, force)
    if json:
        held = {"held_out": built.held_out.totals()} if built.held_out else {}
        print_json({"out": str(out), **built.manifest.to_json(), **held})
    else:
        print("\n".join(_build_lines(out, built)))


@app.command
def check(
    files: list[Path],
    /,
    *,
    tokenizer: str | None = None,
    form: Form | None = None,
    processes: int | None = None,
    json: bool = False,
) -> None:
    """Tell what text is and what would go wrong with it: where, and what to do.

    Parameters
    ----------
    files:
        Text, plain or packed (.gz, .zst), or folders of such files.
    tokenizer:
        Folder with a vocabulary, to count unknown words.
    form:
        As for `corpus build`.
    processes:
        Processes that work, one for each core when not given.
    json:
        Print the report as JSON.
    """
    from glassbert.data.corpus.check import check_text
    from glassbert.errors import DataError

    num_processes = processes if processes is not None else os.cpu_count() or 1
    folder = None if tokenizer is None else model_folder(tokenizer)
    with _reading("check") as on_read:
        report = check_text(
            files, form=form, tokenizer_folder=folder, processes=num_processes, on_read=on_read
        )
    if json:
        print_json(asdict(report))
    else:
        print("\n".join(_check_lines(report)))
    num_errors = sum(finding.level == "error" for finding in report.findings)
    if num_errors:
        raise DataError(f"`corpus build` would stop at {num_errors} of the findings; see the errors above")


def _build_into(
    out: Path, files: list[Path], form: Form | None, tokenizer: str, settings: "BuildSettings", force: bool
) -> "Built":
    """Build, and tell on the way what was seen and what the result lacks."""
    from glassbert.data.corpus.build import build_corpus
    from glassbert.data.corpus.stream import find_sources
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    loaded = Tokenizer.load(model_folder(tokenizer))
    tell_assumptions(loaded)
    sources = find_sources(files, form)
    _tell_sources(sources, form)
    try:
        with _reading("build") as on_read:
            built = build_corpus(sources, loaded, out, settings, may_replace=force, on_read=on_read)
    except KeyboardInterrupt:
        remark("finished shards are kept; run the same command again to go on")
        raise
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
    return built


def _tell_sources(sources: "Sources", form: Form | None) -> None:
    for path in sources.empty:
        remark(f"{path}: no text in it; left out")
    for found, count in sources.form_counts().items():
        example = next(source.path.name for source in sources.texts if source.form == found)
        how = "as told" if form else "as seen from the text; --form says otherwise"
        remark(f"form: {found} ({how}), {_counted(count, 'file')} such as {example}")


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
    from glassbert.data.corpus.build import HELD_OUT

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
        yield f"duplicates  {manifest.num_duplicate_lines_dropped:,} lines that came before were dropped"
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

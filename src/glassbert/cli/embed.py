"""`embed`: texts become vectors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.files import FilesOptions, report_files, shown_progress
from glassbert.cli.input import input_texts
from glassbert.cli.options import read_options
from glassbert.cli.output import InputSource, print_json, print_remarks, progress_bar, remark
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.outputs import ARRAY, ARRAY_HEADER, ARRAY_START, check_files, check_ours
from glassbert.ranges import COUNT_OR_NONE
from glassbert.storage import new_file, parents_of
from glassbert.text.portions import grouped
from glassbert.text.truncate import Keep

if TYPE_CHECKING:
    from glassbert.inference.embeddings import Embeddings

# Texts that are read, sorted by length and embedded together: memory stays the same for any input.
CHUNK = 4096
CHUNK_CHARACTERS = 1 << 24


def embed(
    model: str,
    source: InputSource = "-",
    /,
    *,
    keep: Keep = "head",
    prompt_name: str | None = None,
    out: Path | None = None,
    force: bool = False,
    to: Literal["jsonl", "parquet"] | None = None,
    format: str | None = None,
    skip_bad: Annotated[int, Parameter(validator=COUNT_OR_NONE)] = 0,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    spread: FilesOptions | None = None,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Turn texts into vectors: one per line of input, or of all files of a folder.

    Args:
        model: Model folder; one of sentence-transformers says how to pool, others use the mean.
        source: File of texts, one per line or JSON objects with "text"; - is stdin. Or a folder of files, or
            a parquet file: each gets a file of results in --out, and a run that was killed resumes.
        keep: Which part of a text that is too long is kept.
        prompt_name: Which prompt of a sentence-transformers folder to put before each text, such as query;
            its default one when not given.
        out: Write all vectors as one numpy array (.npy) instead of printing them; for a folder, the folder
            of the results.
        force: Replace the array of --out if it exists.
        to: For a folder: write JSON lines or parquet; jsonl when not given.
        format: For a folder: the format of its files; detected when not given.
        skip_bad: For a folder: bad rows that are allowed; more end in exit code 3. Each keeps its place.
        set_: For a folder: change how rows are read, such as data.columns.text=review.
        json: Print objects with "embedding", "tokens" and "truncated"; otherwise numbers separated by tabs.
    """
    spread = spread or FilesOptions()
    if source == "-" or not (Path(source).is_dir() or source.endswith(".parquet")):
        spread.check_unused()
        if to or format or skip_bad or set_:
            raise UserError("--to, --format, --skip-bad and --set are for a folder of files; leave them out")
        if out is not None:
            _check_array(out, [model_folder(model), *([] if source == "-" else [source])], force)
        _embed_lines(model, source, out, keep, prompt_name, where, json=json)
        return
    if force:
        raise UserError("--force is for an array; results of a folder are resumed, leave it out")
    from glassbert.bulk.api import embed_files

    if out is None:
        raise UserError(f"{source}: name the folder of the results with --out FOLDER")
    options = read_options(set_, format, skip_bad)
    how = {"keep": keep, "prompt_name": prompt_name, "to": to or "jsonl", **spread.engine_settings(where)}
    with shown_progress("embedding") as on_progress:
        result = embed_files(model, source, out, options=options, on_progress=on_progress, **how)
    report_files(result, skip_bad, json=json)


def _embed_lines(
    model: str,
    source: str,
    out: Path | None,
    keep: Keep,
    prompt_name: str | None,
    where: DeviceOptions | None,
    *,
    json: bool,
) -> None:
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model

    texts = input_texts(source)  # before the model, which takes seconds
    loaded = load(model, Model, **place_of(where))
    loaded.prompt(prompt_name)  # refuse an unknown name before anything is written
    print_remarks(loaded)
    if loaded.sentences is None:
        remark(f"{model} does not say how to pool; a text's vector is the mean over its tokens")
    num_texts = num_truncated = 0
    with nullcontext() if out is None else _vector_file(out) as append, progress_bar() as bar:
        task = bar.add_task("embedding", total=None)
        for batch in grouped(texts, max_items=CHUNK, max_characters=CHUNK_CHARACTERS):
            embeddings = loaded.embed(batch, keep=keep, prompt_name=prompt_name)
            num_texts += len(batch)
            num_truncated += sum(embeddings.truncated)
            if append is not None:
                append(embeddings)
            else:
                _print_embeddings(embeddings, json)
            bar.update(task, advance=len(batch))
    if num_truncated:
        remark(
            f"{num_truncated} of {num_texts} texts were longer than {loaded.max_length} tokens and were cut"
        )


def _check_array(out: Path, reads: list[str | Path], force: bool) -> None:
    """Refuse an output that is not an array that we wrote, or that is an input, before any work."""
    if out.suffix != ".npy":
        raise UserError(f"--out {out}: expected a name that ends in .npy")
    check_files([out], reads)
    check_ours(out, ARRAY, overwrite=force)


def _print_embeddings(embeddings: "Embeddings", json: bool) -> None:
    from glassbert.inference.embeddings import each_text

    for one in each_text(embeddings):
        if json:
            print_json(one.to_json())
        else:
            print("\t".join(f"{number:.7g}" for number in one.embedding.tolist()))


@contextmanager
def _vector_file(path: Path) -> Iterator[Callable[[Any], None]]:
    """Yield a function that appends rows to a .npy file, so that none stays in memory."""
    num_rows, width = 0, 0
    with parents_of(path), new_file(path) as file:

        def write_header() -> None:
            header = repr({"descr": "<f4", "fortran_order": False, "shape": (num_rows, width)})
            file.write(ARRAY_START + header.encode().ljust(ARRAY_HEADER - 1) + b"\n")

        def append(rows: Any) -> None:
            nonlocal num_rows, width
            if not num_rows:
                width = rows.shape[1]
                write_header()  # with room for any number of rows
            file.write(rows.astype("<f4").tobytes())
            num_rows += len(rows)

        yield append
        file.seek(0)
        write_header()

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
from glassbert.outputs import check_files, check_kind
from glassbert.ranges import COUNT_OR_NONE
from glassbert.storage import new_file
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
    out: Path | None = None,
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
        keep: Which part of a text that is too long stays.
        out: Write all vectors as one numpy array (.npy) instead of printing them; for a folder, the folder
            of the results.
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
        _embed_lines(model, source, out, keep, where, json=json)
        return
    from glassbert.bulk.api import embed_files

    if out is None:
        raise UserError(f"{source}: name the folder of the results with --out FOLDER")
    options = read_options(set_, format, skip_bad)
    settings = {"keep": keep, "to": to or "jsonl", "options": options, **spread.engine_settings(where)}
    with shown_progress("embedding") as on_progress:
        result = embed_files(model, source, out, on_progress=on_progress, **settings)
    report_files(result, skip_bad, json=json)


def _embed_lines(
    model: str, source: str, out: Path | None, keep: Keep, where: DeviceOptions | None, *, json: bool
) -> None:
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model

    if out is not None and out.suffix != ".npy":
        raise UserError(f"--out {out}: expected a name that ends in .npy")
    texts = input_texts(source)  # before the model, which takes seconds
    if out is not None:
        check_files([out], [model_folder(model), *([] if source == "-" else [source])])
        check_kind(out, b"\x93NUMPY", "a numpy array")
    loaded = load(model, Model, **place_of(where))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    print_remarks(loaded)
    if loaded.sentences is None:
        remark(f"{model} does not say how to pool; a text's vector is the mean over its tokens")
    num_texts = num_truncated = 0
    with nullcontext() if out is None else _vector_file(out) as append, progress_bar() as bar:
        task = bar.add_task("embedding", total=None)
        for batch in grouped(texts, max_items=CHUNK, max_characters=CHUNK_CHARACTERS):
            embeddings = loaded.embed(batch, keep=keep)
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
    from numpy.lib.format import write_array_header_1_0

    num_rows, width = 0, 0
    with new_file(path) as file:

        def write_header() -> None:
            shape = (num_rows, width)
            write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})

        def append(rows: Any) -> None:
            nonlocal num_rows, width
            if not num_rows:
                width = rows.shape[1]
                write_header()  # numpy leaves room in it for any number of rows
            file.write(rows.astype("<f4").tobytes())
            num_rows += len(rows)

        yield append
        file.seek(0)
        write_header()

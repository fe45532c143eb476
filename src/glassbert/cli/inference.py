"""`fill` and `embed`: a model at work on text."""

import json as json_module
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

from glassbert.cli.output import InputSource, print_json, progress_bar, remark, stdin_lines, tell_assumptions
from glassbert.errors import DataError, UserError
from glassbert.model_names import model_folder
from glassbert.storage import new_file
from glassbert.text.files import read_lines
from glassbert.text.truncate import Keep

# Texts that are read, sorted by length and answered together: memory stays the same for any input.
CHUNK = 4096


def fill(model: str, text: str, /, *, top: int = 5, json: bool = False) -> None:
    """Show the likeliest words for each [MASK] in a text.

    Parameters
    ----------
    model:
        Model folder.
    text:
        Text with one or more [MASK].
    top:
        How many candidates to show for each mask.
    json:
        Print a list of {"token", "score"} for each mask, one a line.
    """
    from glassbert.inference.model import load

    loaded = load(model_folder(model))
    tell_assumptions(loaded.tokenizer)
    results = loaded.fill(text, top=top)
    if loaded.encode([text])[0].truncated:
        remark(f"the text was longer than {loaded.max_length} tokens and was cut")
    for number, candidates in enumerate(results, start=1):
        if json:
            print_json([{"token": candidate.token, "score": candidate.score} for candidate in candidates])
            continue
        for candidate in candidates:
            mask = f"{number}\t" if len(results) > 1 else ""
            print(f"{mask}{candidate.score:.4f}\t{candidate.token}")


def embed(
    model: str,
    source: InputSource = "-",
    /,
    *,
    keep: Keep = "head",
    out: Path | None = None,
    json: bool = False,
) -> None:
    """Turn texts into vectors, one per line of input.

    Parameters
    ----------
    model:
        Model folder; one of sentence-transformers brings its pooling, others use the mean.
    source:
        File of texts, one a line or JSON objects with "text"; - is stdin.
    keep:
        Which end of a text that is too long stays.
    out:
        Write all vectors as one numpy array (.npy) instead of printing them.
    json:
        Print objects with "embedding", "tokens" and "truncated"; plain output is numbers parted by tabs.
    """
    from glassbert.inference.model import load

    if out is not None and out.suffix != ".npy":
        raise UserError(f"--out {out}: expected a name that ends in .npy")
    loaded = load(model_folder(model))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    tell_assumptions(loaded.tokenizer)
    if not loaded.has_stated_pooling:
        remark(f"{model} does not say how to pool; a text's vector is the mean over its tokens")
    texts = input_texts(source)
    num_texts = num_truncated = 0
    with nullcontext() if out is None else _vector_file(out) as append, progress_bar() as bar:
        task = bar.add_task("embedding", total=None)
        while batch := list(islice(texts, CHUNK)):
            embeddings = loaded.embed(batch, keep=keep)
            num_texts += len(batch)
            num_truncated += sum(embeddings.truncated)
            if append is not None:
                append(embeddings.vectors)
            else:
                _print_embeddings(embeddings, json)
            bar.update(task, advance=len(batch))
    if num_truncated:
        remark(
            f"{num_truncated} of {num_texts} texts were longer than {loaded.max_length} tokens and were cut"
        )


def _print_embeddings(embeddings: Any, json: bool) -> None:
    rows = zip(embeddings.vectors.tolist(), embeddings.tokens, embeddings.truncated, strict=True)
    for vector, tokens, truncated in rows:
        if json:
            print_json({"embedding": vector, "tokens": tokens, "truncated": truncated})
        else:
            print("\t".join(f"{number:.7g}" for number in vector))


@contextmanager
def _vector_file(path: Path) -> Iterator[Callable[[Any], None]]:
    """Give a function that appends rows to a .npy file; none is kept in memory."""
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


def input_texts(source: str) -> Iterator[str]:
    """Yield the texts of a file or of stdin: plain lines, or JSON objects with "text"."""
    lines: Iterable[str] = stdin_lines() if source == "-" else read_lines(Path(source))
    for number, line in enumerate(lines, start=1):
        yield (
            _text_of(line, f"{'stdin' if source == '-' else source}:{number}")
            if line.startswith("{")
            else line
        )


def _text_of(line: str, place: str) -> str:
    """Return the text of a JSON line; a line that only looks like JSON is a text itself."""
    try:
        row = json_module.loads(line)
    except json_module.JSONDecodeError:
        return line
    if not isinstance(row.get("text"), str):
        raise DataError(f'{place}: a JSON object without a string "text"; add it, or give plain lines')
    return str(row["text"])

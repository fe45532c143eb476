"""`predict`: the predictions of a fine-tuned model."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.files import FilesOptions, report_files, shown_progress
from glassbert.cli.options import read_options
from glassbert.cli.output import InputSource, print_json, print_remarks, progress_bar, remark, stdin_lines
from glassbert.data.examples import BadRow, ReadOptions
from glassbert.errors import DataError, UserError
from glassbert.ranges import COUNT_OR_NONE, SHARE

if TYPE_CHECKING:
    from glassbert.data.rows.record import Notes
    from glassbert.tasks.task import Prediction


def predict(
    model: str,
    source: InputSource = "-",
    /,
    *,
    task: str | None = None,
    format: str | None = None,
    skip_bad: Annotated[int, Parameter(validator=COUNT_OR_NONE)] = 0,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    abstain_below: Annotated[float, Parameter(validator=SHARE)] = 0.0,
    accuracy: Annotated[float | None, Parameter(validator=SHARE)] = None,
    out: Path | None = None,
    spread: FilesOptions | None = None,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Print the prediction of a fine-tuned model for each row: one line of JSON each, in order.

    With --out, the rows of a folder of files are predicted into files of JSON lines; a run that was killed
    resumes.

    Args:
        model: Model folder, or folder of a run.
        source: File of texts: JSON lines, TSV with a header, or plain text; - is stdin. With --out also a
            folder of files, or a parquet file.
        task: What the model does, if its folder does not name its task.
        format: The format of the input; detected from its first lines when not given.
        skip_bad: Bad rows that are allowed; more end in exit code 3. Each prints {"error", "where"}.
        set_: Change how rows are read, such as data.columns.text=review; may be given several times.
        abstain_below: Give no label (null) whose score is lower.
        accuracy: Give no label below the score from which the model was right this often on its dev rows.
        out: Folder of the results: a file of JSON lines for each file of the input.
        json: The output is JSON lines with or without it.
    """
    spread = spread or FilesOptions()
    options = read_options(set_, format, skip_bad)
    if out is None:
        spread.check_unused()
        if source != "-" and Path(source).is_dir():
            raise UserError(f"{source} is a folder; name the folder of the results with --out FOLDER")
        _predict_rows(model, source, task, abstain_below, accuracy, options, where)
        return
    from glassbert.bulk.api import predict_files

    if source == "-":
        raise UserError("--out needs files; give a file or a folder, or leave --out out and redirect stdout")
    with shown_progress("predicting") as on_progress:
        result = predict_files(
            model,
            source,
            out,
            task=task,
            abstain_below=abstain_below,
            accuracy=accuracy,
            options=options,
            on_progress=on_progress,
            **spread.engine_settings(where),
        )
    report_files(result, skip_bad, json=json)


def _predict_rows(
    model: str,
    source: str,
    task: str | None,
    abstain_below: float,
    accuracy: float | None,
    options: ReadOptions,
    where: DeviceOptions | None,
) -> None:
    from glassbert.data.rows.lines import open_lines
    from glassbert.data.rows.read import stream_examples
    from glassbert.data.rows.record import Notes
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model
    from glassbert.inference.predict import predict_stream, schema_for, threshold_for_accuracy

    notes = Notes()
    # Opened before the model, which takes seconds.
    lines = stdin_lines() if source == "-" else open_lines(Path(source), notes)
    loaded = load(model, Model, **place_of(where))
    print_remarks(loaded)
    if accuracy is not None:
        abstain_below = max(abstain_below, threshold_for_accuracy(loaded, accuracy))
    name = "stdin" if source == "-" else source
    rows = stream_examples(schema_for(loaded.task, task), lines, name, options, notes)
    _print_all(predict_stream(loaded, rows, abstain_below=abstain_below), options.skip_bad, notes)


def _print_all(rows: "Iterable[Prediction | BadRow]", skip_bad: int, notes: "Notes") -> None:
    """Print a line for each row as it arrives; at the end, report how rows were read, cut and left out."""
    num_rows = num_truncated = num_bad = 0
    first_bad = ""
    with progress_bar() as bar:
        progress = bar.add_task("predicting", total=None)
        for row in rows:
            if isinstance(row, BadRow):
                content: dict[str, Any] = {"error": row.reason, "where": row.where}
                num_bad, first_bad = num_bad + 1, first_bad or f"{row.where}: {row.reason}"
            else:
                content = row.to_json()
            print_json(content)
            num_rows += 1
            num_truncated += bool(content.get("truncated"))
            bar.update(progress, advance=1)
    for note in notes.lines():
        remark(note)
    if num_truncated:
        remark(f"{num_truncated:,} of {num_rows:,} texts were too long and were cut")
    if num_bad > skip_bad:
        raise DataError(
            f"{num_bad:,} of {num_rows:,} rows could not be used; the first: {first_bad}; "
            f"allow them with --skip-bad {num_bad}"
        )

"""Which format a file has: by its name, and where that does not tell, by its first lines."""

from pathlib import Path

from glassbert.data.examples import TaskName
from glassbert.data.rows.conll import looks_like_columns
from glassbert.data.rows.json_rows import looks_like_json
from glassbert.data.rows.lines import Lines
from glassbert.errors import DataError, UserError
from glassbert.text.word_counts import unpacked_name

FORMATS: dict[TaskName, tuple[str, ...]] = {
    "classify": ("csv", "tsv", "jsonl", "json", "parquet", "text", "labelstudio"),
    "pair": ("csv", "tsv", "jsonl", "json", "parquet"),
    "tag": (
        *("conll", "jsonl", "json", "spans", "doccano", "cluener", "labelstudio", "tokens"),
        *("parquet", "text"),
    ),
    "answer": ("squad", "jsonl", "json", "csv", "tsv", "parquet"),
}
"""What each task reads; jsonl and json of tag and answer are looked into for the shape of their objects."""

_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".bioes": "conll",
    ".bmes": "conll",
}
_REFUSED = {
    ".xlsx": "save the sheet as CSV",
    ".xls": "save the sheet as CSV",
    ".zip": "unpack it, or pack its file with gzip",
    ".tar": "unpack it",
    ".tgz": "unpack it",
    ".bz2": "unpack it, or pack its file with gzip",
    ".xz": "unpack it, or pack its file with gzip",
}


def check_format(task: TaskName, name: str, format: str | None) -> None:
    """Refuse a format that ``task`` does not read, and files that nothing here can read."""
    if format is None and _suffix(name) in _REFUSED:
        raise UserError(f"{name}: {_suffix(name)} is not read; {_REFUSED[_suffix(name)]}")
    if format is not None and format not in FORMATS[task]:
        raise UserError(f"format {format!r} is not read by {task}; use one of {', '.join(FORMATS[task])}")


def is_parquet(name: str, format: str | None) -> bool:
    """Tell whether a file is parquet, which has no lines."""
    return format == "parquet" or (format is None and _suffix(name) == ".parquet")


def detect_format(task: TaskName, lines: Lines, *, is_stream: bool) -> str:
    """Return the format of a file; of a stream only the first line is awaited if its name tells nothing."""
    by_name = _BY_SUFFIX.get(_suffix(lines.name))
    format = by_name or _by_content(lines)
    if task == "tag" and format in ("tsv", "text"):
        may_look = by_name is not None or not is_stream
        format = "conll" if may_look and looks_like_columns(lines) else "text"
    if format not in FORMATS[task]:
        raise DataError(
            f"{lines.name}: looks like {format}, which {task} does not read; give JSON"
            f"{' or columns parted by tabs' if 'tsv' in FORMATS[task] else ''}, "
            f"or name the format with --format: {', '.join(FORMATS[task])}"
        )
    return format


def _by_content(lines: Lines) -> str:
    if looks_like_json(lines):
        return "jsonl"
    has_tabs = any("\t" in line for line in lines.peek_texts(1))
    return "tsv" if has_tabs else "text"


def _suffix(name: str) -> str:
    return Path(unpacked_name(Path(name))).suffix.lower()

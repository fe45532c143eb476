"""JSON to records: one object per line, or one document that holds a list of them; tasks of Label Studio."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from glassbert.data.examples import BadRow
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import MAX_COLUMNS, Notes, Record, Unusable, shown
from glassbert.errors import DataError
from glassbert.open_files import DOCUMENT
from glassbert.parsing import FormatError, parse_json

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source


def looks_like_json(lines: Lines) -> bool:
    """Return whether the first line that is not blank begins JSON; a text may also begin with a bracket."""
    first = "".join(lines.peek_texts(1)).strip()
    if first.startswith("["):
        return first[1:].lstrip()[:1] in ("", "{")
    return first.startswith("{") and first[1:].lstrip()[:1] in ("", '"', "}")


def read_objects(source: "Source") -> Iterator[Record | BadRow]:
    """Yield the objects of JSON lines, of a list, or of the list under "data"."""
    lines = source.lines
    if _is_document(lines):
        yield from _document_objects(lines)
        return
    for line in lines:
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except FormatError as error:
            yield BadRow(lines.where, f"not JSON ({error})")
            continue
        yield from _listed(value, lines.where)


def _is_document(lines: Lines) -> bool:
    first = "".join(lines.peek_texts(1)).lstrip()
    if not first:
        return False
    try:
        is_list = isinstance(parse_json(first), list)
    except FormatError:
        if first.startswith("["):
            return True
        # Either a document over many lines, or a damaged first line: then the next one opens an object.
        return not any(text.lstrip().startswith("{") for text in lines.peek_texts(2)[1:])
    return is_list and len(lines.peek_texts(2)) == 1


def _document_objects(lines: Lines) -> Iterator[Record | BadRow]:
    try:
        value = parse_json(_joined(lines))
    except FormatError as error:
        if error.line is None:
            raise DataError(f"{lines.name}: not JSON ({error})") from None
        raise DataError(
            f"{lines.name}:{error.line}: not JSON ({error.reason}, column {error.column})"
        ) from None
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield _record(item, f"{lines.name}:[{number}]")
    else:
        yield from _listed(value, lines.name)


def _joined(lines: Lines) -> str:
    """Return the text of a whole file."""
    found: list[str] = []
    num_characters = 0
    for line in lines:
        found.append(line)
        num_characters += len(line) + 1
        if num_characters > DOCUMENT.num_bytes:
            raise DataError(f"{lines.name}: {DOCUMENT.exceeded('a JSON document')}")
    return "\n".join(found)


def _listed(value: Any, where: str) -> Iterator[Record | BadRow]:
    """Yield the object, or those of its list "data"."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        for number, item in enumerate(value["data"]):
            yield _record(item, f"{where}:data[{number}]")
    else:
        yield _record(value, where)


def _record(value: Any, where: str) -> Record | BadRow:
    if isinstance(value, dict) and len(value) <= MAX_COLUMNS:
        return Record(where, value)
    if isinstance(value, dict):
        return BadRow(where, f"an object of {len(value):,} keys; expected at most {MAX_COLUMNS:,}")
    return BadRow(where, f"expected a JSON object, got a {type(value).__name__}")


def label_studio_task(
    values: Mapping[str, Any], notes: Notes
) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """Return the data of a Label Studio task, and the result of its first annotation not cancelled."""
    data = values.get("data")
    if not isinstance(data, dict):
        raise Unusable('no object under "data"; expected a task of Label Studio')
    annotations = values.get("annotations", values.get("completions")) or []
    if not isinstance(annotations, list):
        raise Unusable(f"the annotations are {shown(annotations)}; expected a list")
    done = [one for one in annotations if isinstance(one, dict) and not one.get("was_cancelled")]
    if len(done) > 1:
        notes.count("texts with several annotations, of which the first is used")
    result = done[0].get("result") if done else None
    if result is None:
        return data, None
    if not isinstance(result, list):
        raise Unusable(f"the result of an annotation is {shown(result)}; expected a list")
    return data, [region for region in result if isinstance(region, dict)]

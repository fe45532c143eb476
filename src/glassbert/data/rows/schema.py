"""What the rows of a task hold, and how a row becomes an example, whatever the format of the file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from glassbert.data.examples import BadRow, E, Kind
from glassbert.data.rows.columns import Roles, find_columns
from glassbert.data.rows.lines import Lines
from glassbert.data.rows.record import Notes, Record, Unusable, text_of
from glassbert.errors import UserError
from glassbert.typed import shown

if TYPE_CHECKING:
    from glassbert.data.rows.source import Source

T = TypeVar("T")

Item = str | Sequence[str] | Mapping[str, Any]
"""A row as Python code has it: a text; its texts in order; or a mapping, named as the columns of a file."""


@dataclass(frozen=True, kw_only=True)
class Schema(Roles, ABC, Generic[E]):
    """The columns of a task's rows, and how a row becomes an example."""

    formats: tuple[str, ...] = ("csv", "tsv")
    """The formats it reads beside those that every task reads."""
    missing: str = "no label, though other rows have one"
    """The reason why an unlabelled row of a labelled file is bad."""

    @abstractmethod
    def example(self, row: Record, notes: Notes) -> E:
        """Return an example for a row, whose values are named by role; raise Unusable if it cannot be one.

        The texts under the required roles have been checked.

        Args:
            notes: Receives what was repaired.
        """

    def rows(self, source: "Source") -> Iterator[Record | BadRow]:
        """Yield the rows of ``source``, their values named by role."""
        return source.rows()

    def read(self, source: "Source") -> Iterator[E | BadRow]:
        """Yield an example, or what is wrong with the row, for each row as it arrives."""
        return self.each(source, lambda row: self.example(row, source.notes))

    def each(self, source: "Source", make: Callable[[Record], T]) -> Iterator[T | BadRow]:
        """Yield what ``make`` makes of each row whose texts can be used."""
        for row in self.rows(source):
            if isinstance(row, BadRow):
                yield row
                continue
            try:
                for role in self.required:
                    text_of(row.values, role)
                made = make(row)
            except Unusable as problem:
                yield BadRow(row.where, str(problem))
            else:
                yield made

    def read_all(self, source: "Source") -> tuple[list[E | BadRow], Kind | None]:
        """Return all rows of a file, and how they are labelled where a file leaves that open."""
        found = list(self.read(source))
        if not any(item.is_labelled for item in found if not isinstance(item, BadRow)):
            return found, None
        return [
            item if isinstance(item, BadRow) or item.is_labelled else BadRow(item.where, self.missing)
            for item in found
        ], None

    def format_of_lines(self, format: str, lines: Lines, *, can_look_ahead: bool) -> str:
        """Return the format of a text file that looks like ``format`` without knowledge of the task."""
        return format

    def format_of_objects(self, objects: Sequence[Record], given: Mapping[str, str]) -> str | None:
        """Return the format that the first objects of a file show; None if they show nothing particular.

        Args:
            given: The columns that the user named, by role.
        """
        return None

    def fits(self, item: Item) -> bool:
        """Return whether an item has as many texts as a row needs."""
        if isinstance(item, Mapping):
            return set(self.required) <= set(find_columns(self, tuple(map(str, item)), {}))
        if isinstance(item, str):
            return len(self.required) == 1
        return isinstance(item, Sequence) and len(self.required) == len(item)

    def from_item(self, item: Item, where: str) -> E:
        """Return an item of Python code as an example."""
        values = self._values(item, where)
        for role in self.required:
            if not isinstance(values[role], str):
                kind = type(values[role]).__name__
                raise UserError(f"{where}: expected a string as the {role}, got {kind}")
        try:
            return self.example(Record(where, values), Notes())
        except Unusable as problem:
            raise UserError(f"{where}: {problem}") from None

    def _values(self, item: Item, where: str) -> dict[str, Any]:
        """Return the values of an item by role."""
        if isinstance(item, Mapping):
            if not all(isinstance(name, str) for name in item):
                raise UserError(f"{where}: expected keys that are strings, got {shown(list(item))}")
            columns = find_columns(self, tuple(item), {})
            if not set(self.required) <= set(columns):
                wanted = " and ".join(map(repr, self.required))
                raise UserError(
                    f"{where}: expected the keys {wanted} for {self.task}, got {shown(sorted(item))}"
                )
            return {role: item[name] for role, name in columns.items()}
        if not isinstance(item, str | list | tuple):
            raise UserError(f"{where}: expected a text, a pair or a mapping, got a {type(item).__name__}")
        texts = (item,) if isinstance(item, str) else tuple(item)
        if len(texts) != len(self.required):
            plural = "s" * (len(self.required) != 1)
            raise UserError(
                f"{where}: expected {len(self.required)} text{plural} for {self.task}, got {len(texts)}"
            )
        return dict(zip(self.required, texts, strict=True))

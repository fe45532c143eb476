"""How `params` looks on a terminal of 80 columns or more, and in a pipe."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from glassbert.config import BertConfig
from glassbert.glassbox.accounting import Accounting, Group, Row
from glassbert.glassbox.cost import BYTES_PER_NUMBER, TRAINING_FACTOR, Cost
from glassbert.glassbox.formula import Formula
from glassbert.sentence import Language

# A pipe has no width; this is wide enough that no name or number is ever cut.
PIPE_WIDTH = 200
# On a narrower terminal formulas are shown with letters alone.
WIDE = 100
_MEANINGS = {
    "V": "vocabulary",
    "S": "segments",
    "P": "positions",
    "D": "hidden size",
    "I": "inner width",
    "C": "labels",
    "B": "blocks",
    "N": "heads",
    "H": "head size",
    "E": "state of a direction",
}


def show(accounting: Accounting, costs: Sequence[Cost], *, every_block: bool, language: Language) -> None:
    """Print the tables and notes of an accounting."""
    is_pipe = not sys.stdout.isatty()
    console = Console(width=PIPE_WIDTH if is_pipe else None, highlight=False, markup=False, emoji=False)
    # Captured, not printed by rich, which would end the program its own way when the pipe is closed.
    with console.capture() as capture:
        for section in _sections(accounting, costs, every_block=every_block, is_wide=console.width >= WIDE):
            console.print(section, soft_wrap=is_pipe and isinstance(section, str))
            console.print()
        for note in accounting.notes:
            # A program or pager gets no line ends inside a paragraph; a terminal breaks Chinese anywhere.
            console.print(f"- {note}", soft_wrap=is_pipe or language == "zh")
    lines = capture.get().rstrip("\n").split("\n")
    print("\n".join(line.rstrip() for line in lines))


def _sections(
    accounting: Accounting, costs: Sequence[Cost], *, every_block: bool, is_wide: bool
) -> Iterator[Table | str]:
    yield f"{accounting.source}: {accounting.total:,} parameters ({', '.join(accounting.includes)})"
    yield _legend(accounting.symbols)
    yield _counted(accounting, every_block=every_block, is_wide=is_wide)
    if accounting.uncounted:
        yield _uncounted(accounting, is_wide=is_wide)
    if accounting.totals:
        yield _totals(accounting)
    yield _weights(accounting)
    config = accounting.config
    if not isinstance(config, BertConfig):
        return
    letters = {"B": config.num_hidden_layers, "N": config.num_attention_heads, "H": config.head_size}
    yield f"{_legend(letters)}, L tokens of a sequence"
    yield _operations(costs)
    yield _activations(costs)


def _legend(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{letter} = {size} {_MEANINGS[letter]}" for letter, size in symbols.items())


def _counted(accounting: Accounting, *, every_block: bool, is_wide: bool) -> Table:
    table = _table("layer", *_COUNTS)
    for group in accounting.groups:
        equals = [other for other in accounting.blocks if other.stack == group.stack]
        if every_block or not equals:
            _add_group(table, group, group.name, is_wide)
        elif group is equals[0]:
            has_room = group.stack == _kind(group, is_wide)
            title = f"each of {len(equals)} {group.stack}" if has_room else f"{len(equals)} {group.stack}"
            _add_group(table, group, title, is_wide)
        if equals and group is equals[-1]:
            _add_sum(table, f"all {len(equals)} {_kind(group, is_wide)}", equals)
            table.add_section()
    _add_sum(table, "total", accounting.groups)
    return table


def _uncounted(accounting: Accounting, *, is_wide: bool) -> Table:
    table = _table("not in the total", *_COUNTS)
    for group in accounting.uncounted:
        _add_group(table, group, group.name, is_wide)
    return table


def _add_group(table: Table, group: Group, title: str, is_wide: bool) -> None:
    """Add a group's rows, the sub-totals of its parts if it has several, and its sum."""
    table.add_row(title, style="bold")
    for row in group.rows:
        formula = f"{row.symbols} = {row.formula}" if is_wide else row.symbols
        table.add_row(f" {row.name}", row.shape, formula, *_counts([row]))
    if group.stack and len(group.subtotals) > 1:
        for part in group.subtotals:
            table.add_row(f" = {part}", "", "", *_counts(row for row in group.rows if row.part == part))
    if len(group.rows) > 1:
        kind = _kind(group, is_wide).removesuffix("s")
        _add_sum(table, f"one {kind}" if kind else group.name, [group])
    table.add_section()


def _kind(group: Group, is_wide: bool) -> str:
    """Return the name of a group's stack: `blocks` if there is no room for `encoder blocks`."""
    return group.stack if is_wide else group.stack.split(" ")[-1]


def _add_sum(table: Table, name: str, groups: Iterable[Group]) -> None:
    table.add_row(f"= {name}", "", "", *_counts(row for group in groups for row in group.rows), style="bold")


def _counts(rows: Iterable[Row]) -> tuple[str, str, str]:
    """Return the parameters, share and bytes of rows together; uncounted rows have no share."""
    rows = list(rows)
    count, share = sum(row.count for row in rows), sum(row.share for row in rows)
    return f"{count:,}", f"{share:.2%}" if share else "", _size(sum(row.bytes for row in rows))


def _totals(accounting: Accounting) -> Table:
    table = _table("ways to count", "parameters")
    for name, count in accounting.totals.items():
        table.add_row(name, f"{count:,}")
    return table


def _weights(accounting: Accounting) -> Table:
    memory = accounting.memory
    table = _table(f"memory of {accounting.total:,} parameters", "bytes each", "bytes", "")
    for name, size in (
        ("weights, float32", memory.float32),
        ("weights, float16", memory.float16),
        ("weights, int8 (scales not counted)", memory.int8),
        ("gradients, float32", memory.gradients),
        ("AdamW, two means in float32", memory.optimiser),
        ("training: weights, gradients, AdamW", memory.float32 + memory.gradients + memory.optimiser),
    ):
        table.add_row(name, str(size // accounting.total), f"{size:,}", _size(size))
    return table


def _operations(costs: Sequence[Cost]) -> Table:
    table = _table("operations", "formula", *(f"L = {cost.length}" for cost in costs))

    def add(name: str, formula: str, values: Iterable[int]) -> None:
        cells = (_scaled(value, 1000, _FLOPS) for value in values)
        table.add_row(name, formula, *cells, style="bold" if name.startswith("=") else "")

    def add_part(name: str, parts: Sequence[Formula]) -> None:
        add(name, parts[0].symbolic, (part.value for part in parts))

    add_part("attention projections, per token", [cost.projections for cost in costs])
    add_part("scores and context, per token", [cost.scores_and_context for cost in costs])
    add_part("feed-forward, per token", [cost.feed_forward for cost in costs])
    add("= forward, per token", "", (cost.forward_flops_per_token for cost in costs))
    add("= forward, per sequence", "x L", (cost.length * cost.forward_flops_per_token for cost in costs))
    training = (cost.training_flops_per_token for cost in costs)
    add("= training, per token", f"{TRAINING_FACTOR} x forward", training)
    add_part("pooler, per sequence", [cost.pooler for cost in costs])
    add_part("MLM head, per predicted token", [cost.mlm for cost in costs])
    return table


def _activations(costs: Sequence[Cost]) -> Table:
    table = _table("activations", "4-byte numbers", *(f"L = {cost.length}" for cost in costs))

    def add(name: str, numbers: Sequence[Formula]) -> None:
        sizes = [BYTES_PER_NUMBER * number.value for number in numbers]
        table.add_row(name, numbers[0].symbolic, *map(_size, sizes))
        if name.endswith("per token"):
            whole = (_size(cost.length * size) for cost, size in zip(costs, sizes, strict=True))
            table.add_row(name.replace("token", "sequence"), "x L", *whole)

    add("inference, per token", [cost.inference for cost in costs])
    add("training, per token", [cost.training for cost in costs])
    add("MLM and loss, per predicted token", [cost.mlm_training for cost in costs])
    return table


_COUNTS = ("shape", "formula", "parameters", "share", "float32")
_TEXT_COLUMNS = ("shape", "formula", "4-byte numbers")
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
_FLOPS = ("", "k", "M", "G", "T", "P")


def _table(*columns: str) -> Table:
    """Return a table whose names and numbers never wrap; formulas do if there is no room."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        is_text = index == 0 or column in _TEXT_COLUMNS
        table.add_column(
            column,
            justify="left" if is_text else "right",
            no_wrap=column not in _TEXT_COLUMNS,
            overflow="fold",
        )
    return table


def _size(num_bytes: int) -> str:
    return _scaled(num_bytes, 1024, _SIZES)


def _scaled(value: float, base: int, units: Sequence[str]) -> str:
    """Return ``value`` with one decimal and the unit that keeps it short."""
    exponent = 0
    while value >= base and exponent < len(units) - 1:
        value, exponent = value / base, exponent + 1
    return f"{value:.1f} {units[exponent]}".rstrip() if exponent else f"{value:.0f} {units[0]}".rstrip()

"""A result as text."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from glassbert.glassbox.lab.estimate import Estimate
from glassbert.glassbox.lab.result import Cell, Claim, Result, Table
from glassbert.glassbox.lab.words import Words, said
from glassbert.messages import one_line
from glassbert.parsing import json_text, parse_json
from glassbert.reports.terminal import PIPE_WIDTH, table_as_text
from glassbert.sentence import Language

HEADINGS = {
    "theory": Words("Theory", "理论"),
    "settings": Words("Settings", "设置"),
    "seeds": Words("Seeds", "随机种子"),
    "elapsed": Words("Time", "用时"),
    "claims": Words("Claims", "论断"),
    "meaning": Words("What it means", "这说明什么"),
    "source": Words("said by", "出处"),
    "claim": Words("claim", "论断"),
    "found": Words("found", "结果"),
    "verdict": Words("verdict", "判定"),
}
VERDICTS = {
    "holds": Words("holds", "成立"),
    "does not hold": Words("does not hold", "不成立"),
    "unclear": Words("unclear", "不能断定"),
}


def as_text(result: Result, language: Language) -> str:
    """Return the result as lines for a terminal or a pipe."""
    return "\n\n".join(_parts(result, language))


def _parts(result: Result, language: Language) -> Iterator[str]:
    def heading(name: str) -> str:
        return HEADINGS[name].in_language(language)

    yield f"{result.name}: {result.question.in_language(language)}"
    yield f"{heading('theory')}: {result.theory.in_language(language)}"
    for steps in result.steps:
        yield "\n".join(
            [said(steps.title, language), *(one_line(f"  {said(line, language)}") for line in steps.lines)]
        )
    for table in result.tables:
        yield "\n".join([said(table.title, language), _table(table, language)])
    if result.claims:
        yield "\n".join([heading("claims"), *(_claim(claim, language) for claim in result.claims)])
    yield one_line(f"{heading('meaning')}: {result.meaning.in_language(language)}")
    if changed := changed_settings(result):
        values = ", ".join(f"{name}={value}" for name, value in changed.items())
        yield one_line(f"{heading('settings')}: {values}")
    if result.seeds:
        yield f"{heading('seeds')}: {', '.join(map(str, result.seeds))}"
    yield f"{heading('elapsed')}: {result.elapsed_s:.1f} s"


def changed_settings(result: Result) -> dict[str, Any]:
    """Return the settings that are not those of the small form, as `--set` takes them."""
    from glassbert.glassbox.lab.experiment import find

    usual = parse_json(json_text(asdict(find(result.name).settings())))
    given = parse_json(json_text(result.settings))
    return {name: value for name, value in given.items() if value != usual.get(name)}


def _claim(claim: Claim, language: Language) -> str:
    source = said(claim.source, language)
    return (
        f"  [{VERDICTS[claim.verdict].in_language(language)}] {claim.statement.in_language(language)} "
        f"({source})\n      {claim.found.in_language(language)}"
    )


def _table(table: Table, language: Language) -> str:
    names = [said(name, language) for name in table.columns]
    rows = [cells(row, table, language) for row in table.rows]
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    return "\n".join(f"  {line}" for line in table_as_text(names, rows, width=width).split("\n"))


def cells(row: tuple[Cell, ...], table: Table, language: Language) -> list[str]:
    """Return the cells of a row as text."""
    return [_cell(value, table, language) for value in row]


def _cell(value: Cell, table: Table, language: Language) -> str:
    if isinstance(value, Estimate):
        return f"{number(value.mean, table)} [{number(value.low, table)}, {number(value.high, table)}]"
    if isinstance(value, float):
        return number(value, table)
    return f"{value:,}" if isinstance(value, int) else said(value, language)


def number(value: float, table: Table) -> str:
    """Return a number as the table shows it."""
    return f"{value:.{table.digits}f}" if table.is_fixed else f"{value:.{table.digits}g}"

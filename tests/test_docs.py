"""The handbook is executed: every command and every Python block, and its output must be what a page shows.

How pages are written and run: `helpers/pages.py`. A Chinese page whose code is that of the English one shows
the same outputs; another runs too, and only a training command that the English page ran on the same files is
not repeated. `make docs` writes the outputs into the pages.
"""

import re
import runpy
from pathlib import Path

import pytest

from helpers.page_outputs import page_with, refreshed
from helpers.pages import (
    HANDBOOK,
    PAGES,
    READMES,
    ROOT,
    TrainedBefore,
    difference,
    execute,
    is_same_code,
    steps_in,
    steps_of,
)

GENERATOR = ROOT / "docs" / "make_reference.py"
_LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize(("english", "chinese"), PAGES, ids=[english.stem for english, _ in PAGES])
def test_what_a_page_shows_is_what_comes_out(english: Path, chinese: Path, tmp_path: Path) -> None:
    steps, translated = steps_of(english), steps_of(chinese)
    trained = TrainedBefore(tmp_path / "trained")
    outputs = execute(steps, tmp_path / "english", trained)
    if is_same_code(steps, translated):
        for step, output in zip(translated, outputs, strict=True):
            step.check(output)
    else:
        execute(translated, tmp_path / "chinese", trained)


def test_both_languages_have_the_same_chapters() -> None:
    english = {path.name for path in HANDBOOK.glob("*.md")}
    assert english
    assert {path.name for path in (HANDBOOK / "zh").glob("*.md")} == english


@pytest.mark.parametrize(
    "path", [*READMES, *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_to_files(path: Path) -> None:
    links = [link for link in _LINK.findall(path.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    generator = runpy.run_path(str(GENERATOR))
    assert generator["PAGE"].read_text(encoding="utf-8") == generator["reference"](), (
        "docs/reference/cli.md is out of date; run `python docs/make_reference.py`"
    )


@pytest.mark.parametrize(
    ("shown", "output", "is_right"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "b"], ["a"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b", "c"], True),
        (["a", "...", "c"], ["a", "b", "d"], False),
        (["a", "...", "c"], ["a", "b", "c", "d"], False),
        (["a", "...", "c", "...", "e"], ["a", "b", "c", "d", "e"], True),
        (["p = 0.5761"], ["p = 0.5762"], True),
        (["p = 0.5761"], ["p = 0.5763"], False),
        (["2.1e-07"], ["2.2e-07"], True),
        (["2.1e-07"], ["2.3e-07"], False),
        (["12 tokens"], ["13 tokens"], False),
    ],
)
def test_a_wrong_output_is_noticed(shown: list[str], output: list[str], is_right: bool) -> None:
    assert (difference(shown, output) is None) == is_right


@pytest.mark.parametrize(
    ("shown", "output", "refreshed_lines"),
    [
        (["a", "b"], ["c"], ["c"]),
        (["a 0.1", "..."], ["a 0.2", "b", "c"], ["a 0.2", "..."]),
        (["...", "c 1.5"], ["a", "b", "c 1.7"], ["...", "c 1.7"]),
        (
            ["a", "...", "left 0.1", "...", "z"],
            ["b", "x", "left 0.4", "y", "z"],
            ["b", "...", "left 0.4", "...", "z"],
        ),
        (
            ["a", "...", "  2 to  1.5   0.3", "...", "z"],
            ["b", "  1 so  1.5   0.3", "  2 to  -10.25  -0.7", "  3 in  1.5   0.3", "z"],
            ["b", "...", "  2 to  -10.25  -0.7", "...", "z"],
        ),
        (
            ["...", "0.5 and 0.5", "...", "z"],
            ["2.25 and 2.25", "0.7 and 0.7", "z"],
            ["...", "0.7 and 0.7", "...", "z"],
        ),
        (["[0.25,-0.12]"], ["[0.123456,-0.98765]"], ["[0.12,-0.99]"]),
        (["p = 0.57612"], ["p = 0.1234567"], ["p = 0.12346"]),
        (["p = 0.57612"], ["p = 0.123456"], ["p = 0.123456"]),
        (["2.1e-07"], ["2.12345e-07"], ["2.12345e-07"]),
    ],
)
def test_what_came_out_replaces_what_a_page_shows(
    shown: list[str], output: list[str], refreshed_lines: list[str]
) -> None:
    assert refreshed(shown, output) == refreshed_lines


def test_a_page_gets_its_outputs_and_keeps_the_rest() -> None:
    text = (
        "```console\n$ glassbert a\none\n$ glassbert b\n```\nwords\n"
        "```python\nprint(1)  # -> 2\nprint(2)\n```\n\n```text\n3\n```\n"
    )
    steps = steps_in(text, ROOT / "page.md")
    wanted = text.replace("one", "two\nthree").replace("# -> 2", "# -> 1").replace("3\n", "2\n")
    assert page_with(text, steps, [["two", "three"], [], ["1", "2"]]) == wanted
    assert page_with(text, steps, [["one"], [], ["2", "3"]]) == text

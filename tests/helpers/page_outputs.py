"""Write the outputs of the pages into them; `make docs` does it after a change of outputs.

    PYTHONPATH=tests python -m helpers.page_outputs [PAGE...]

A page is a README or a chapter, named by its stem (`README`, `06-tasks`). Lines that `...` replaces stay
left out, and a number that was shown with fewer decimals than it has keeps them. Blocks that still show their
output are not touched. The prose around it is yours to read again.
"""

import difflib
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from helpers.pages import PAGES, Step, TrainedBefore, difference, execute, is_same_code, steps_of

ELLIPSIS = "..."
_COMMENT = re.compile(r"(?<=# -> ).*")
_NUMBER = re.compile(r"-?\d[\d.,]*(?:e[-+]\d+)?")
_DECIMAL = re.compile(r"-?\d+\.\d+\b(?!e)")


def main(names: Sequence[str]) -> None:
    """Execute the pages and write the outputs into them."""
    for pages in PAGES:
        if not names or pages[0].stem in names:
            for path in refresh(*pages):
                print(f"{path}: new output")


def refresh(english: Path, chinese: Path) -> list[Path]:
    """Execute a page in both languages; return those that were written."""
    with tempfile.TemporaryDirectory() as folder:
        trained = TrainedBefore(Path(folder, "trained"))
        steps, translated = steps_of(english), steps_of(chinese)
        outputs = execute(steps, Path(folder, "english"), trained, look_at=_nothing)
        if is_same_code(steps, translated):
            of_translated = outputs
        else:
            of_translated = execute(translated, Path(folder, "chinese"), trained, look_at=_nothing)
    changed = []
    for path, done, output in ((english, steps, outputs), (chinese, translated, of_translated)):
        before = path.read_text(encoding="utf-8")
        after = page_with(before, done, output)
        if after != before:
            path.write_text(after, encoding="utf-8")
            changed.append(path)
    return changed


def _nothing(_step: Step, _came: list[str]) -> None:
    """Let every step pass."""


def page_with(page: str, steps: Sequence[Step], outputs: Sequence[list[str]]) -> str:
    """Return a page that shows the outputs of its steps."""
    done = ""
    for step, output in zip(steps, outputs, strict=True):
        code = f"$ {step.code}\n" if step.language == "console" else step.code.lstrip("\n")
        before, _, page = page.partition(code)
        done += before
        if difference(step.shown, output) is None:
            done += code
            continue
        lines = refreshed(step.shown, output)
        if step.language == "console":
            done += code + _block(lines)
            page = page.removeprefix(_block(step.shown))
        else:
            comments = iter(lines)
            done += _COMMENT.sub(lambda match, left=comments: next(left, match[0]), code)
            below, shown_below = list(comments), step.shown[len(_COMMENT.findall(code)) :]
            page = page.replace(_block(shown_below), _block(below), 1) if shown_below else page
    return done + page


def _block(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def refreshed(shown: list[str], output: list[str]) -> list[str]:
    """Return the lines of an output that take the place of those shown; `...` stays where it is."""
    runs: list[list[str]] = [[]]
    for line in shown:
        if line == ELLIPSIS:
            runs.append([])
        else:
            runs[-1].append(line)
    if len(runs) == 1:
        return [*map(_as_short, shown, output), *output[len(shown) :]]
    lines, at = list(map(_as_short, runs[0], output)), len(runs[0])
    for run in runs[1:-1]:
        start = _likest(run, output, at)
        at = start + len(run)
        lines += [ELLIPSIS, *map(_as_short, run, output[start:at])]
    return [*lines, ELLIPSIS, *map(_as_short, runs[-1], output[len(output) - len(runs[-1]) :])]


def _as_short(shown: str, line: str) -> str:
    """Return a line whose numbers are as short as those in their places, if these were shortened."""
    places = [len(number.partition(".")[2]) for number in _DECIMAL.findall(shown)]
    if len(places) != len(_DECIMAL.findall(line)):
        return line
    left = iter(places)

    def rounded(match: re.Match[str]) -> str:
        # One more or less is how the number falls out, not how it was shown.
        wanted, has = next(left), len(match[0].partition(".")[2])
        return f"{float(match[0]):.{wanted}f}" if has > wanted + 1 else match[0]

    return _DECIMAL.sub(rounded, line)


def _likest(run: list[str], output: list[str], first: int) -> int:
    """Return where the lines begin that are most like those of a run, in their words before their numbers."""

    def likeness(start: int) -> tuple[float, float]:
        came = "\n".join(output[start : start + len(run)])
        return _ratio(_words(shown), _words(came)), _ratio(shown, came)

    shown = "\n".join(run)
    return max(range(first, max(first, len(output) - len(run)) + 1), key=likeness)


def _words(text: str) -> list[str]:
    """Return the words of lines, each number a #."""
    return _NUMBER.sub("#", text).split()


def _ratio(one: Sequence[str], other: Sequence[str]) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Write the outputs of the pages into them; `make docs` does it after a change of outputs.

    PYTHONPATH=tests python -m helpers.page_outputs [PAGE...]

A page is a README or a chapter, named by its stem (`README`, `06-tasks`). Lines that `...` replaces stay
left out. Blocks that still show their output are not touched. The prose around it is yours to read again.
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
_DIGITS = re.compile(r"\d+")


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
        return output
    lines, at = output[: len(runs[0])], len(runs[0])
    for run in runs[1:-1]:
        start = _likest(run, output, at)
        at = start + len(run)
        lines += [ELLIPSIS, *output[start:at]]
    return [*lines, ELLIPSIS, *output[len(output) - len(runs[-1]) :]]


def _likest(run: list[str], output: list[str], first: int) -> int:
    """Return where the lines begin that are most like those of a run, but for their numbers."""
    words = _DIGITS.sub("#", "\n".join(run))
    return max(
        range(first, max(first, len(output) - len(run)) + 1),
        key=lambda start: difflib.SequenceMatcher(
            None, words, _DIGITS.sub("#", "\n".join(output[start : start + len(run)]))
        ).ratio(),
    )


if __name__ == "__main__":
    main(sys.argv[1:])

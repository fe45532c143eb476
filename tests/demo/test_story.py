from dataclasses import replace
from pathlib import Path

import pytest

from glassbert.demo.story import Story, finished
from glassbert.errors import Interrupted
from glassbert.runs.run import RunResult


def test_lines_are_shown_as_they_are_and_numbers_kept(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(is_silent=False)
    with story.step("Fill [MASK]", "glassbert fill [MODEL]"):
        story.log("a [MASK] of [bold]", answer=42)
    reported = capsys.readouterr().out.splitlines()
    assert reported[1] == "1. Fill [MASK]   glassbert fill [MODEL]"
    assert reported[2] == "   a [MASK] of [bold]"
    assert story.numbers["answer"] == 42
    assert list(story.numbers["elapsed_s"]) == ["Fill [MASK]"]


def test_a_silent_story_keeps_its_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(is_silent=True)
    with story.step("Count", "glassbert params"):
        story.log("seven", count=7)
    assert capsys.readouterr().out == ""
    assert story.numbers["count"] == 7


def test_a_run_that_was_stopped_ends_the_demo() -> None:
    done = RunResult(out=Path("run"), model=Path("run/best"), step=3, is_finished=True)
    assert finished(done) is done
    with pytest.raises(Interrupted, match="stopped before its end"):
        finished(replace(done, is_finished=False))

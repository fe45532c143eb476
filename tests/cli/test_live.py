import io
from dataclasses import replace

import pytest
from rich.console import Console

from glassbert.cli import live
from glassbert.training.status import Status
from training.test_status import READING


def console(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> io.StringIO:
    """Let the display draw into a text of 80 columns."""
    file = io.StringIO()
    drawn = Console(file=file, force_terminal=is_terminal, width=80, highlight=False, legacy_windows=False)
    monkeypatch.setattr(live, "messages", drawn)
    return file


def test_a_status_is_a_bar_and_two_lines_that_fit_a_terminal() -> None:
    drawn = Console(width=80, file=io.StringIO(), record=True)
    drawn.print(live.view(READING))
    bar, results, machine = (line.rstrip() for line in drawn.export_text().splitlines())
    assert bar.endswith("40%  step 40/100  1:00 left")
    assert results == "mlm_loss 6.5000  nsp_loss 0.6900  mlm_accuracy 0.1230"
    assert machine == "lr 2.00e-04  3,412 tokens/s (58% of peak)  1.23 GB"


def test_the_bar_is_as_long_as_the_share_that_is_done() -> None:
    lengths = []
    for left_s in (360.0, 40.0, 0.0):
        drawn = Console(
            width=80, file=io.StringIO(), record=True, color_system="standard", force_terminal=True
        )
        drawn.print(live.view(replace(READING, left_s=left_s)))
        bar = drawn.export_text(styles=True).splitlines()[0]
        # The part that is done comes first, in a colour of its own.
        lengths.append(bar.split("\x1b[0m")[0].count("━"))
    assert lengths[0] < lengths[1] < lengths[2]


def test_without_a_terminal_there_is_no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, is_terminal=False)
    with live.live_status() as on_status:
        assert on_status is None
    assert file.getvalue() == ""


def test_the_last_status_stays_with_the_lines_above_it(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, is_terminal=True)
    with live.live_status() as on_status:
        assert on_status is not None
        for step in range(1, 51):
            on_status(replace(READING, step=step))
            if step == 20:
                live.messages.print("held out: better")
    text = file.getvalue()
    assert text.index("held out: better") < text.rindex("step 50/100")
    assert text.count("step ") < 10, "steps of milliseconds are not drawn each"


def test_a_run_that_fails_at_once_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    file = console(monkeypatch, is_terminal=True)
    with pytest.raises(ValueError, match="wrong"), live.live_status():
        raise ValueError("wrong")
    assert file.getvalue() == ""


def test_a_run_without_an_end_in_steps_shows_its_step() -> None:
    reading: Status = replace(READING, num_steps=None)
    assert reading.position() == "step 40"

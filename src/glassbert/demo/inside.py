"""A stop inside the box: one attention weight by hand, and one experiment."""

from pathlib import Path

import glassbert as gb
from glassbert.demo.story import Story

TEXT = "A generator function returns an iterator."
HEAD, QUERY, KEY = 0, 3, 2


def show_inside(story: Story, folder: Path) -> None:
    """Write out a number of the model that was just trained, and test what is said about softmax."""
    model = folder / "run" / "last"
    with story.step("Work out one attention weight by hand", "glassbert lab cell --set model=run/last"):
        cell = gb.lab("cell", model=str(model), text=TEXT, head=HEAD, token=QUERY, key=KEY)
        for line in cell.steps[0].lines:
            story.log(line if isinstance(line, str) else line.en)
        story.log(f"the model computes the same: {cell.claims[-1].verdict}")
    with story.step("Put what is said about softmax to the test", "glassbert lab saturation"):
        result = gb.lab("saturation")
        for a, y3, slope, *_ in result.tables[0].rows:
            story.log(f"softmax of [a, a, 2a], a = {a:<4} y3 = {y3}  dy3/dx3 = {slope:.3g}")
        for claim in result.claims:
            story.log(f"[{claim.verdict}] {claim.statement.en}")
    story.numbers["inside"] = {
        "cell": [claim.verdict for claim in cell.claims],
        "saturation": [claim.verdict for claim in result.claims],
    }

"""`demo`: the life of a BERT on text that the demo brings or makes; each step prints real numbers."""

import tempfile
from pathlib import Path

from glassbert.cli.output import print_json
from glassbert.demo.story import Story
from glassbert.errors import UserError


def demo(*, out: Path | None = None, json: bool = False) -> None:
    """Walk through all that exists: vocabulary, pre-training, the inside, a task, its report, translation.

    Parameters
    ----------
    out:
        Keep what is made in this folder; otherwise it is thrown away at the end.
    json:
        Print the numbers of all steps as one JSON object instead of the story.
    """
    if out is not None and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty; name a new folder for the demo")
    with tempfile.TemporaryDirectory() as scratch:
        story = Story(is_silent=json)
        folder = out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        _run(story, folder, is_kept=out is not None)
        if json:
            print_json(story.numbers)
        elif out is not None:
            print(f"\nEverything is in {out}")


def _run(story: Story, folder: Path, *, is_kept: bool) -> None:
    from glassbert.demo.pretraining import tell_pretraining
    from glassbert.demo.tasks import tell_tasks
    from glassbert.demo.translation import tell_translation

    tell_pretraining(story, folder)
    tell_tasks(story, folder, is_kept=is_kept)
    tell_translation(story, folder)

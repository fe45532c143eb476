"""`demo`: everything a BERT goes through, on text that comes with the demo or is generated."""

import tempfile
from pathlib import Path

from glassbert.cli.output import print_json
from glassbert.demo.story import Story
from glassbert.errors import UserError
from glassbert.outputs import check_folder


def demo(*, out: Path | None = None, json: bool = False) -> None:
    """Walk through the package: vocabulary, pre-training, the inside, a task, translation, a server.

    Args:
        out: Keep the results in this folder; otherwise they are deleted at the end.
        json: Print the numbers of all steps as one JSON object instead of the story.
    """
    from glassbert.demo.walk import walk

    if out is not None:
        check_folder(out, is_replaced=False)
    if out is not None and out.exists() and any(out.iterdir()):
        raise UserError(f"{out} is not empty; name a new folder for the demo")
    with tempfile.TemporaryDirectory() as scratch:
        story = Story(is_silent=json)
        folder = out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        walk(story, folder, is_kept=out is not None)
        if json:
            print_json(story.numbers)
            return
        if out is not None:
            print(f"\nEverything is in {out}")
        print("\nSee every number inside, in the browser: glassbert open (extra: serve)")

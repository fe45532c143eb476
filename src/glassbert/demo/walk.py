"""The walk: the parts of the demo, one after the other."""

from pathlib import Path

from glassbert.demo.inside import show_inside
from glassbert.demo.pretraining import show_pretraining
from glassbert.demo.serving import show_serving
from glassbert.demo.story import Story
from glassbert.demo.tasks import show_tasks
from glassbert.demo.translation import show_translation


def walk(story: Story, folder: Path, *, is_kept: bool) -> None:
    """Pre-train, look inside, fine-tune, translate and serve in ``folder``.

    Args:
        is_kept: Whether the user can look at the folder afterwards.
    """
    show_pretraining(story, folder)
    show_inside(story, folder)
    show_tasks(story, folder, is_kept=is_kept)
    show_translation(story, folder)
    show_serving(story, folder)

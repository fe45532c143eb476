"""Settings of tag."""

from dataclasses import dataclass

from glassbert.tasks.settings import WindowSettings
from glassbert.tasks.tag.scheme import Scheme


@dataclass(frozen=True, kw_only=True)
class TagSettings(WindowSettings):
    """The `[task]` table of tag."""

    scheme: Scheme = "bio"
    """bio: the first piece of a span has a tag of its own; bioes: so have its last and a single one."""
    crf: bool = False
    """Learn which tags follow each other, beside what each piece looks like: a conditional random field."""

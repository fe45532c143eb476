"""Settings of tag."""

from dataclasses import dataclass

from glassbert.tasks.settings import WindowSettings
from glassbert.tasks.tag.scheme import Scheme


@dataclass(frozen=True, kw_only=True)
class TagSettings(WindowSettings):
    """The `[task]` table of tag."""

    scheme: Scheme = "bio"
    """bio: the first piece of a span has its own tag; bioes: so do its last piece and a single piece."""
    crf: bool = False
    """Learn which tags follow each other, beside what each piece looks like: a conditional random field."""

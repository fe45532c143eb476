"""Under which names model folders are served."""

from collections.abc import Sequence
from pathlib import Path

from glassbert.errors import ModelError
from glassbert.open_files import real_path


def named_models(given: Sequence[str | Path]) -> dict[str, str]:
    """Return the folders to serve by name: NAME=FOLDER, or a folder that gives its own name."""
    if not given:
        raise ModelError("no model to serve; name a model folder")
    found: dict[str, str] = {}
    for one in map(str, given):
        name, _, folder = one.partition("=") if "=" in one and not Path(one).exists() else ("", "", one)
        name = name or real_path(folder).name
        if name in found:
            raise ModelError(f"two models are called {name!r}; name one of them, as in OTHER={folder}")
        if not name or "/" in name or not name.isprintable():
            raise ModelError(f"{one}: {name!r} cannot be the name of a model; write NAME={folder}")
        found[name] = folder
    return found

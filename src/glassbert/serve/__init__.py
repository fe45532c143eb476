"""Every task over HTTP: queue, compute threads, dialects, and the foundation that any local page can use."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassbert.serve.front import Front


def build_app(*models: str | Path, **settings: Any) -> "Front":
    """Return an ASGI app that serves model folders, loaded and ready.

    Args:
        models: Folders, or NAME=FOLDER; the first answers requests that name no model.
        settings: Fields of `ServeSettings`, such as on_long="window".
    """
    from glassbert.serve.installed import check_installed

    check_installed()
    from glassbert.serve.front import build_app as build
    from glassbert.serve.settings import ServeSettings

    return build(models, ServeSettings(**settings))

"""What a user may write where a MODEL is asked for."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from glassbert.errors import ModelError

DEMO = "demo"
"""The model that comes with the package; a folder of that name is written ./demo."""
ASSETS = Path(__file__).parent / "assets"
# Weights as safetensors, and what describes them; nothing that would have to be unpickled or run.
HUB_FILES = ("*.safetensors", "*.json", "*.txt")

_is_online: ContextVar[bool] = ContextVar("is_online", default=False)


@contextmanager
def hub_names(*, allowed: bool = True) -> Iterator[None]:
    """Let names that are no folder be looked up on the Hugging Face hub, in this thread, for a while."""
    token = _is_online.set(allowed)
    try:
        yield
    finally:
        _is_online.reset(token)


def model_folder(name: str | Path) -> Path:
    """Return the folder that ``name`` means: the demo model, a model folder, the best model of a run.

    Within `hub_names`, what is none of these is fetched from the hub, or found in its cache.
    """
    if str(name) == DEMO:
        return ASSETS / DEMO
    folder = Path(name)
    if _is_online.get() and not folder.exists():
        return _fetched(str(name))
    if not (folder / "config.json").is_file() and (folder / "best" / "config.json").is_file():
        return folder / "best"
    return folder


def _fetched(name: str) -> Path:
    """Return the folder in the hub's cache that holds a model; the files that it lacks are downloaded."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError("--online needs huggingface_hub; install glassbert[online]") from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES)))
    except (OSError, ValueError) as error:  # what the library raises: no such name, no network, no space
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: no folder, and the hub did not give it either: {reason}") from None

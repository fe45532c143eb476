"""What a MODEL argument may be: a folder, `demo`, a run folder, or a name on the hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from glassbert.errors import ModelError, UserError

DEMO = "demo"
"""The model that comes with the package; write ./demo for a folder of that name."""
ASSETS = Path(__file__).parent / "assets"
# Weights as safetensors, and the files that describe them; nothing that is a pickle or code.
HUB_FILES = ("*.safetensors", "*.json", "*.txt")

_is_online: ContextVar[bool] = ContextVar("is_online", default=False)


@contextmanager
def hub_names(*, allowed: bool = True) -> Iterator[None]:
    """Look up names that are not folders on the Hugging Face hub, in this thread, inside the `with` block."""
    token = _is_online.set(allowed)
    try:
        yield
    finally:
        _is_online.reset(token)


def model_folder(name: str | Path) -> Path:
    """Return the folder that ``name`` refers to: the demo model, a model folder, the best model of a run.

    Within `hub_names`, any other name is fetched from the hub, or found in its cache.
    """
    if not isinstance(name, str | Path):
        raise UserError(f"expected the name of a model, a str or a Path, got a {type(name).__name__}")
    if str(name) == DEMO:
        return ASSETS / DEMO
    folder = Path(name)
    try:
        if _is_online.get() and not folder.exists():
            return _fetched(str(name))
        if not (folder / "config.json").is_file() and (folder / "best" / "config.json").is_file():
            return folder / "best"
    except OSError as error:  # such as a name that is longer than any can be
        raise ModelError(f"no folder {str(name)[:80]!r} that can be read: {error.strerror}") from None
    return folder


def _fetched(name: str) -> Path:
    """Return a model's folder in the hub's cache; missing files are downloaded."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ModelError("--online needs huggingface_hub; install glassbert[online]") from None
    try:
        return Path(snapshot_download(name, allow_patterns=list(HUB_FILES)))
    except (OSError, ValueError) as error:  # what the library raises: no such name, no network, no space
        reason = " ".join(str(error).split())
        raise ModelError(f"{name}: no such folder, and the hub did not provide it: {reason}") from None

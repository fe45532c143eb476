"""Whether the packages that only the server needs are installed."""

from importlib.util import find_spec

from glassbert.errors import UserError

PACKAGES = ("starlette", "uvicorn", "httptools", "msgspec", "orjson")


def check_installed() -> None:
    """Raise an error of one line that says how to install what is missing."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise UserError(f"serving needs {', '.join(missing)}; install them: pip install 'glassbert[serve]'")

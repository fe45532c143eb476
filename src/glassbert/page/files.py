"""The built page: its files, read once into memory. Nothing else on the disk can be requested."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from glassbert.errors import UserError

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"


@dataclass(frozen=True)
class PageFile:
    """One file of the page."""

    content: bytes
    media_type: str
    etag: str


def read_page() -> Mapping[str, PageFile]:
    """Return the files of the page by their path below it."""
    root = files("glassbert") / "web"
    found = dict(_walk(root, "")) if root.is_dir() else {}
    if INDEX not in found:
        raise UserError(
            "this installation has no page: it was built without Node.js; install a wheel of glassbert, or "
            "install Node 20 or newer and run `make page`"
        )
    return found


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, PageFile]]:
    found: list[tuple[str, PageFile]] = []
    for entry in sorted(folder.iterdir(), key=lambda one: one.name):
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
            continue
        kind = KINDS.get("." + entry.name.rpartition(".")[2])
        if kind:
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found.append((prefix + entry.name, PageFile(content, kind, etag)))
    return found

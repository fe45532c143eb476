"""Who may use the server: API keys, and the host names by which a local server may be called."""

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from glassbert.errors import UserError
from glassbert.open_files import read_regular

MIN_CHARACTERS = 8
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True)
class Keys:
    """Known keys, as digests; if there are none, no key is needed."""

    digests: tuple[tuple[str, bytes], ...] = ()
    """The name and the sha256 of each."""

    @classmethod
    def of(cls, lines: Iterable[str], source: str) -> "Keys":
        """Read keys: one per line, or a name and a key; # begins a comment.

        Args:
            source: Where the lines come from, for messages.
        """
        found: list[tuple[str, bytes]] = []
        for number, line in enumerate(lines, start=1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) > 2:
                raise UserError(f"{source}:{number}: {len(words)} words; expected a key, or a name and a key")
            if len(words[-1]) < MIN_CHARACTERS:
                raise UserError(f"{source}:{number}: a key of fewer than {MIN_CHARACTERS} characters")
            if not words[-1].isascii():
                raise UserError(f"{source}:{number}: a key beyond ASCII, which clients encode differently")
            name = words[0] if len(words) == 2 else f"key-{len(found) + 1}"
            found.append((name, hashlib.sha256(words[-1].encode()).digest()))
        if not found:
            raise UserError(f"{source} holds no key; write one on each line")
        return cls(tuple(found))

    @classmethod
    def read(cls, path: str | Path) -> "Keys":
        """Read a file of keys."""
        path = Path(path)
        if not path.exists():
            raise UserError(f"{path}: no such file; expected a file with one API key on each line")
        try:
            text = read_regular(path, error=UserError).decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{path}: not UTF-8; expected a file with one API key on each line") from None
        return cls.of(text.splitlines(), str(path))

    def __bool__(self) -> bool:
        return bool(self.digests)

    def name_of(self, authorization: str) -> str | None:
        """Return the name of the key in an Authorization header; None if the key is unknown.

        Each known key is compared in constant time, so that timing reveals nothing about the keys.
        """
        scheme, _, given = authorization.partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        found = None
        for name, known in self.digests:
            if hmac.compare_digest(digest, known):
                found = name
        return found if scheme.lower() == "bearer" else None


@dataclass(frozen=True)
class Hosts:
    """The names in a Host header that are answered: a page elsewhere must not reach a local server."""

    names: frozenset[str] | None
    """None: any name."""

    @classmethod
    def allowed(cls, bound_to: str, extra: Sequence[str] = ()) -> "Hosts":
        """Return the names for a server; beyond loopback any name is allowed, unless some are given."""
        if extra:
            return cls(frozenset({*LOOPBACK, *(name.lower() for name in extra)}))
        return cls(LOOPBACK if bound_to in LOOPBACK else None)

    def is_allowed(self, header: str) -> bool:
        """Return whether a Host header, with or without a port, is answered."""
        if self.names is None:
            return True
        name = header.strip().lower()
        if name.startswith("["):
            name = name[1:].partition("]")[0]
        elif name.count(":") <= 1:
            name = name.partition(":")[0]
        return name in self.names

"""The keys of a foreign config.json: read, known to change nothing, refused, or reported."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassbert.errors import ModelError
from glassbert.interop.names import misspelt
from glassbert.sentence import Sentence
from glassbert.typed import shown

QUANTISATION = "quantization_config"
"""The key that says how weights of few bits are stored."""
_LONGEST = 100
"""Characters of a key that are compared with known ones, which takes time."""


@dataclass(frozen=True)
class KeyRules:
    """How a family treats the keys of a config.json."""

    read: Collection[str]
    """Keys whose values are used."""
    harmless: Collection[str]
    """Known keys that change nothing of the computation."""
    fixed: Mapping[str, tuple[Any, ...]]
    """Keys that would change the computation, with the values that we compute; the first is the usual one."""

    def check(self, data: Mapping[str, Any], source: str, *, is_foreign: bool = True) -> tuple[str, ...]:
        """Refuse what would change the computation; return notes on the keys that were ignored.

        Args:
            source: The file's name, for messages.
            is_foreign: Whether others wrote the file: they may add keys of their own.
        """
        unknown = []
        for key, value in data.items():
            if key in self.fixed:
                if value not in self.fixed[key]:
                    raise ModelError(
                        f"{source}: {key}={shown(value)}; only {self.fixed[key][0]!r} is supported"
                    )
            elif key not in self.read and key not in self.harmless:
                self._check_unknown(key, source, is_foreign)
                unknown.append(key)
        if not unknown:
            return ()
        return (
            Sentence(
                "unknown keys of {file} ignored: {names}",
                file=Path(source).name,
                names=", ".join(shown(key)[1:-1] for key in unknown),
            ),
        )

    def _check_unknown(self, key: str, source: str, is_foreign: bool) -> None:
        guess = misspelt(key[:_LONGEST], [*self.read, *self.fixed, *self.harmless])
        if guess is not None:
            raise ModelError(f"{source}: unknown key {shown(key)}; did you mean {guess!r}?")
        if not is_foreign:
            raise ModelError(
                f"{source}: unknown key {shown(key)}; if a newer glassbert wrote it, update this one"
            )

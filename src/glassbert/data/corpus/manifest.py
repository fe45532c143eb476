"""The manifest of a corpus: what it was made of, how much it holds, and the fingerprint of each file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from glassbert.errors import DataError
from glassbert.storage import write_json

MANIFEST = "manifest.json"
HELD_OUT = "held-out"
"""The folder within a corpus that holds the corpus of documents that are not trained on."""
VERSION = 1


@dataclass(frozen=True)
class Source:
    """A file of text."""

    name: str
    """Without its folder: the same files give the same manifest wherever they are."""
    num_bytes: int
    """On disk."""
    sha256: str
    form: str


@dataclass(frozen=True)
class ShardInfo:
    """What one shard holds."""

    name: str
    num_tokens: int
    num_sentences: int
    num_documents: int
    num_bytes: int
    """Of the text."""
    num_unknown: int
    """Tokens that are [UNK]."""
    sha256: Mapping[str, str]
    """Of each of its files."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a corpus holds and was made of, but not when, where and on how many processes."""

    version: int = VERSION
    vocab_sha256: str
    vocab_size: int
    tokenizer: Mapping[str, bool]
    """The rules beside the vocabulary that decide which ids a text has."""
    dtype: str
    """Of the ids."""
    segmenter: str | None
    """What found the Chinese words; None if each character is a word."""
    shard_tokens: int
    """A shard ends with the first document that brings it to this size."""
    num_duplicate_lines_dropped: int | None
    """None if repeated lines were kept."""
    held_out_share: float = 0.0
    """The share of documents that were put into a corpus of their own, not to be trained on."""
    is_held_out: bool = False
    """Whether this is the corpus of those documents."""
    sources: tuple[Source, ...]
    shards: tuple[ShardInfo, ...]

    @property
    def num_tokens(self) -> int:
        return sum(shard.num_tokens for shard in self.shards)

    @property
    def num_sentences(self) -> int:
        return sum(shard.num_sentences for shard in self.shards)

    @property
    def num_documents(self) -> int:
        return sum(shard.num_documents for shard in self.shards)

    @property
    def num_bytes(self) -> int:
        """Of the text, in UTF-8."""
        return sum(shard.num_bytes for shard in self.shards)

    @property
    def num_unknown(self) -> int:
        """Tokens that are [UNK]."""
        return sum(shard.num_unknown for shard in self.shards)

    @property
    def has_documents(self) -> bool:
        """Whether there is more than one document; without, no sentence is from another document."""
        return self.num_documents > 1

    @property
    def content_sha256(self) -> str:
        """Fingerprint of the text as tokens, sentences and documents, wherever the folder is."""
        sums = "".join(sha256 for shard in self.shards for _, sha256 in sorted(shard.sha256.items()))
        return hashlib.sha256(sums.encode("ascii")).hexdigest()

    def totals(self) -> dict[str, Any]:
        """Return the counts over all shards by name."""
        return {
            "num_documents": self.num_documents,
            "num_sentences": self.num_sentences,
            "num_tokens": self.num_tokens,
            "num_unknown": self.num_unknown,
            "num_bytes": self.num_bytes,
            "has_documents": self.has_documents,
        }

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the manifest of a corpus folder."""
        path = Path(folder) / MANIFEST
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise DataError(
                f"no {MANIFEST} in {folder}; expected a folder written by `glassbert corpus build`"
            ) from None
        except ValueError as error:
            raise DataError(f"{path}: not JSON ({error}); build the corpus again") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            version = content.get("version") if isinstance(content, dict) else None
            raise DataError(f"{path}: got version {version}, expected {VERSION}; build the corpus again")
        try:
            manifest = cls.from_json(content)
        except (KeyError, TypeError) as error:
            raise DataError(f"{path}: incomplete ({error}); build the corpus again") from None
        if not manifest.shards:
            raise DataError(f"{path}: names no shard; build the corpus again")
        return manifest

    def save(self, folder: str | Path) -> None:
        """Write the manifest."""
        write_json(Path(folder) / MANIFEST, self.to_json())

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Return the manifest that `to_json` turned into ``content``."""
        return cls(
            **{name: content[name] for name in _PLAIN_FIELDS if name in content or name not in _NEW_FIELDS},
            sources=tuple(Source(**source) for source in content["sources"]),
            shards=tuple(ShardInfo(**shard) for shard in content["shards"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as a JSON object, with the totals before the long lists."""
        content = asdict(self)
        plain = {name: content[name] for name in _PLAIN_FIELDS}
        return {**plain, "totals": self.totals(), "sources": content["sources"], "shards": content["shards"]}


_PLAIN_FIELDS = tuple(name for name in Manifest.__dataclass_fields__ if name not in ("sources", "shards"))
# Corpora that were built before these existed do not have them.
_NEW_FIELDS = ("held_out_share", "is_held_out")

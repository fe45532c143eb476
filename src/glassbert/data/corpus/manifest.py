"""The manifest of a corpus: what it was made of, how much it holds, and the fingerprint of each file."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from glassbert.errors import DataError
from glassbert.open_files import read_regular
from glassbert.parsing import FormatError, parse_json
from glassbert.ranges import Range, ShareBelowOne
from glassbert.storage import write_json
from glassbert.typed import record_from, shown

MANIFEST = "manifest.json"
HELD_OUT = "held-out"
"""The folder within a corpus that holds the corpus of documents that are not trained on."""
VERSION = 1
ID_TYPES = ("<u2", "<u4")
Amount = Annotated[int, Range(0, 10**15)]
"""Of tokens, sentences, documents or bytes."""


@dataclass(frozen=True)
class Source:
    """A file of text."""

    name: str
    """Without its folder: the same files give the same manifest wherever they are."""
    num_bytes: Amount
    """On disk."""
    sha256: str
    form: str


@dataclass(frozen=True)
class ShardInfo:
    """What one shard holds."""

    name: str
    num_tokens: Amount
    num_sentences: Amount
    num_documents: Amount
    num_bytes: Amount
    """Of the text."""
    num_unknown: Amount
    """Tokens that are [UNK]."""
    sha256: Mapping[str, str]
    """Of each of its files."""
    documents_of_sources: Mapping[str, Amount] | None = None
    """How many documents are from each source, by its index in `Manifest.sources`, "0" and so on; those of a
    source lie together, in the order of the sources. None in corpora built before this was recorded."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a corpus holds and was made of, without when, where and on how many processes."""

    version: int = VERSION
    vocab_sha256: str
    vocab_size: Amount
    tokenizer: Mapping[str, bool]
    """The rules beside the vocabulary that decide which ids a text has."""
    dtype: str
    """Of the ids: one of `ID_TYPES`."""
    segmenter: str | None
    """What found the Chinese words; None if each character is a word."""
    shard_tokens: Amount
    """A shard ends with the first document that brings it to this size."""
    num_duplicate_lines_dropped: Amount | None
    """None if repeated lines were kept."""
    held_out_share: ShareBelowOne = 0.0
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
        """Whether there is more than one document; otherwise no sentence is from another document."""
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
            content = parse_json(read_regular(path, error=DataError))
        except FileNotFoundError:
            raise DataError(
                f"no {MANIFEST} in {folder}; expected a folder written by `glassbert corpus build`"
            ) from None
        except FormatError as error:
            raise DataError(f"{path}: not JSON ({error}); build the corpus again") from None
        if not isinstance(content, dict) or content.get("version") != VERSION:
            version = content.get("version") if isinstance(content, dict) else None
            raise DataError(
                f"{path}: got version {shown(version)}, expected {VERSION}; build the corpus again"
            )
        try:
            manifest = cls.from_json(content, str(path))
        except DataError as error:
            raise DataError(f"{error}; build the corpus again") from None
        if manifest.dtype not in ID_TYPES:
            raise DataError(f"{path}: dtype={manifest.dtype[:40]!r}; expected {' or '.join(ID_TYPES)}")
        if not manifest.shards:
            raise DataError(f"{path}: names no shard; build the corpus again")
        return manifest

    def save(self, folder: str | Path) -> None:
        """Write the manifest."""
        write_json(Path(folder) / MANIFEST, self.to_json())

    @classmethod
    def from_json(cls, content: Any, source: str) -> Self:
        """Return the manifest that `to_json` turned into ``content``.

        Args:
            source: The file's name, for messages.
        """
        return record_from(cls, content, source, error=DataError)

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as a JSON object, with the totals before the long lists."""
        content = asdict(self)
        plain = {name: content[name] for name in _PLAIN_FIELDS}
        return {**plain, "totals": self.totals(), "sources": content["sources"], "shards": content["shards"]}


_PLAIN_FIELDS = tuple(name for name in Manifest.__dataclass_fields__ if name not in ("sources", "shards"))

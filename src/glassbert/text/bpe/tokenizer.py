"""Text to pieces and back without loss: the joint vocabulary of translation.

    text -> a space before it -> words -> pieces;   pieces -> joined -> the space taken off -> text

Every character of the text is in exactly one piece. No mark replaces a space: a piece may begin with the
space itself, so nothing has to be escaped. A character that the vocabulary lacks is spelled by the bytes of
its UTF-8 form, such as `<0xE4>`, so that no text is unknown. Lone surrogates, which are not characters, are
the one exception; they become U+FFFD.

Words are cut by fixed ranges of characters, not by Unicode's tables, which grow with every release of Python
and of the engine: a text is cut the same everywhere and forever. Within a word the merges that made the
vocabulary are applied in the order in which they were learned.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Self

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassbert.arguments import checked_methods
from glassbert.text.bpe.folder import DEFAULT_MAX_LENGTH, read_subwords, write_subwords
from glassbert.text.bpe.pieces import BYTES, END, PAD, SPECIALS, WORD, Merge, check_pieces
from glassbert.text.tokenizer import check_ids, for_engine

# Words of a language repeat; a long one hardly does and is not worth the memory.
_KEPT_WORDS = 1 << 17
_LONGEST_KEPT_WORD = 40

# A longer run without a space, such as a picture in letters, is cut: the merges of a word need memory.
_LONGEST_WORD = 1 << 16

_runs = re.compile(WORD).findall


def _words(text: str) -> list[str]:
    runs: list[str] = _runs(text)
    if len(text) <= _LONGEST_WORD:
        return runs
    return [run[at : at + _LONGEST_WORD] for run in runs for at in range(0, len(run), _LONGEST_WORD)]


@checked_methods
class SubwordTokenizer:
    """A reversible vocabulary. It caches the pieces of words, since words repeat."""

    def __init__(
        self, pieces: Sequence[str], merges: Sequence[Merge], *, max_length: int = DEFAULT_MAX_LENGTH
    ) -> None:
        """Build the engine.

        Args:
            pieces: by id: the specials, the 256 bytes, single characters, then what the merges make.
            merges: pairs of pieces that become one, in the order in which they are applied.
            max_length: how many ids a text may give, specials included; only stored, for users of the folder.
        """
        check_pieces(pieces, merges, "vocabulary")
        self.pieces = tuple(pieces)
        self.merges = tuple(merges)
        self.max_length = max_length
        self._model = models.BPE(
            vocab={piece: id_ for id_, piece in enumerate(pieces)},
            merges=list(merges),
            byte_fallback=True,
        )
        self._remembered = lru_cache(maxsize=_KEPT_WORDS)(self._ids_of_word)
        # What each piece adds to the text: nothing, one byte, or its characters.
        special = [b""] * len(SPECIALS)
        single = [bytes([value]) for value in range(len(BYTES))]
        self._bytes = [*special, *single, *(p.encode("utf-8") for p in pieces[len(SPECIALS) + len(BYTES) :])]

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.pieces)

    def __repr__(self) -> str:
        return f"<SubwordTokenizer: {len(self):,} pieces, max_length={self.max_length}>"

    @property
    def pad_id(self) -> int:
        """The first id that a decoder reads."""
        return SPECIALS.index(PAD)

    @property
    def end_id(self) -> int:
        """The id that ends a source, and that a decoder writes when it is done."""
        return SPECIALS.index(END)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read the vocabulary of a model folder."""
        pieces, merges, max_length = read_subwords(folder)
        return cls(pieces, merges, max_length=max_length)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the files from which `load` and transformers make this vocabulary again.

        Args:
            overwrite: Replace a vocabulary that was saved there.
        """
        write_subwords(folder, self._engine_json(), max_length=self.max_length, overwrite=overwrite)

    def ids_of(self, text: str) -> list[int]:
        """Return the pieces of ``text``, without specials."""
        return self.ids_of_batch([text])[0]

    def ids_of_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the pieces of each text, without specials."""
        remembered, once = self._remembered, self._ids_of_word
        return [
            [
                id_
                for word in _words(f" {text}")
                for id_ in (remembered if len(word) <= _LONGEST_KEPT_WORD else once)(word)
            ]
            if text
            else []
            for text in for_engine(texts)
        ]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ``ids``. Specials are skipped; bytes that are not UTF-8 become U+FFFD."""
        check_ids(ids, len(self))
        joined = b"".join([self._bytes[id_] for id_ in ids]).decode("utf-8", errors="replace")
        return joined.removeprefix(" ")

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Return pieces for display: spaces are visible."""
        return [self.pieces[id_].replace(" ", "\u2581") for id_ in ids]

    @property
    def sha256(self) -> str:
        """The fingerprint of pieces and merges."""
        return hashlib.sha256(repr((self.pieces, self.merges)).encode("utf-8")).hexdigest()

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        return tuple(token.id for token in self._model.tokenize(word))

    def _engine_json(self) -> str:
        """Return the equivalent engine for `tokenizer.json`; our own code is twice as fast."""
        engine = tokenizers.Tokenizer(self._model)
        engine.normalizer = normalizers.Prepend(" ")
        engine.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(WORD), behavior="isolated")
        engine.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, self.end_id)]
        )
        engine.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(content=" ", left=1, right=0)]
        )
        return engine.to_str(pretty=True)

"""Text to ids and back, as BERT does it: WordPiece by the `tokenizers` engine; specials and truncation by us.

The engine is asked for pieces and offsets only and is never changed after it is built, so that any number of
threads can share one `Tokenizer`. How the text becomes pieces can be read in `reference.py`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from glassbert.errors import UserError
from glassbert.text.truncate import Keep, Span, check_keep, cut_spans, kept_spans, share_room
from glassbert.text.vocabulary import CLS, SEP, SPECIALS, UNK, Vocabulary
from glassbert.text.wordpiece.folder import DEFAULT_MAX_LENGTH, TokenizerSettings, read_folder, write_folder

MAX_CHARACTERS_PER_WORD = 100
"""A longer word becomes one [UNK]."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_NO_OFFSET = (0, 0)


class Pieces(NamedTuple):
    """The pieces of one text without specials."""

    ids: list[int]
    offsets: list[Span]
    """Where each piece stands in the text, in characters."""


class Cut(NamedTuple):
    """A run of one text that truncation removed."""

    text: Literal["a", "b"]
    start: int
    """First character removed."""
    end: int
    """The character after the last one removed."""
    num_pieces: int


@dataclass(frozen=True, slots=True)
class Encoding:
    """One model input: [CLS] a [SEP], or [CLS] a [SEP] b [SEP]. All lists have the same length."""

    ids: list[int]
    segments: list[int]
    """0 up to and with the first [SEP], 1 after it."""
    offsets: list[Span]
    """Which characters of its own text (a or b) each piece stands for; (0, 0) for specials."""
    pieces: list[str]
    cut: tuple[Cut, ...]
    num_unknown: int
    """How many of the pieces are [UNK]."""

    @property
    def truncated(self) -> bool:
        """Whether anything was cut."""
        return bool(self.cut)

    @property
    def num_cut(self) -> int:
        """How many pieces were cut."""
        return sum(cut.num_pieces for cut in self.cut)


class Tokenizer:
    """A vocabulary with the rules that cut text into its pieces."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        tokenize_chinese_chars: bool = True,
        max_length: int = DEFAULT_MAX_LENGTH,
    ) -> None:
        """Build the engine.

        Args:
            strip_accents: None means as ``lowercase``.
            max_length: how many ids `encode` returns at most, specials included, unless told otherwise.
        """
        self.vocabulary = vocabulary
        self.settings = TokenizerSettings(
            lowercase=lowercase,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            max_length=max_length,
        )
        self.assumptions: tuple[str, ...] = ()
        """What `load` had to guess, each a sentence for the user."""
        model = models.WordPiece(
            vocabulary.ids,
            unk_token=UNK,
            max_input_chars_per_word=MAX_CHARACTERS_PER_WORD,
            continuing_subword_prefix="##",
        )
        self._plain_engine = _build_engine(model, self.settings)
        self._engine = _build_engine(model, self.settings)
        self._engine.add_special_tokens(
            [tokenizers.AddedToken(special, special=True) for special in SPECIALS]
        )
        # We never use these two parts but for `decode`; they make the saved tokenizer.json complete.
        self._engine.decoder = decoders.WordPiece(prefix="##")
        self._engine.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(CLS, vocabulary.cls_id), (SEP, vocabulary.sep_id)],
        )

    @property
    def max_length(self) -> int:
        """How many ids `encode` returns at most when it is not told."""
        return self.settings.max_length

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read the tokenizer of a model folder; what the folder does not say is put into `assumptions`."""
        vocabulary, settings, assumptions = read_folder(folder)
        tokenizer = cls(
            vocabulary,
            lowercase=settings.lowercase,
            strip_accents=settings.strip_accents,
            tokenize_chinese_chars=settings.tokenize_chinese_chars,
            max_length=settings.max_length,
        )
        tokenizer.assumptions = assumptions
        return tokenizer

    def save(self, folder: Path) -> None:
        """Write the files from which `load`, and transformers, make this tokenizer again."""
        write_folder(folder, self.vocabulary, self.settings, self._engine.to_str(pretty=True))

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        max_length: int | None = None,
        keep: Keep = "head",
        parse_specials: bool = True,
    ) -> Encoding:
        """Return the model input for a text, or for a pair of texts.

        Args:
            keep: which end of a text that is too long stays.
            parse_specials: whether `[MASK]` and the like in the text are specials, or plain text.
        """
        return self.encode_batch(
            [text],
            None if pair is None else [pair],
            max_length=max_length,
            keep=keep,
            parse_specials=parse_specials,
        )[0]

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        keep: Keep = "head",
        parse_specials: bool = True,
    ) -> list[Encoding]:
        """Return the model input for each text, or for each text with its pair; see `encode`."""
        check_keep(keep)
        room = self._room(2 if pairs is None else 3, max_length)
        firsts = self.pieces_of_batch(texts, parse_specials=parse_specials)
        if pairs is None:
            return [self._assemble(first, None, room, keep) for first in firsts]
        if len(pairs) != len(texts):
            raise UserError(f"{len(texts)} texts came with {len(pairs)} pairs; give one pair for each text")
        seconds = self.pieces_of_batch(pairs, parse_specials=parse_specials)
        return [
            self._assemble(first, second, room, keep) for first, second in zip(firsts, seconds, strict=True)
        ]

    def pieces_of(self, text: str, *, parse_specials: bool = False) -> Pieces:
        """Return the pieces of the whole text, without specials around them."""
        return self.pieces_of_batch([text], parse_specials=parse_specials)[0]

    def pieces_of_batch(self, texts: Sequence[str], *, parse_specials: bool = False) -> list[Pieces]:
        """Return the pieces of each text, without specials around them."""
        engine = self._engine if parse_specials else self._plain_engine
        encodings = engine.encode_batch(for_engine(texts), add_special_tokens=False)
        return [Pieces(encoding.ids, encoding.offsets) for encoding in encodings]

    def ids_of_batch(self, texts: Sequence[str], *, parse_specials: bool = False) -> list[list[int]]:
        """Return what `pieces_of_batch` returns but for the offsets: a quarter faster."""
        engine = self._engine if parse_specials else self._plain_engine
        encodings = engine.encode_batch_fast(for_engine(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int], *, skip_specials: bool = True) -> str:
        """Return the text of ``ids``: pieces joined to words, words joined by spaces."""
        for id_ in ids:
            if not 0 <= id_ < len(self.vocabulary):
                raise UserError(
                    f"id {id_} is outside the vocabulary of {len(self.vocabulary)} pieces; "
                    "were these ids made with another vocabulary?"
                )
        return self._engine.decode(list(ids), skip_special_tokens=skip_specials)

    def _room(self, num_specials: int, max_length: int | None) -> int:
        length = self.max_length if max_length is None else max_length
        if length < num_specials:
            raise UserError(
                f"max_length={length} has no room for the {num_specials} specials; use {num_specials} or more"
            )
        return length - num_specials

    def _assemble(self, first: Pieces, second: Pieces | None, room: int, keep: Keep) -> Encoding:
        """Cut the pieces to ``room`` and put the specials around them."""
        cls_id, sep_id, unk_id = self.vocabulary.cls_id, self.vocabulary.sep_id, self.vocabulary.unk_id
        room_a, room_b = share_room(len(first.ids), len(second.ids) if second else 0, room)
        a, cut = _fit(first, room_a, keep, "a")
        ids = [cls_id, *a.ids, sep_id]
        offsets = [_NO_OFFSET, *a.offsets, _NO_OFFSET]
        segments = [0] * len(ids)
        if second is not None:
            b, cut_b = _fit(second, room_b, keep, "b")
            ids += [*b.ids, sep_id]
            offsets += [*b.offsets, _NO_OFFSET]
            segments += [1] * (len(b.ids) + 1)
            cut += cut_b
        pieces = self.vocabulary.pieces
        return Encoding(
            ids=ids,
            segments=segments,
            offsets=offsets,
            pieces=[pieces[id_] for id_ in ids],
            cut=cut,
            num_unknown=ids.count(unk_id),
        )


def _build_engine(model: models.WordPiece, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    engine = tokenizers.Tokenizer(model)
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.tokenize_chinese_chars,
        strip_accents=settings.strip_accents,
        lowercase=settings.lowercase,
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engine


def for_engine(texts: Sequence[str]) -> list[str]:
    """Return ``texts`` with lone surrogates, which the engine cannot take, replaced one for one."""
    if isinstance(texts, str):
        raise UserError("one string came where a list of texts is expected; put it into a list")
    for text in texts:
        if not isinstance(text, str):
            raise UserError(f"a text must be a string; {type(text).__name__} came")
    return [text if text.isascii() else _SURROGATE.sub("\ufffd", text) for text in texts]


def _fit(pieces: Pieces, room: int, keep: Keep, text: Literal["a", "b"]) -> tuple[Pieces, tuple[Cut, ...]]:
    """Return what of ``pieces`` is kept in ``room``, and what is cut."""
    if len(pieces.ids) <= room:
        return pieces, ()
    spans = kept_spans(len(pieces.ids), room, keep)
    kept = Pieces(
        [id_ for start, stop in spans for id_ in pieces.ids[start:stop]],
        [offset for start, stop in spans for offset in pieces.offsets[start:stop]],
    )
    cut = tuple(
        Cut(text, pieces.offsets[start][0], pieces.offsets[stop - 1][1], stop - start)
        for start, stop in cut_spans(len(pieces.ids), spans)
    )
    return kept, cut

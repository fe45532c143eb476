"""Text to ids and back as BERT does it: WordPiece by the `tokenizers` engine, specials and truncation by us.

The engine is asked for pieces and offsets only and is never changed after it is built, so that any number of
threads can share one `Tokenizer`. `reference.py` shows in plain Python how text becomes pieces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, Self

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, processors

from glassbert.arguments import checked_methods
from glassbert.errors import UserError
from glassbert.storage import new_folder
from glassbert.text.portions import PORTION_CHARACTERS, grouped, portions
from glassbert.text.tokenizer import check_ids, for_engine
from glassbert.text.truncate import Keep, Range, cut_spans, kept_spans, share_room
from glassbert.text.vocabulary import CLS, SEP, SPECIALS, UNK, Vocabulary
from glassbert.text.wordpiece.folder import read_folder, write_folder
from glassbert.text.wordpiece.settings import DEFAULT_MAX_LENGTH, MAX_CHARACTERS_PER_WORD, TokenizerSettings

_NO_OFFSET = (0, 0)
_STREAM_TEXTS = 256


class Pieces(NamedTuple):
    """The pieces of one text, without specials."""

    ids: list[int]
    offsets: list[Range]
    """The characters of the text that each piece covers: the first, and the one after the last."""


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
    """0 up to the first [SEP], included; 1 after it."""
    offsets: list[Range]
    """The characters of its own text (a or b) that each piece covers; (0, 0) for specials."""
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


@checked_methods
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
            strip_accents: None means the same as ``lowercase``.
            max_length: how many ids `encode` returns at most by default, specials included.
        """
        self.vocabulary = vocabulary
        self.settings = TokenizerSettings(
            lowercase=lowercase,
            strip_accents=strip_accents,
            tokenize_chinese_chars=tokenize_chinese_chars,
            max_length=max_length,
        )
        self.assumptions: tuple[str, ...] = ()
        """What `load` had to assume, each a sentence for the user."""
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
        # Only `decode` uses one of these two parts; they make the saved tokenizer.json complete.
        self._engine.decoder = decoders.WordPiece(prefix="##")
        self._engine.post_processor = processors.TemplateProcessing(
            single=f"{CLS}:0 $A:0 {SEP}:0",
            pair=f"{CLS}:0 $A:0 {SEP}:0 $B:1 {SEP}:1",
            special_tokens=[(CLS, vocabulary.cls_id), (SEP, vocabulary.sep_id)],
        )

    @property
    def max_length(self) -> int:
        """How many ids `encode` returns at most by default, specials included."""
        return self.settings.max_length

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.vocabulary)

    def __repr__(self) -> str:
        case = "uncased" if self.settings.lowercase else "cased"
        return f"<Tokenizer: {len(self):,} pieces, {case}, max_length={self.max_length}>"

    def __call__(self, text: str, pair: str | None = None) -> Encoding:
        """Return the model input for a text or a pair of texts; `encode` has options."""
        return self.encode(text, pair)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
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

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the files from which `load` and transformers make this tokenizer again.

        A new folder appears with all of them or not at all.

        Args:
            overwrite: Replace a vocabulary that was saved there.
        """
        folder = Path(folder)
        if not folder.exists():
            with new_folder(folder) as aside:
                self._write(aside, overwrite=False)
        else:
            self._write(folder, overwrite=overwrite)

    def _write(self, folder: Path, *, overwrite: bool) -> None:
        engine_json = self._engine.to_str(pretty=True)
        write_folder(folder, self.vocabulary, self.settings, engine_json, overwrite=overwrite)

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
            keep: which end of a text that is too long is kept.
            parse_specials: whether `[MASK]` and the other specials in the text are read as such.
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
        room = self._room(2 if pairs is None else 3, max_length)
        firsts = self._stream_pieces(texts, parse_specials)
        if pairs is None:
            return [self._assemble(first, None, room, keep) for first in firsts]
        if len(pairs) != len(texts):
            raise UserError(f"got {len(texts)} texts and {len(pairs)} pairs; give one pair for each text")
        seconds = self._stream_pieces(pairs, parse_specials)
        return [
            self._assemble(first, second, room, keep) for first, second in zip(firsts, seconds, strict=True)
        ]

    def pieces_of(self, text: str, *, parse_specials: bool = False) -> Pieces:
        """Return the pieces of the whole text, without specials around them."""
        return self.pieces_of_batch([text], parse_specials=parse_specials)[0]

    def pieces_of_batch(self, texts: Sequence[str], *, parse_specials: bool = False) -> list[Pieces]:
        """Return the pieces of each text, without specials around them."""
        return list(self._stream_pieces(texts, parse_specials))

    def ids_of_batch(self, texts: Sequence[str], *, parse_specials: bool = False) -> list[list[int]]:
        """Return the ids that `pieces_of_batch` returns, without offsets: a quarter faster."""
        engine = self._engine if parse_specials else self._plain_engine
        found: list[list[int]] = []
        for group in grouped(for_engine(texts)):
            if max(map(len, group)) <= PORTION_CHARACTERS:
                found += [one.ids for one in engine.encode_batch_fast(group, add_special_tokens=False)]
                continue
            for text in group:
                found.append([])
                for _, portion in self._portions(text):
                    found[-1] += engine.encode_batch_fast([portion], add_special_tokens=False)[0].ids
        return found

    def _stream_pieces(self, texts: Sequence[str], parse_specials: bool) -> Iterator[Pieces]:
        """Yield the pieces of each text, a few texts at a time: all offsets at once would fill the memory."""
        engine = self._engine if parse_specials else self._plain_engine
        for group in grouped(for_engine(texts)):
            if max(map(len, group)) > PORTION_CHARACTERS:
                yield from (self._pieces_of_long(text, engine) for text in group)
            else:
                for encoding in engine.encode_batch(group, add_special_tokens=False):
                    yield Pieces(encoding.ids, encoding.offsets)

    def _pieces_of_long(self, text: str, engine: tokenizers.Tokenizer) -> Pieces:
        pieces = Pieces([], [])
        for at, portion in self._portions(text):
            encoding = engine.encode(portion, add_special_tokens=False)
            pieces.ids.extend(encoding.ids)
            pieces.offsets.extend((at + start, at + end) for start, end in encoding.offsets)
        return pieces

    def _portions(self, text: str) -> Iterator[tuple[int, str]]:
        return portions(text, are_chinese_apart=self.settings.tokenize_chinese_chars)

    def stream_pieces(self, texts: Sequence[str]) -> Iterator[Pieces]:
        """Yield the pieces of each text, a few texts at a time: all offsets at once would fill the memory.

        Equal neighbours, such as the contexts of several questions, are cut once.
        """
        for chunk in grouped(texts, max_items=_STREAM_TEXTS):
            distinct = list(dict.fromkeys(chunk))
            pieces = dict(zip(distinct, self.pieces_of_batch(distinct), strict=True))
            yield from (pieces[text] for text in chunk)

    def decode(self, ids: Sequence[int], *, skip_specials: bool = True) -> str:
        """Return the text of ``ids``: pieces joined to words, words joined by spaces."""
        check_ids(ids, len(self))
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
    engine.normalizer = settings.normalizer()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engine


def _fit(pieces: Pieces, room: int, keep: Keep, text: Literal["a", "b"]) -> tuple[Pieces, tuple[Cut, ...]]:
    """Return the pieces that fit into ``room``, and what is cut."""
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

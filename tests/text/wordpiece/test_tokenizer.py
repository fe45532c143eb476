import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.errors import UserError
from glassbert.text.normalise import normalise
from glassbert.text.truncate import Keep
from glassbert.text.vocabulary import SPECIALS, UNK, Vocabulary
from glassbert.text.wordpiece.reference import ReferenceTokenizer
from glassbert.text.wordpiece.tokenizer import _STREAM_TEXTS, Cut, Encoding, Pieces, Tokenizer

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "tokenizer.json").read_text(encoding="utf-8"))
VOCABULARY = Vocabulary(tuple(GOLDEN["pieces"]))
TOKENIZERS = {lowercase: Tokenizer(VOCABULARY, lowercase=lowercase) for lowercase in (True, False)}
TOKENIZER = TOKENIZERS[True]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['text'][:20]}-{case['lowercase']}")
def test_golden_strings_give_what_transformers_gives(case: dict) -> None:
    tokenizer = TOKENIZERS[case["lowercase"]]
    encoding = tokenizer.encode(case["text"], case["pair"], max_length=case["max_length"])
    assert encoding.pieces == case["pieces"]
    assert encoding.ids == case["ids"]
    assert encoding.segments == case["segments"]
    assert encoding.offsets == [tuple(offset) for offset in case["offsets"]]
    assert tokenizer.decode(encoding.ids, skip_specials=False) == case["decoded"]


# Properties. The alphabet holds every kind of trouble, and the vocabulary holds the alphabet, so that pieces
# and not only [UNK] come out.
TROUBLE = (
    "abCDé\u0301\u0323\u0344ñßİıΣςﬁ한각\u1112가北京\uf900\U0002f800"  # letters, accents, ideographs
    "\u08d4\u302e\u302f\U0001d165\U0001e944\u1b44\u07fd"  # marks that the engine keeps and may reorder
    "😀👍🏽\u200d\ufe0f👨🇩🇪"  # emoji and what joins them
    " \t\n\r\u00a0\u3000\u2028\v\f\x1c\x85\u200b\xad\ufeff\0\x7f\ufffd\ud800\udfff\ue000\u0378"  # blank
    ".,!?'$+~`「」、。…—\u2e43\u166d[]#"  # punctuation, and what only looks like it
)


def make_small_vocabulary() -> Vocabulary:
    """Return a vocabulary with each character of `TROUBLE` in any form that normalising can give it."""
    forms = dict.fromkeys(
        character.value
        for lowercase in (True, False)
        for letter in TROUBLE
        for strip in (True, False)
        for character in normalise(letter, lowercase=lowercase, strip_accents=strip)
        if character.value not in " \ud800\udfff"
    )
    pieces = [*SPECIALS, *forms, *("##" + form for form in forms), "ab", "##ab", "abc", "##éa", "ss"]
    return Vocabulary(tuple(dict.fromkeys(pieces)))


SMALL = make_small_vocabulary()
VARIANTS = [
    {"lowercase": True},
    {"lowercase": False},
    {"lowercase": True, "strip_accents": False},
    {"lowercase": False, "strip_accents": True},
    {"lowercase": True, "tokenize_chinese_chars": False},
]
ENGINES = [(Tokenizer(SMALL, **variant), ReferenceTokenizer(SMALL, **variant)) for variant in VARIANTS]
any_text = st.lists(
    st.one_of(
        st.text(alphabet=TROUBLE, max_size=20),
        st.text(alphabet=st.characters(exclude_categories=()), max_size=10),
        st.sampled_from([*SPECIALS, "[mask]", "[MASK", "a" * 100, "é" * 101, "北" * 150, "aB" * 5_000]),
    ),
    max_size=6,
).map("".join)


@settings(max_examples=300, deadline=None)
@given(any_text, st.sampled_from(ENGINES), st.booleans())
def test_any_text_gives_the_pieces_and_places_of_the_reference(text, engines, parse_specials) -> None:
    tokenizer, reference = engines
    found = tokenizer.pieces_of(text, parse_specials=parse_specials)
    expected = reference.pieces(text, parse_specials=parse_specials)
    assert [SMALL.pieces[id_] for id_ in found.ids] == [piece.text for piece in expected]
    assert found.offsets == [(piece.start, piece.end) for piece in expected]
    assert tokenizer.ids_of_batch([text], parse_specials=parse_specials) == [found.ids]


@settings(max_examples=200, deadline=None)
@given(any_text, any_text, st.integers(3, 40), st.sampled_from(ENGINES))
def test_any_pair_is_cut_as_by_the_reference(text, pair, max_length, engines) -> None:
    tokenizer, reference = engines
    encoding = tokenizer.encode(text, pair, max_length=max_length)
    expected = reference.encode(text, pair, max_length=max_length)
    assert encoding.pieces == [piece.text for piece in expected]
    assert encoding.segments == [piece.segment for piece in expected]
    assert encoding.offsets == [(piece.start, piece.end) for piece in expected]


# Without the marks that can swap: after a swap, a place holds another mark than the piece.
steady_text = st.lists(
    st.one_of(
        st.text(alphabet=[c for c in TROUBLE if c not in "\u302e\u302f\U0001d165\u1b44\u08d4\U0001e944"]),
        st.sampled_from(["a" * 101, "北" * 150]),
    ),
    max_size=4,
).map("".join)


@settings(max_examples=200, deadline=None)
@given(steady_text, st.sampled_from(VARIANTS))
def test_each_piece_is_found_in_the_text_at_its_place(text, variant) -> None:
    pieces = Tokenizer(SMALL, **variant).pieces_of(text)
    before = (0, 0)
    for id_, (start, end) in zip(pieces.ids, pieces.offsets, strict=True):
        assert 0 <= start < end <= len(text)
        assert start >= before[0]
        assert end >= before[1]
        before = (start, end)
        source = "".join(character.value for character in normalise(text[start:end], **variant))
        piece = SMALL.pieces[id_].removeprefix("##")
        assert piece == UNK or piece in source


def test_threads_that_share_a_tokenizer_get_what_one_thread_gets() -> None:
    draw = random.Random(0)
    words = ["hello", "unaffable", "今天天气", "[MASK]", "café", "x" * 120, "😀", "running,", ""]
    calls = []
    for _ in range(8 * 400):
        text, pair = (" ".join(draw.choices(words, k=draw.randrange(30))) for _ in range(2))
        options = {
            "pair": draw.choice([None, pair]),
            "max_length": draw.choice([None, 3, 8, 17, 64]),
            "keep": draw.choice(["head", "tail", "head+tail"]),
            "parse_specials": draw.random() < 0.5,
        }
        calls.append((text, options))

    def encode(call: tuple[str, dict]) -> Encoding:
        return TOKENIZER.encode(call[0], **call[1])

    alone = [encode(call) for call in calls]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(encode, calls)) == alone


def test_a_batch_is_the_same_as_one_by_one() -> None:
    texts = ["hello world", "", "今天 [MASK]", "a \ud800 b", "x" * 300]
    pairs = ["我们", "a b c d e f g", "", "hello", "b"]
    options = {"max_length": 8, "keep": "tail", "parse_specials": False}
    assert TOKENIZER.encode_batch(texts, **options) == [TOKENIZER.encode(text, **options) for text in texts]
    assert TOKENIZER.encode_batch(texts, pairs, **options) == [
        TOKENIZER.encode(text, pair, **options) for text, pair in zip(texts, pairs, strict=True)
    ]
    assert TOKENIZER.encode_batch([]) == []


def test_what_is_cut_is_reported_with_its_characters() -> None:
    text = "a b c d e f g h i j"
    head = TOKENIZER.encode(text, max_length=6)
    assert head.pieces == ["[CLS]", "a", "b", "c", "d", "[SEP]"]
    assert head.cut == (Cut("a", 8, 19, num_pieces=6),)
    assert (head.truncated, head.num_cut) == (True, 6)
    tail = TOKENIZER.encode(text, max_length=6, keep="tail")
    assert tail.pieces == ["[CLS]", "g", "h", "i", "j", "[SEP]"]
    assert tail.cut == (Cut("a", 0, 11, num_pieces=6),)
    both = TOKENIZER.encode(text, max_length=6, keep="head+tail")
    assert both.pieces == ["[CLS]", "a", "b", "i", "j", "[SEP]"]
    assert both.cut == (Cut("a", 4, 15, num_pieces=6),)
    pair = TOKENIZER.encode(text, text, max_length=8, keep="tail")
    assert pair.pieces == ["[CLS]", "i", "j", "[SEP]", "h", "i", "j", "[SEP]"]
    assert [cut.text for cut in pair.cut] == ["a", "b"]
    whole = TOKENIZER.encode(text)
    assert (whole.truncated, whole.cut, whole.num_cut) == (False, (), 0)


@given(
    num_first=st.integers(0, 12),
    num_second=st.none() | st.integers(0, 12),
    max_length=st.integers(3, 20),
    keep=st.sampled_from(("head", "tail", "head+tail")),
)
def test_an_input_is_truncated_exactly_if_a_piece_of_its_texts_is_missing(
    num_first: int, num_second: int | None, max_length: int, keep: Keep
) -> None:
    pair = None if num_second is None else "b " * num_second
    found = TOKENIZER.encode("a " * num_first, pair, max_length=max_length, keep=keep)
    whole = TOKENIZER.encode("a " * num_first, pair)
    num_missing = len(whole.ids) - len(found.ids)
    assert (found.truncated, found.num_cut) == (num_missing > 0, num_missing)
    assert found.truncated == (len(whole.ids) > max_length)


def test_the_published_split_of_long_texts() -> None:
    middle = TOKENIZER.encode("a " * 700 + "b " * 100, keep="head+tail")
    assert middle.ids[1:-1] == [VOCABULARY.id("a")] * (128 + 282) + [VOCABULARY.id("b")] * 100
    assert middle.cut == (Cut("a", 2 * 128, 2 * 418 - 1, num_pieces=290),)
    long = TOKENIZER.encode("a " * 256 + "c " * 400 + "b " * 254, keep="head+tail")
    assert long.ids[1:-1] == [VOCABULARY.id("a")] * 256 + [VOCABULARY.id("b")] * 254


def test_unknown_pieces_are_counted() -> None:
    assert TOKENIZER.encode("hello 龘 world 鬱").num_unknown == 2
    assert TOKENIZER.encode("hello world").num_unknown == 0


def test_the_limit_is_that_of_the_tokenizer_by_default() -> None:
    tokenizer = Tokenizer(VOCABULARY, max_length=5)
    assert len(tokenizer.encode("a b c d e f g").ids) == 5
    assert len(tokenizer.encode("a b c d e f g", max_length=7).ids) == 7
    assert tokenizer.encode("a b", max_length=2).pieces == ["[CLS]", "[SEP]"]


def test_specials_in_a_text_count_unless_they_are_plain_text() -> None:
    assert TOKENIZER.encode("a [MASK] b").ids[2] == VOCABULARY.mask_id
    assert VOCABULARY.mask_id not in TOKENIZER.encode("a [MASK] b", parse_specials=False).ids
    assert TOKENIZER.encode("x[SEP]y").offsets == [(0, 0), (0, 1), (1, 6), (6, 7), (0, 0)]


@pytest.mark.parametrize("text", ["", "   ", "\0\x07\ufffd", "\ud800", "\u200b\u200d"])
def test_a_text_of_nothing_is_legal(text: str) -> None:
    assert TOKENIZER.encode(text).pieces == ["[CLS]", "[SEP]"]
    assert TOKENIZER.encode(text, text).pieces == ["[CLS]", "[SEP]", "[SEP]"]


def test_decoding_joins_pieces_and_skips_specials_if_asked() -> None:
    ids = TOKENIZER.encode("unaffable 今天").ids
    assert TOKENIZER.decode(ids) == "unaffable 今 天"
    assert TOKENIZER.decode(ids, skip_specials=False) == "[CLS] unaffable 今 天 [SEP]"
    assert TOKENIZER.decode([]) == ""


@pytest.mark.parametrize("id_", [-1, len(VOCABULARY), 10**12])
def test_an_id_outside_the_vocabulary_is_named(id_: int) -> None:
    with pytest.raises(UserError, match=f"id {id_} is outside the vocabulary of {len(VOCABULARY)} pieces"):
        TOKENIZER.decode([5, id_])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: TOKENIZER.encode("a", max_length=1), "max_length=1 has no room for the 2 specials"),
        (lambda: TOKENIZER.encode("a", "b", max_length=2), "max_length=2 has no room for the 3 specials"),
        (lambda: TOKENIZER.encode("a", keep="middle"), "keep='middle'; expected"),
        (lambda: TOKENIZER.encode_batch(["a", "b"], ["c"]), "got 2 texts and 1 pairs"),
        (lambda: TOKENIZER.encode_batch("ab"), "texts='ab'; expected a list of str; wrap it in a list"),
        (lambda: TOKENIZER.encode(None), "text=None; expected str"),
    ],
)
def test_a_wrong_call_says_what_to_do(call, message: str) -> None:
    with pytest.raises(UserError, match=message):
        call()


class CountingTokenizer(Tokenizer):
    """Records what it was asked for."""

    def __init__(self) -> None:
        super().__init__(Vocabulary((*SPECIALS, *"abc")))
        self.asked: list[list[str]] = []

    def pieces_of_batch(self, texts: list[str], **options: bool) -> list[Pieces]:  # type: ignore[override]
        self.asked.append(list(texts))
        return super().pieces_of_batch(texts, **options)


def test_pieces_are_in_order_and_equal_texts_are_cut_once() -> None:
    tokenizer = CountingTokenizer()
    texts = ["a b", "c", "a b", "a b", ""]
    assert list(tokenizer.stream_pieces(texts)) == [tokenizer.pieces_of(text) for text in texts]
    assert tokenizer.asked[0] == ["a b", "c", ""]


def test_only_a_few_texts_are_held_at_a_time() -> None:
    tokenizer = CountingTokenizer()
    texts = [
        " ".join("abc"[number % 3] for number in range(length)) for length in range(2 * _STREAM_TEXTS + 3)
    ]
    stream = tokenizer.stream_pieces(texts)
    next(stream)
    assert len(tokenizer.asked) == 1
    assert len(list(stream)) == len(texts) - 1
    assert [len(asked) for asked in tokenizer.asked] == [_STREAM_TEXTS, _STREAM_TEXTS, 3]


def test_calling_a_tokenizer_encodes_and_it_says_what_it_is() -> None:
    assert TOKENIZER("a", "b") == TOKENIZER.encode("a", "b")
    assert len(TOKENIZER) == len(VOCABULARY)
    assert repr(TOKENIZERS[False]) == f"<Tokenizer: {len(VOCABULARY)} pieces, cased, max_length=512>"

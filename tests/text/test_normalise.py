import unicodedata

import pytest
from tokenizers import normalizers, pre_tokenizers

from glassbert.text.characters import combining_class, decompose, is_accent, is_punctuation
from glassbert.text.normalise import Character, normalise

SURROGATES = range(0xD800, 0xE000)
# No character is assigned between this one and the private planes but tags and selectors at E0000.
END_OF_ASSIGNED = 0x33480
# Blocks of thousands of letters of one kind: looking at a few of each is enough for a quick test.
UNIFORM = [range(0x3400, 0xA000), range(0xAC00, 0xD7A4), range(0x17000, 0x18D00), range(0x20000, 0x33480)]
SETTINGS = [(True, None), (True, False), (False, None), (False, True)]


def plain(text: str, **settings: bool | None) -> str:
    return "".join(character.value for character in normalise(text, **settings))


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Hello World", "hello world"),
        ("Ünïcødé Ça", "unicøde ca"),
        ("tab\tline\nend\r nbsp\xa0wide\u3000.", "tab line end  nbsp wide ."),
        ("nul\0 soft\xad zero\u200bwidth \ufffd\ud800gone", "nul soft zerowidth gone"),
        ("北京2008", " 北  京 2008"),
        ("ΑΣ İ ẞ", "ας i ß".replace("ς", "σ")),  # lower-casing looks at one character: no final sigma
        ("한", "\u1112\u1161\u11ab"),
        ("ﬁ Ａ", "ﬁ ａ"),  # ligatures and wide letters stay: no compatibility forms
    ],
)
def test_lower_cased_text(text: str, result: str) -> None:
    assert plain(text) == result


def test_each_switch_does_its_own_step() -> None:
    assert plain("Él 北", lowercase=False) == "Él  北 "
    assert plain("Él 北", lowercase=False, strip_accents=True) == "El  北 "
    assert plain("Él 北", strip_accents=False) == "él  北 "
    assert plain("Él 北", tokenize_chinese_chars=False) == "el 北"


def test_characters_keep_their_original_positions() -> None:
    assert normalise("a\0É京") == [
        Character("a", 0, 1),
        Character("e", 2, 3),
        Character(" ", 3, 4),
        Character("京", 3, 4),
        Character(" ", 3, 4),
    ]
    assert normalise("İ", strip_accents=False) == [Character("i", 0, 1), Character("\u0307", 0, 1)]
    assert normalise("e\u0301x") == [Character("e", 0, 1), Character("x", 2, 3)]


def engine_and_reference(text: str, lowercase: bool, strip_accents: bool | None) -> tuple[str, str]:
    engine = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    return engine.normalize_str(text), plain(text, lowercase=lowercase, strip_accents=strip_accents)


@pytest.mark.parametrize("lowercase", [True, False])
def test_assigned_characters_are_normalised_as_the_engine_does(lowercase: bool) -> None:
    codes = [
        code
        for code in (*range(END_OF_ASSIGNED), *range(0xE0000, 0xE0200))
        if code not in SURROGATES and (code % 97 == 0 or not any(code in block for block in UNIFORM))
    ]
    engine, reference = engine_and_reference("a".join(map(chr, codes)), lowercase, strip_accents=None)
    assert reference == engine


@pytest.mark.slow
@pytest.mark.parametrize(("lowercase", "strip_accents"), SETTINGS)
def test_every_code_point_is_normalised_as_the_engine_does(
    lowercase: bool, strip_accents: bool | None
) -> None:
    for start in range(0, 0x110000, 0x1000):
        text = "a".join(chr(code) for code in range(start, start + 0x1000) if code not in SURROGATES)
        engine, reference = engine_and_reference(text, lowercase, strip_accents)
        assert reference == engine


def test_every_mark_is_sorted_among_others_as_the_engine_does() -> None:
    # The engine keeps these as letters, so their order is seen: classes 7, 9, 216, 224, 230.
    kept = "\U00011446\u1b44\U0001d165\u302e\u08d4"
    marks = [
        chr(code)
        for code in range(END_OF_ASSIGNED)
        if unicodedata.combining(chr(code)) or unicodedata.category(chr(code)) in ("Mn", "Mc")
    ]
    text = "a".join(order for mark in marks for other in kept for order in (mark + other, other + mark))
    engine, reference = engine_and_reference(text, lowercase=True, strip_accents=True)
    assert reference == engine
    assert len({combining_class(mark) for mark in kept}) == 5


def test_every_character_is_punctuation_when_the_engine_says_so() -> None:
    engine = pre_tokenizers.BertPreTokenizer()
    codes = (code for code in range(0x20000) if code not in SURROGATES and not 0x3400 <= code < 0xA000)
    characters = [chr(code) for code in codes]
    words = {word for word, _ in engine.pre_tokenize_str(" ".join(f"a{c}b" for c in characters))}
    for character in characters:
        # A mark is a word; another character keeps its neighbours, or is a space and vanishes.
        assert is_punctuation(character) == (character in words and character not in "ab"), ascii(character)


def test_the_tables_hold_where_python_and_the_engine_differ() -> None:
    # One of each kind; without its table each of these fails on some Python.
    assert not is_punctuation("\u2e43")
    assert is_punctuation("\u166d")
    assert not is_accent("\u08d4")
    assert is_accent("\u1734")
    assert decompose("\U00011938") == "\U00011938"
    assert combining_class("\u07fd") == 0
    assert plain("\U00010d50\u0890") == "\U00010d70\u0890"

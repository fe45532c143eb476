import re
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from glassbert.text.characters import CJK, is_chinese
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.settings import TokenizerSettings
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter

UNCASED, CASED = TokenizerSettings(), TokenizerSettings(lowercase=False)
ALL_SETTINGS = [
    UNCASED,
    CASED,
    TokenizerSettings(lowercase=False, strip_accents=True),
    TokenizerSettings(strip_accents=False),
    TokenizerSettings(tokenize_chinese_chars=False),
]
# Few characters, so that words repeat: case, accents in both forms, punctuation of both widths, CJK, kana,
# spaces of all sorts, controls that `str.split` takes for spaces, surrogates.
AWKWARD = (
    "aAéÉe\u0301İß1_-'。，中国\uf900\U00020bb7\U0002b830〇カ"
    " \t\n\r\u3000\u00a0\u2028\u200b\x0b\x1c\x85\x00\ufffd\ud800"
)


@pytest.mark.parametrize("rules", ALL_SETTINGS)
@given(text=st.text(alphabet=AWKWARD, max_size=40))
@example("Déjà-vu,北京A股e\x1cx e\x85y")
@settings(max_examples=100, deadline=None)
def test_fast_counting_gives_what_cutting_the_whole_text_gives(rules: TokenizerSettings, text: str) -> None:
    splitter = WordSplitter(rules)
    assert splitter.count(text) == Counter(splitter.words(text))


@given(text=st.text(alphabet=AWKWARD, max_size=40))
@settings(max_examples=100, deadline=None)
def test_words_are_those_that_the_tokenizer_sees(text: str) -> None:
    characters = {character for word in WordSplitter(UNCASED).words(text) for character in word}
    pieces = sorted(characters) + sorted(f"##{character}" for character in characters)
    tokenizer = Tokenizer(Vocabulary((*SPECIALS, *pieces)))
    words = WordSplitter(tokenizer.settings).words(text)
    assert tokenizer.pieces_of(text).ids == [id_ for word in words for id_ in tokenizer.pieces_of(word).ids]


def test_cjk_characters_are_exactly_those_that_the_engine_separates() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
    splitter = WordSplitter(CASED)
    words = splitter.words(" ".join(f"a{character}b" for character in characters if character.isprintable()))
    apart = {
        word
        for word, before, after in zip(words[1:], words, words[2:], strict=False)
        if before == "a" and after == "b"
    }
    is_cjk = re.compile(f"[{CJK}]").fullmatch
    assert all(is_chinese(character) == bool(is_cjk(character)) for character in characters)
    letters = {character for character in apart if character.isalpha()}
    assert {character for character in characters if is_cjk(character) and character.isprintable()} == letters

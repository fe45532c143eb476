import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.errors import DataError
from glassbert.text import portions as module
from glassbert.text.portions import grouped, portions
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece import tokenizer as tokenizer_module
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.text.wordpiece.words import WordSplitter

PIECES = (*SPECIALS, *"abcde,.[]()1\u4e2d\u6587", *(f"##{letter}" for letter in "abcde1"), "mask")
# Accents, marks that are deleted, a Korean syllable of three parts, a capital that becomes two letters.
ODD = "\u0301\u0323\x00\ufffd\u200d\ud55c\u0130\u3000\u2028\ufe30E\u00e9\n\t"
ALPHABET = "abc ,.!?:;[]()1\u4e2d\u6587\uf900" + ODD


@pytest.fixture
def tiny_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (module, tokenizer_module):
        monkeypatch.setattr(name, "PORTION_CHARACTERS", 6)


@pytest.mark.usefixtures("tiny_portions")
@pytest.mark.parametrize("are_chinese_apart", [True, False])
@settings(max_examples=300)
@given(words=st.lists(st.text(ALPHABET, max_size=12) | st.sampled_from(SPECIALS), max_size=8))
def test_a_text_in_portions_has_the_pieces_of_the_whole(are_chinese_apart: bool, words: list[str]) -> None:
    text = "".join(words)
    tokenizer = Tokenizer(Vocabulary(PIECES), tokenize_chinese_chars=are_chinese_apart)
    for parse_specials, engine in ((True, tokenizer._engine), (False, tokenizer._plain_engine)):
        whole = engine.encode(text, add_special_tokens=False)
        found = tokenizer.pieces_of(text, parse_specials=parse_specials)
        assert (found.ids, found.offsets) == (whole.ids, whole.offsets)
        assert tokenizer.ids_of_batch(["a", text], parse_specials=parse_specials)[1] == whole.ids


@pytest.mark.usefixtures("tiny_portions")
@given(text=st.text(ALPHABET, max_size=60))
def test_portions_join_to_the_text_and_know_their_places(text: str) -> None:
    found = list(portions(text, are_chinese_apart=True))
    assert "".join(part for _, part in found) == text
    assert all(text.startswith(part, at) for at, part in found)


def test_long_texts_are_really_cut() -> None:
    text = "one two, " * 20_000
    found = [len(part) for _, part in portions(text, are_chinese_apart=True)]
    assert len(found) > 4
    assert max(found) <= module.PORTION_CHARACTERS
    chinese = "\u4e2d\u6587" * 60_000
    assert len(list(portions(chinese, are_chinese_apart=True))) > 2
    assert len(list(portions(chinese, are_chinese_apart=False))) == 1, "one word"


def test_a_word_of_a_million_letters_is_no_text() -> None:
    tokenizer = Tokenizer(Vocabulary(PIECES))
    assert tokenizer.encode("a" * 100_000).pieces == ["[CLS]", "[UNK]", "[SEP]"]
    for work in (tokenizer.encode, WordSplitter(tokenizer.settings).words):
        with pytest.raises(
            DataError, match="about 2,000,000 characters without a space or a comma; is it text"
        ):
            work("a" * 2_000_000)


def test_groups_hold_items_in_order_and_no_more_than_they_may() -> None:
    texts = ["aa", "b", "cccc", "", "d", "e", "f"]
    assert list(grouped(texts, max_items=3, max_characters=100)) == [texts[:3], texts[3:6], texts[6:]]
    assert list(grouped(texts, max_characters=4)) == [["aa", "b", "cccc"], ["", "d", "e", "f"]]
    assert list(grouped([], max_items=3)) == []

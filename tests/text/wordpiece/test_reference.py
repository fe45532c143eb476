from glassbert.text.normalise import normalise
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.reference import Piece, ReferenceTokenizer, split_word, split_words

VOCABULARY = Vocabulary(
    (*SPECIALS, "un", "unaff", "##aff", "##able", "##a", "a", "b", "c", "d", "x", "##x", "!", "北")
)
TOKENIZER = ReferenceTokenizer(VOCABULARY)


def texts(pieces: list[Piece]) -> list[str]:
    return [piece.text for piece in pieces]


def test_words_end_at_spaces_and_around_punctuation() -> None:
    words = [
        "".join(character.value for character in word) for word in split_words(normalise("a$b!!  北京,c"))
    ]
    assert words == ["a", "$", "b", "!", "!", "北", "京", ",", "c"]


def test_the_longest_piece_is_taken_even_where_a_shorter_one_would_do_better() -> None:
    assert split_word("unaffable", VOCABULARY) == [("unaff", 0, 5), ("##able", 5, 9)]
    assert split_word("unaffa", VOCABULARY) == [("unaff", 0, 5), ("##a", 5, 6)]
    assert split_word("unable", VOCABULARY) == [("un", 0, 2), ("##able", 2, 6)]


def test_a_word_with_one_unknown_place_is_unknown_as_a_whole() -> None:
    assert split_word("unaffz", VOCABULARY) == [("[UNK]", 0, 6)]
    assert split_word("able", VOCABULARY) == [("[UNK]", 0, 4)]


def test_a_word_of_101_characters_is_unknown() -> None:
    assert len(split_word("x" * 100, VOCABULARY)) == 100
    assert split_word("x" * 101, VOCABULARY) == [("[UNK]", 0, 101)]


def test_pieces_point_into_the_original_text() -> None:
    text = "  Un\0affable 北!"
    pieces = TOKENIZER.pieces(text)
    assert [(piece.text, text[piece.start : piece.end]) for piece in pieces] == [
        ("unaff", "Un\0aff"),
        ("##able", "able"),
        ("北", "北"),
        ("!", "!"),
    ]


def test_specials_in_the_text_are_whole_only_when_asked_for() -> None:
    assert texts(TOKENIZER.pieces("a[MASK]b", parse_specials=True)) == ["a", "[MASK]", "b"]
    assert "[MASK]" not in texts(TOKENIZER.pieces("a[MASK]b"))
    assert texts(TOKENIZER.pieces("[mask]", parse_specials=True)) == ["[UNK]"] * 3


def test_a_pair_is_cut_from_its_longer_text() -> None:
    pieces = TOKENIZER.encode("a b c d", "x", max_length=6)
    assert texts(pieces) == ["[CLS]", "a", "b", "[SEP]", "x", "[SEP]"]
    assert [piece.segment for piece in pieces] == [0, 0, 0, 0, 1, 1]
    assert texts(TOKENIZER.encode("a b", "c d", max_length=6)) == ["[CLS]", "a", "[SEP]", "c", "d", "[SEP]"]

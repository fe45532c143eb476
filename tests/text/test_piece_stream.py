from glassbert.text.piece_stream import CHUNK, stream_pieces
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Pieces, Tokenizer


class CountingTokenizer(Tokenizer):
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        super().__init__(Vocabulary((*SPECIALS, *"abc")))
        self.asked: list[list[str]] = []

    def pieces_of_batch(self, texts: list[str], **options: bool) -> list[Pieces]:  # type: ignore[override]
        self.asked.append(list(texts))
        return super().pieces_of_batch(texts, **options)


def test_pieces_come_in_order_and_equal_texts_are_cut_once() -> None:
    tokenizer = CountingTokenizer()
    texts = ["a b", "c", "a b", "a b", ""]
    assert list(stream_pieces(tokenizer, texts)) == [tokenizer.pieces_of(text) for text in texts]
    assert tokenizer.asked[0] == ["a b", "c", ""]


def test_only_a_few_texts_are_held_at_a_time() -> None:
    tokenizer = CountingTokenizer()
    texts = [" ".join("abc"[number % 3] for number in range(length)) for length in range(2 * CHUNK + 3)]
    stream = stream_pieces(tokenizer, texts)
    next(stream)
    assert len(tokenizer.asked) == 1
    assert len(list(stream)) == len(texts) - 1
    assert [len(asked) for asked in tokenizer.asked] == [CHUNK, CHUNK, 3]

from pathlib import Path

import pytest

from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.tokenizer import TextTokenizer
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

TEXTS = ["the cat sat", "the cat"]


@pytest.fixture(params=["wordpiece", "bpe"])
def tokenizer(request: pytest.FixtureRequest) -> TextTokenizer:
    if request.param == "bpe":
        return learn_subwords(TEXTS, SubwordSettings(size=272)).tokenizer
    return Tokenizer(Vocabulary((*SPECIALS, "the", "cat", "sat")))


def test_both_kinds_of_tokenizer_do_what_the_protocol_says(tokenizer: TextTokenizer, tmp_path: Path) -> None:
    ids = tokenizer.ids_of_batch(TEXTS)
    assert [tokenizer.decode(of_text) for of_text in ids] == TEXTS
    assert max(map(max, ids)) < len(tokenizer)
    tokenizer.save(str(tmp_path / "saved"))
    again = tokenizer.load(str(tmp_path / "saved"))
    assert again.ids_of_batch(TEXTS) == ids
    assert (len(again), again.max_length) == (len(tokenizer), 512)
    assert f"{len(again)} pieces" in repr(again)

import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from glassbert.errors import DataError, UserError
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
from glassbert.text.bpe.pieces import BYTES, NUM_FIXED, SPECIALS
from glassbert.text.bpe.tokenizer import SubwordTokenizer

TEXTS = ["abab abab abab ab. cab", "ab 12"]

LEARN = """
from glassbert.text.bpe.learn import SubwordSettings, learn_subwords
words = "walk talk ring sing call fill".split()
texts = [f"the {word}ing of {word}s, or \\u4eca\\u5929 {word}ed" for word in words]
print(learn_subwords(texts, SubwordSettings(size=300)).tokenizer.sha256)
"""


def learn(size: int, **rules: int) -> SubwordTokenizer:
    return learn_subwords(TEXTS, SubwordSettings(size=size, **rules)).tokenizer


def test_rows_are_in_the_order_specials_bytes_characters_merges() -> None:
    tokenizer = learn(NUM_FIXED + 7 + 3)
    assert tokenizer.pieces[:NUM_FIXED] == (*SPECIALS, *BYTES)
    assert tokenizer.pieces[NUM_FIXED : NUM_FIXED + 7] == (" ", ".", "1", "2", "a", "b", "c")
    # `ab` occurs nine times, ` ab` five; then `ab` again after ` ab`, three times.
    assert tokenizer.pieces[NUM_FIXED + 7 :] == ("ab", " ab", " abab")
    assert tokenizer.merges == (("a", "b"), (" ", "ab"), (" ab", "ab"))


def test_the_same_texts_give_the_same_vocabulary_whatever_the_hash_seed() -> None:
    found = set()
    for seed in ("0", "1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", LEARN], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_the_order_of_the_texts_does_not_matter() -> None:
    generator = random.Random(0)
    texts = ["".join(generator.choices("abcd ", k=20)) for _ in range(50)]
    first = learn_subwords(texts, SubwordSettings(size=330)).tokenizer
    second = learn_subwords(texts[::-1], SubwordSettings(size=330)).tokenizer
    assert first.pieces == second.pieces


@pytest.mark.parametrize("size", [300, 320, 340])
def test_the_size_is_met_exactly(size: int) -> None:
    generator = random.Random(1)
    texts = ["".join(generator.choices("abcdefgh ", k=40)) for _ in range(80)]
    assert len(learn_subwords(texts, SubwordSettings(size=size)).tokenizer) == size


def test_encoding_cuts_words_as_learning_did() -> None:
    # Each piece occurs as often as its last merge counted, unless a later merge took it.
    tokenizer = learn(NUM_FIXED + 7 + 3)
    counts = Counter(piece for text in TEXTS for piece in tokenizer.shown(tokenizer.ids_of(text)))
    assert counts["\u2581abab"] == 3
    assert counts["\u2581ab"] == 2
    assert counts["ab"] == 1


def test_rare_characters_go_by_bytes_and_are_reported() -> None:
    learned = learn_subwords(TEXTS, SubwordSettings(size=NUM_FIXED + 5, max_alphabet=3))
    assert learned.tokenizer.pieces[NUM_FIXED : NUM_FIXED + 3] == (" ", "a", "b")
    report = learned.report
    assert report.alphabet_size == 3
    assert report.num_characters_by_bytes == 4
    assert report.by_bytes_examples == ((".", 1), ("1", 1), ("2", 1), ("c", 1))
    assert learned.tokenizer.decode(learned.tokenizer.ids_of("cab 12.")) == "cab 12."


def test_a_size_below_the_alphabet_says_what_is_needed() -> None:
    with pytest.raises(DataError, match=r"size 260 is too small: .* ask for 266 or more"):
        learn(260)
    assert len(learn(266)) == 266


def test_a_size_beyond_the_text_says_the_largest_possible() -> None:
    with pytest.raises(DataError, match="size 9000 is too large") as caught:
        learn(9000)
    largest = int(str(caught.value).split("gives ")[1].split()[0])
    assert len(learn(largest)) == largest


@pytest.mark.parametrize("texts", [[], ["", ""]])
def test_no_text_is_refused(texts: list[str]) -> None:
    with pytest.raises(DataError, match="no text to learn"):
        learn_subwords(texts, SubwordSettings(size=300))


def test_settings_without_sense_are_refused() -> None:
    with pytest.raises(UserError, match="min_count=0"):
        SubwordSettings(min_count=0)


def test_a_pair_that_is_too_rare_is_not_merged() -> None:
    # ` c`, `b.` and the like occur once.
    with pytest.raises(DataError, match=f"gives {NUM_FIXED + 7 + 3} pieces at most"):
        learn(NUM_FIXED + 7 + 4)
    assert len(learn(NUM_FIXED + 7 + 4, min_count=1)) == NUM_FIXED + 7 + 4

import numpy as np

from glassbert.tasks.tag.most_frequent import FrequentTags
from glassbert.tasks.task import Input
from glassbert.text.windows import Window

# Ids below 10 begin a word, the others continue it; tags: 0 outside, 1 begins, 2 inside.
STARTS_WORD = np.arange(20) < 10


def one(ids: list[int], tags: list[int] | None = None) -> Input:
    target = None if tags is None else np.array([-100, *tags, -100])
    return Input(
        np.array([0, *ids, 0], dtype=np.int32),
        np.zeros(len(ids) + 2, dtype=np.int8),
        0,
        Window(0, len(ids)),
        target=target,
    )


def guesses(ids: list[int], rows: list[Input]) -> list[int]:
    tags = FrequentTags(STARTS_WORD, 3)
    tags.learn([[row] for row in rows])
    return tags.logits(one(ids)).argmax(axis=1).tolist()


def test_a_word_gets_the_tags_that_it_has_most_often() -> None:
    rows = [one([1, 11, 2], [1, 2, 0]), one([1, 11, 3], [1, 2, 1]), one([1, 11, 3], [0, 0, 0])]
    assert guesses([3, 1, 11, 2], rows) == [0, 1, 2, 0]


def test_a_word_is_all_its_pieces() -> None:
    rows = [one([1, 11], [1, 2]), one([1], [0])]
    assert guesses([1, 1, 11, 1, 12], rows) == [0, 1, 2, 0, 0]


def test_unknown_words_are_outside_and_ties_do_not_depend_on_the_order_of_rows() -> None:
    rows = [one([1], [1]), one([1], [0])]
    assert guesses([1, 5], rows) == guesses([1, 5], rows[::-1]) == [0, 0]
    assert guesses([], rows) == []


def test_pieces_that_another_window_judges_do_not_count() -> None:
    assert guesses([1], [one([1, 2], [-100, 0])]) == [0]
    assert guesses([1], [one([1, 2], [1, -100])]) == [1]

from collections import Counter

import pytest

from glassbert.demo.topics import CHINESE, ENGLISH, NUM_KNOWN, SPLITS, TOPICS, Split, notes

NEW_THINGS = {
    thing
    for language in (ENGLISH, CHINESE)
    for things in language.things.values()
    for thing in things[NUM_KNOWN:]
}


def topics_of(text: str) -> list[str]:
    """Return the topic of each thing that a reader finds."""
    language = ENGLISH if text.isascii() else CHINESE
    words = text.rstrip(".?").replace(",", "").replace(";", "").replace("?", "").lower().split()
    return [
        topic
        for topic, things in language.things.items()
        for thing in things
        if (thing in words if text.isascii() else thing in text)
    ]


@pytest.mark.parametrize("split", SPLITS)
def test_a_sentence_names_two_things_of_its_topic_and_none_of_another(split: Split) -> None:
    for note in notes(split, 300, seed=0):
        assert topics_of(note.text) == [note.label, note.label], note.text


@pytest.mark.parametrize("split", SPLITS)
def test_topics_and_languages_are_balanced(split: Split) -> None:
    rows = notes(split, 160, seed=0)
    counts = Counter((note.label, note.text.isascii()) for note in rows)
    assert counts == {(topic, is_english): 20 for topic in TOPICS for is_english in (True, False)}
    assert len({note.text for note in rows}) == 160


def test_a_seed_always_makes_the_same_sentences() -> None:
    assert [note.text for note in notes("test", 2, seed=0)] == [
        "In this picture we see the bread, and behind it the wine.",
        "在这幅画里我们看到黄油，后面是白糖。",
    ]
    assert notes("test", 2, seed=1) != notes("test", 2, seed=0)


def test_no_frame_is_in_two_splits() -> None:
    for language in (ENGLISH, CHINESE):
        frames = [frame for split in SPLITS for frame in language.frames[split]]
        assert len(set(frames)) == len(frames)
        assert all("{a}" in frame and "{b}" in frame for frame in frames)


def test_some_things_are_in_test_only() -> None:
    texts = {split: "\n".join(note.text for note in notes(split, 600, seed=0)) for split in SPLITS}
    assert len(NEW_THINGS) == 16
    for thing in NEW_THINGS:
        assert thing in texts["test"]
        assert thing not in texts["train"] + texts["dev"]

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.metrics.mistakes import Mark, Passage
from glassbert.reports.mistakes import excerpt, marked

kinds = st.sampled_from(["right", "missed", "wrong"])
places = st.tuples(st.integers(0, 30), st.integers(1, 8), kinds)


@settings(deadline=None)
@given(st.lists(places, max_size=6), st.integers(5, 40))
def test_whatever_the_marks_the_text_stays(marks: list[tuple[int, int, str]], max_length: int) -> None:
    text = "".join(chr(ord("a") + index % 26) for index in range(38))
    passage = Passage("", text, tuple(Mark(start, start + size, "", kind) for start, size, kind in marks))  # type: ignore[arg-type]
    start, stop = excerpt(passage, max_length)
    shown = re.sub("<span.*?</span>|<[^>]*>", "", marked(passage, max_length))
    assert shown.strip("\u2026") == text[start:stop]
    assert stop - start == min(max_length, len(text))


def test_marks_may_overlap() -> None:
    marks = (Mark(0, 5, "LOC", "missed"), Mark(3, 8, "PER", "wrong"))
    assert marked(Passage("", "abcdefghij", marks)) == (
        '<mark class="missed">abc</mark><mark class="missed wrong">de</mark>'
        '<span class="tag missed">missed LOC</span><mark class="wrong">fgh</mark>'
        '<span class="tag wrong">wrong PER</span>ij'
    )


def test_text_and_labels_are_escaped() -> None:
    shown = marked(Passage("", "<a>&", (Mark(0, 1, "<b>", "wrong"),)))
    assert shown == '<mark class="wrong">&lt;</mark><span class="tag wrong">wrong &lt;b&gt;</span>a&gt;&amp;'


def test_of_a_long_text_the_part_with_the_mistake_is_shown() -> None:
    text = "x" * 300_000
    passage = Passage("", text, (Mark(10, 12, "A", "right"), Mark(200_000, 200_002, "A", "missed")))
    start, stop = excerpt(passage, 480)
    assert start < 200_000 < 200_002 < stop
    shown = marked(passage)
    assert shown.startswith("\u2026")
    assert shown.endswith("\u2026")
    assert len(shown) < 700

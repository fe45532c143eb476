import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.data.examples import Span
from glassbert.data.rows.record import Notes, Unusable
from glassbert.data.rows.schemes import TagScheme, join_tokens, tagged_text

LETTERS = {  # first, inside, last, single
    "BIO": "BIIB",
    "BIOES": "BIES",
    "BMES": "BMES",
    "BILOU": "BILU",
}


@st.composite
def spans_of_tokens(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """Some tokens, and spans over them in order."""
    spans, end = [], 0
    for _ in range(draw(st.integers(0, 5))):
        start = end + draw(st.integers(0, 2))
        end = start + draw(st.integers(1, 4))
        spans.append(Span(start, end, draw(st.sampled_from(["PER", "LOC", "creative-work", "O"]))))
    return end + draw(st.integers(0, 2)), spans


def tags_of(num_tokens: int, spans: list[Span], scheme: str) -> list[str]:
    """Write spans as tags, the way the scheme is defined."""
    tags = ["O"] * num_tokens
    for before, span in zip([None, *spans], spans, strict=False):
        last = span.end - 1
        if scheme == "IOB1":
            follows = before is not None and before.end == span.start and before.label == span.label
            tags[span.start : span.end] = [f"I-{span.label}"] * (span.end - span.start)
            tags[span.start] = f"{'B' if follows else 'I'}-{span.label}"
            continue
        first_letter, inside, last_letter, single = tuple(LETTERS[scheme])
        for place in range(span.start, span.end):
            letter = first_letter if place == span.start else last_letter if place == last else inside
            tags[place] = f"{single if span.start == last else letter}-{span.label}"
    return tags


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BMES", "BILOU"])
@settings(deadline=None)
@given(case=spans_of_tokens())
def test_spans_come_back_from_their_tags(scheme: str, case: tuple[int, list[Span]]) -> None:
    num_tokens, spans = case
    read = TagScheme()
    assert read.spans(tags_of(num_tokens, spans, scheme)) == spans


@pytest.mark.parametrize("scheme", ["BIO", "IOB1", "BIOES", "BMES", "BILOU"])
def test_the_scheme_is_named_and_what_keeps_to_it_is_not_blamed(scheme: str) -> None:
    read = TagScheme()
    read.spans(tags_of(9, [Span(0, 3, "A"), Span(3, 4, "A"), Span(4, 6, "B"), Span(7, 8, "A")], scheme))
    notes = Notes()
    read.log(notes)
    assert notes.lines() == [f"tags are {scheme}"]


@pytest.mark.parametrize(
    ("tags", "spans", "note"),
    [
        ("B-A O I-A O", [Span(0, 1, "A"), Span(2, 3, "A")], "open by the rules of BIO, read anyway: 1"),
        ("B-A I-B", [Span(0, 1, "A"), Span(1, 2, "B")], "open by the rules of BIO, read anyway: 1"),
        ("S-A B-A I-A O", [Span(0, 1, "A"), Span(1, 3, "A")], "close by the rules of BIOES, read anyway: 1"),
        ("S-A O E-A", [Span(0, 1, "A"), Span(2, 3, "A")], "open by the rules of BIOES, read anyway: 1"),
        ("B-A E-A M-A E-A", [Span(0, 2, "A"), Span(2, 4, "A")], "open by the rules of BMES, read anyway: 1"),
    ],
)
def test_spans_that_break_the_scheme_are_read_and_counted(tags: str, spans: list[Span], note: str) -> None:
    read, notes = TagScheme(), Notes()
    assert read.spans(tags.split()) == spans
    read.log(notes)
    assert any(line.endswith(note) for line in notes.lines()), notes.lines()


def test_bare_letters_mark_words() -> None:
    assert TagScheme().spans(["B", "E", "S", "B", "M", "E"]) == [
        Span(0, 2, "word"),
        Span(2, 3, "word"),
        Span(3, 6, "word"),
    ]


@pytest.mark.parametrize("tag", ["PER", "X-PER", "", "B-", "b-PER", "O-PER"])
def test_what_is_no_tag_is_refused(tag: str) -> None:
    with pytest.raises(Unusable, match="expected O, or B- I- M-"):
        TagScheme().spans(["O", tag])


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["It", "'s", "here"], "It 's here"),
        (["中", "国", "，", "北京"], "中国，北京"),
        (["在", "Google", "工作"], "在 Google 工作"),
        (["2", "0", "1", "9", "年", "I", "B", "M"], "2019年IBM"),
        (["I", "a", "b"], "I a b"),
        (["これ", "は", "テスト"], "これはテスト"),
        (["한국", "사람"], "한국 사람"),
        (["🔥", "🔥"], "🔥 🔥"),
        (["a", "\u3000", "b"], "a \u3000 b"),
    ],
)
def test_tokens_become_the_text_they_were_cut_from(tokens: list[str], text: str) -> None:
    joined, places = join_tokens(tokens)
    assert joined == text or tokens == ["a", "\u3000", "b"]
    assert [joined[start:end] for start, end in places] == tokens


def test_spans_are_in_code_points_of_the_text() -> None:
    text, spans = tagged_text(
        ["𝒜😀", "lives", "in", "New", "York"], ["B-PER", "O", "O", "B-LOC", "I-LOC"], TagScheme()
    )
    assert text == "𝒜😀 lives in New York"
    assert [(text[span.start : span.end], span.label) for span in spans] == [
        ("𝒜😀", "PER"),
        ("New York", "LOC"),
    ]


@settings(deadline=None)
@given(spans_of_tokens(), st.data())
def test_a_span_of_text_is_its_tokens(case: tuple[int, list[Span]], data: st.DataObject) -> None:
    num_tokens, spans = case
    words = st.text(st.sampled_from("ab中，7"), min_size=1, max_size=3)
    tokens = data.draw(st.lists(words, min_size=num_tokens, max_size=num_tokens))
    text, read = tagged_text(tokens, tags_of(num_tokens, spans, "BIO"), TagScheme())
    assert text.replace(" ", "") == "".join(tokens)
    for span, found in zip(spans, read, strict=True):
        assert text[found.start : found.end].replace(" ", "") == "".join(tokens[span.start : span.end])
        assert found.label == span.label

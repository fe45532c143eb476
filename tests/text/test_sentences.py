import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassbert.text.sentences import sentence_spans, split_sentences

# `|` is where a sentence ends and a space, or nothing in Chinese, is left out.
ENGLISH = [
    "It rained. | We stayed in.",
    "Did it rain? | Yes! | We stayed in.",
    "Mr. Smith met Dr. J. R. Jones at 3.14 p.m. on Oct. 4, 1999. | They left.",
    "He lives in the U.S. army base. | She moved to the U.S. | In 1990 they met.",
    "See Fig. 3 and pp. 4 to 6 of vol. 2. | Then go on.",
    "Bring pens, paper, etc. and a book. | Bring pens, paper, etc. | Leave the rest.",
    "Use short words, e.g. cat, i.e. those of one syllable. | Always.",
    'He said "Stop." | "Why?" she asked. | Nobody knew.',
    "(It was late.) | [Nobody came.] | So what?",
    "Wait... what? | He paused... | Then he spoke.",
    "Version 2.0.1 costs $3.50. | Buy it.",
    "1. First we cook. | 2. Then we eat.",
    "The cat sat . | It slept 3 @.@ 5 hours . | Valkyria ( lit . Battle ) ended .",
    "Yahoo! is a firm. | What?! | No way!!! | Really.",
    "It was I. | He knew.",
    "Éric came. | Élan followed. | Ünlü left.",
    "Apple Inc. | The firm.",
    "no end at all",
]
CHINESE = [
    "今天下雨。|我们在家。",
    "下雨了吗？|是的！|我们在家；|你呢",
    "他说：“下雨了。”|我们在家。",
    "（他走了。）|真的吗？！|是啊……|走吧。",
    "圆周率是3.14。|价格为2.5元。",
    "他用iPhone 4.0版本!|你好.|再见",
    "「好！」|『好？』|完。",
    "I like 北京。|It is big. | 我也是。",
]


def given_and_expected(marked: str) -> tuple[str, list[str]]:
    sentences = [part.strip() for part in marked.split("|")]
    return marked.replace(" | ", " ").replace("|", ""), sentences


@pytest.mark.parametrize("marked", ENGLISH + CHINESE)
def test_sentences_end_where_a_reader_sees_their_end(marked: str) -> None:
    text, expected = given_and_expected(marked)
    assert split_sentences(text) == expected


@given(st.text(alphabet='aB1 .!?。！？…；"”」)，,\n\t\u3000中国', max_size=60), st.integers(4, 20))
def test_spans_are_in_order_and_cover_all_but_spaces(text: str, max_characters: int) -> None:
    spans = sentence_spans(text, max_characters)
    position = 0
    for start, end in spans:
        assert not text[position:start].strip()
        assert text[start:end] == text[start:end].strip()
        assert 0 < end - start <= max_characters
        position = end
    assert not text[position:].strip()


def test_a_long_run_is_cut_after_a_comma_rather_than_a_space_rather_than_anywhere() -> None:
    assert split_sentences("aaaa bbbbbb, cccc dddd eeee", 20) == ["aaaa bbbbbb,", "cccc dddd eeee"]
    assert split_sentences("aaaa bbbb cccc dddd eeee", 20) == ["aaaa bbbb cccc dddd", "eeee"]
    assert split_sentences("一二三四五六七，九十一二三", 10) == ["一二三四五六七，", "九十一二三"]
    assert split_sentences("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_a_line_of_a_million_characters_takes_no_more_than_its_share_of_time() -> None:
    assert len(split_sentences("word " * 200_000)) == pytest.approx(1_000_000 / 512, rel=0.02)
    assert len(split_sentences("x" * 1_000_000)) == 1954
    assert len(split_sentences("B. C. " * 100_000)) == pytest.approx(600_000 / 512, rel=0.02)

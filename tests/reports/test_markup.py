import pytest

from glassbert.reports.markup import Markup, join, plain, tag


def test_text_and_values_are_escaped_and_markup_is_not() -> None:
    inner = tag("b", "<i>")
    assert tag("p", "a & b", inner, title='"x"') == '<p title="&quot;x&quot;">a &amp; b<b>&lt;i&gt;</b></p>'


def test_text_is_escaped_once() -> None:
    assert join([plain("<"), "<"]) == "&lt;&lt;"
    assert isinstance(join([]), Markup)


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\x9b", "\ud800", "\u202e", "\u2066"])
def test_characters_that_steer_or_cannot_be_written_are_replaced(character: str) -> None:
    assert plain(f"a{character}b").encode("utf-8") == "a\ufffdb".encode()


def test_line_ends_and_tabs_stay() -> None:
    assert plain("a\tb\r\nc") == "a\tb\r\nc"


def test_numbers_are_short_and_absent_values_are_left_out() -> None:
    made = tag("rect", x=1.0, y=2.126, stroke_width=0.5, class_="bar", rx=None)
    assert made == '<rect x="1" y="2.13" stroke-width="0.5" class="bar"></rect>'

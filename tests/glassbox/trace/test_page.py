"""The page of a trace: one small file, safe whatever the text says, with the numbers of the trace."""

import base64
import re
import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import glassbert as gb
from glassbert.glassbox.trace import page as pages
from glassbert.glassbox.trace.picture import picture, side_by_side
from glassbert.glassbox.trace.words import WORDS
from helpers.traced_models import CASES, bert

VOID = {"meta", "img", "br"}


class Balanced(HTMLParser):
    """Checks that elements are closed in order, and notes their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> Balanced:
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    return parser


@pytest.mark.parametrize(
    "name", ["pretraining", "classify", "tag by a CRF", "translator post", "translator lstm"]
)
@pytest.mark.parametrize("language", WORDS)
def test_a_page_stands_alone(name: str, language: str, tmp_path: Path) -> None:
    trace = CASES[name]().trace(grad=True)
    trace.to_html(tmp_path / "a.html", language=language)
    html = (tmp_path / "a.html").read_text(encoding="utf-8")
    parser = parsed(html)
    assert not {tag for tag, _ in parser.seen} & {"script", "link", "iframe"}
    sources = [attributes["src"] for tag, attributes in parser.seen if tag == "img"]
    assert sources
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert "http" not in re.sub(r"http-equiv", "", html)
    assert all(f"<code>{step.name}</code>" in html for step in trace.graph)
    assert f"{float(trace['loss']):.7g}" in html


def test_the_numbers_on_the_page_are_those_of_the_trace(tmp_path: Path) -> None:
    trace = bert().trace("a b c")
    html = pages.page(trace)
    shown = re.search(r'aria-label="enc.1.attn.v: first numbers">(.*?)</table>', html)
    assert shown
    cells = [float(cell) for cell in re.findall(r"<td>(.*?)</td>", shown[1])]
    assert cells == pytest.approx(trace["enc.1.attn.v"][:5, :6].ravel().tolist(), rel=1e-5)


def test_a_page_of_a_large_trace_shows_parts_and_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = bert("mlm").trace("a b c d e f g h " * 4, grad=True)
    usual = len(pages.page(trace))
    monkeypatch.setattr(pages, "MAX_BYTES", usual * 3 // 4)
    html = pages.page(trace)
    assert len(html.encode("utf-8")) <= usual * 3 // 4
    assert re.search(r"the first \d+ of 34", html)


def test_a_long_text_does_not_fill_the_page() -> None:
    html = pages.page(bert().trace("a b " * 5000, "c d " * 5000))
    assert "a b a b  ..." in html
    assert html.count("a b ") == pages.NUM_CHARACTERS_SHOWN // 4 + 15  # the title has the first 60 characters
    assert html.count("c d ") == pages.NUM_CHARACTERS_SHOWN // 4


def test_nothing_in_a_text_can_become_markup(tmp_path: Path) -> None:
    text = '<script>alert(1)</script> & "a" [MASK]'
    trace = bert("mlm").trace(text, grad=True)
    for html in (pages.page(trace), trace._repr_html_()):
        assert not {tag for tag, _ in parsed(html).seen} & {"script"}
    assert "&lt;script&gt;" in pages.page(trace)


def test_a_page_replaces_no_file_unasked_and_knows_its_languages(tmp_path: Path) -> None:
    trace = bert().trace("a")
    (tmp_path / "a.html").write_text("mine")
    with pytest.raises(gb.UserError, match="exists"):
        trace.to_html(tmp_path / "a.html")
    with pytest.raises(gb.UserError, match="expected one of en, zh"):
        trace.to_html(tmp_path / "b.html", language="fr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_both_languages_have_the_same_words() -> None:
    assert WORDS["en"].keys() == WORDS["zh"].keys()


def test_a_notebook_shows_a_trace_without_reading_its_tensors(tmp_path: Path) -> None:
    trace = bert().trace("a b", out=tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").unlink()
    html = trace._repr_html_()
    parsed(html)
    assert "softmax(scores)" in html


def test_a_picture_has_a_pixel_for_each_number() -> None:
    matrix = np.array([[1.0, -1.0, 0.0], [0.5, -np.inf, 0.25]], np.float32)
    data = base64.b64decode(picture(matrix).partition(",")[2])
    assert struct.unpack(">II", data[16:24]) == (3, 2)
    start = data.index(b"IDAT") + 4
    lines = np.frombuffer(zlib.decompress(data[start : data.index(b"IEND") - 8]), np.uint8).reshape(2, 4)
    assert lines[:, 1:].tolist() == [[254, 0, 127], [190 + 1, 255, 159]]


def test_heads_are_drawn_side_by_side() -> None:
    joined = side_by_side(np.arange(8, dtype=np.float32).reshape(2, 2, 2))
    assert joined[:, :2].tolist() == [[0, 1], [2, 3]]
    assert np.isnan(joined[:, 2]).all()
    assert joined[:, 3:].tolist() == [[4, 5], [6, 7]]

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.errors import DataError, UserError
from glassbert.text.segment import DictionarySegmenter, JiebaSegmenter, RjiebaSegmenter, Segmenter, segmenter

TEXT = "我们 去北京大学,用iPhone15付了3.14元。𠮷！"


def cut(found: Segmenter, text: str) -> list[str]:
    return [text[start:end] for start, end in found.words(text)]


@pytest.fixture(
    scope="module", params=[RjiebaSegmenter, JiebaSegmenter, lambda: DictionarySegmenter(["北京"])]
)
def any_segmenter(request: pytest.FixtureRequest) -> Segmenter:
    made: Segmenter = request.param()
    return made


def test_the_longest_word_that_fits_is_taken_from_the_left() -> None:
    found = DictionarySegmenter(["北京", "北京大学", "大学生", "我们"])
    assert cut(found, "我们去北京大学生活区") == ["我们", "去", "北京大学", "生", "活", "区"]


@pytest.mark.parametrize("name", ["rjieba", "jieba"])
def test_jieba_finds_words_that_people_would_mark(name: str) -> None:
    assert cut(segmenter(name), TEXT) == [
        *("我们", "去", "北京大学", ",", "用", "iPhone15"),
        *("付", "了", "3", ".", "14", "元", "。", "𠮷", "！"),
    ]


@given(
    text=st.text(alphabet="我们北京大学a1é.，。 \t\n\u3000\x1cカ〇\U00020bb7\U0002b830😀\x00", max_size=30)
)
@settings(max_examples=100, deadline=None)
def test_words_cover_every_character_but_spaces_in_order(any_segmenter: Segmenter, text: str) -> None:
    spans = any_segmenter.words(text)
    assert spans == sorted(spans)
    covered = [index for start, end in spans for index in range(start, end)]
    assert covered == [index for index, character in enumerate(text) if not character.isspace()]


def test_a_word_list_may_hold_counts_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("北京 100 ns\n\n大学\n", encoding="utf-8")
    assert cut(segmenter(path), "北京大学") == ["北京", "大学"]
    assert cut(segmenter(["北京", "大学"]), "北京大学") == ["北京", "大学"]


def test_an_empty_word_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="no word in it"):
        segmenter(tmp_path / "words.txt")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown segmenter 'thulac'; use rjieba or jieba, or the path"):
        segmenter("thulac")


@pytest.mark.parametrize(
    ("name", "install"), [("rjieba", r"glassbert\[zh\]"), ("jieba", "pip install jieba")]
)
def test_a_missing_package_is_reported_with_how_to_install_it(
    name: str, install: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=install):
        segmenter(name)


def test_jieba_writes_neither_log_lines_nor_a_cache_file(tmp_path: Path) -> None:
    code = "from glassbert.text.segment import segmenter; segmenter('jieba').words('北京大学')"
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-W", "always", "-c", code], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not list(tmp_path.iterdir())

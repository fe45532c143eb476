import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from glassbert.errors import DataError
from glassbert.text import documents, sources, word_counts
from glassbert.text.documents import Form
from glassbert.text.word_counts import count_words
from glassbert.text.wordpiece.settings import TokenizerSettings

UNCASED = TokenizerSettings()


def write(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_plain_packed_and_json_files_count_the_same(tmp_path: Path) -> None:
    lines = ("The cat, the CAT.", "今天天气很好 cat")
    plain = write(tmp_path / "a.txt", *lines)
    packed = tmp_path / "a.txt.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    rows = write(tmp_path / "a.jsonl", *(json.dumps({"text": line}) for line in lines))
    counts = [count_words([file], UNCASED, max_words=100) for file in (plain, packed, rows)]
    assert counts[0].words == Counter({"cat": 3, "the": 2, "天": 2} | dict.fromkeys(",.今气很好", 1))
    assert counts[0].characters["t"] == 5
    assert counts[0].num_words == 13
    assert counts[0] == counts[1] == counts[2]


def test_bytes_that_are_not_utf8_are_named_with_file_line_and_byte(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nba\xff\n")
    with pytest.raises(DataError, match=r"a\.txt:2: byte 3 \(0xff\)"):
        count_words([tmp_path / "a.txt"], UNCASED, max_words=100)


def test_pruning_drops_whole_groups_of_the_rarest_words_and_counts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 1)
    path = write(tmp_path / "a.txt", "a a a b b c c d", "e a", "d")
    counts = count_words([path], UNCASED, max_words=4)
    # The second line brings the fifth word. Two may stay: d and e go, and then b and c, which are equals.
    assert counts.words == {"a": 4, "d": 1}
    assert (counts.num_pruned_words, counts.num_pruned_occurrences) == (4, 6)
    assert counts.num_words == 11
    assert counts.characters == Counter("aaabbccdead")


def test_progress_ends_at_the_size_of_the_files(tmp_path: Path) -> None:
    files = [write(tmp_path / "a.txt", "a b"), write(tmp_path / "b.txt", "中文")]
    calls: list[tuple[int, int, str]] = []
    count_words(files, UNCASED, max_words=100, on_progress=lambda *call: calls.append(call))
    assert calls == [(4, 11, "count words"), (11, 11, "count words")]


WIKITEXT = " \n = Cats = \n \n Cats sleep . \n \n = = Food = = \n \n They eat . \n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"title": "no", "text": "yes, yes"}\n\n{"text": "也"}\n', {"yes": 2, ",": 1, "也": 1}),
        (WIKITEXT, {"cats": 2, "sleep": 1, ".": 2, "food": 1, "they": 1, "eat": 1}),
    ],
)
def test_the_form_is_detected_and_its_syntax_is_not_counted(
    text: str, words: dict[str, int], tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text, encoding="utf-8")
    lines: list[str] = []
    assert count_words(path, UNCASED, max_words=100, log=lines.append).words == words
    assert len(lines) == 1
    assert "(detected; change it with --form), 1 file such as a.txt" in lines[0]
    plain = count_words(path, UNCASED, max_words=100, form="documents", log=lines.append)
    assert {"{", "="} & set(plain.words)
    assert len(lines) == 1


@pytest.mark.parametrize("form", ["sentences", "paragraphs", "documents", None])
def test_where_blocks_end_depends_on_lines_and_files_alone(
    form: Form | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[str] = []
    count = word_counts._count_text
    monkeypatch.setattr(word_counts, "_count_text", lambda *args: blocks.append(args[1]) or count(*args))
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 4)
    monkeypatch.setattr(sources, "_BLOCK_CHARACTERS", 5)
    monkeypatch.setattr(documents, "_PART_CHARACTERS", 3)
    one = write(tmp_path / "a.txt", "ab", "cd", "efghij", "k")
    two = write(tmp_path / "b.txt", "l")
    count_words([one, two], UNCASED, max_words=100, form=form)
    assert blocks == ["ab\ncd", "efghij", "k", "l"]


def test_blocks_of_json_lines_end_by_the_length_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks: list[str] = []
    count = word_counts._count_text
    monkeypatch.setattr(word_counts, "_count_text", lambda *args: blocks.append(args[1]) or count(*args))
    monkeypatch.setattr(word_counts, "_BLOCK_CHARACTERS", 2 * len('{"text": "a"}'))
    path = write(tmp_path / "a.jsonl", '{"text": "a"}', '{"text": "b"}', '{"text": "c\\nd"}')
    count_words(path, UNCASED, max_words=100)
    assert blocks == ["a\nb", "c\nd"]


def test_text_in_gb18030_is_counted_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("今天的天气很好。\n".encode("gb18030"))
    lines: list[str] = []
    assert count_words([path], UNCASED, max_words=100, log=lines.append).words["天"] == 2
    assert [line.split(";")[0] for line in lines] == [f"{path}: read as GB18030, since it is not UTF-8"]

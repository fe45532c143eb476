import hashlib
from pathlib import Path

import pytest

from glassbert.errors import ModelError, UserError
from glassbert.text.vocabulary import SPECIALS, Vocabulary, is_reserved, is_unused, unused_pieces

PIECES = ("[PAD]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s", "\u2028", "中")


def write(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "vocab.txt"
    path.write_bytes("".join(line + end for line in lines).encode())
    return path


def test_the_line_number_is_the_id(tmp_path: Path) -> None:
    vocabulary = Vocabulary.load(write(tmp_path, *PIECES))
    assert vocabulary.pieces == PIECES
    assert len(vocabulary) == 10
    assert [vocabulary.id(piece) for piece in PIECES] == list(range(10))
    assert vocabulary.ids["中"] == 9
    assert "the" in vocabulary
    assert "The" not in vocabulary


def test_specials_are_found_in_any_row() -> None:
    vocabulary = Vocabulary(PIECES)
    ids = (vocabulary.pad_id, vocabulary.unk_id, vocabulary.cls_id, vocabulary.sep_id, vocabulary.mask_id)
    assert ids == vocabulary.special_ids == (0, 2, 3, 4, 5)


def test_saving_writes_the_bytes_that_the_fingerprint_names(tmp_path: Path) -> None:
    vocabulary = Vocabulary(PIECES)
    vocabulary.save(tmp_path / "saved.txt")
    data = (tmp_path / "saved.txt").read_bytes()
    assert data == ("\n".join(PIECES) + "\n").encode()
    assert vocabulary.sha256 == hashlib.sha256(data).hexdigest()
    assert Vocabulary.load(tmp_path / "saved.txt") == vocabulary


def test_windows_line_ends_byte_order_mark_and_blank_lines_at_the_end_do_not_matter(tmp_path: Path) -> None:
    path = write(tmp_path, *PIECES, "", "", end="\r\n")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Vocabulary.load(path) == Vocabulary(PIECES)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((*PIECES, "again", "the"), r"vocab\.txt:12: 'the' is already on line 7"),
        ((*SPECIALS, "a", "", "b"), r"vocab\.txt:7: blank line"),
        (("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a"), r"vocab\.txt: no line holds \[MASK\] among its 5 pieces"),
        ((*SPECIALS, "a\rb"), r"vocab\.txt:6: 'a\\rb' holds a line end"),
        ((), r"vocab\.txt: no piece in it"),
        (("", ""), r"vocab\.txt: no piece in it"),
    ],
)
def test_a_file_that_is_no_vocabulary_is_refused_with_its_line(
    tmp_path: Path, lines: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as raised:
        Vocabulary.load(write(tmp_path, *lines))
    assert "\n" not in str(raised.value)


def test_a_missing_or_unreadable_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nope\.txt: No such file"):
        Vocabulary.load(tmp_path / "nope.txt")
    with pytest.raises(ModelError, match="expected a file, got a folder"):
        Vocabulary.load(tmp_path)
    path = tmp_path / "latin.txt"
    path.write_bytes("\n".join((*SPECIALS, "é")).encode("latin-1"))
    with pytest.raises(ModelError, match=r"latin\.txt:6: byte 1 \(0xe9\) is not UTF-8"):
        Vocabulary.load(path)


def test_a_vocabulary_made_in_memory_is_checked_too() -> None:
    with pytest.raises(ModelError, match=r"vocabulary:6: '\[PAD\]' is already on line 1"):
        Vocabulary((*SPECIALS, "[PAD]"))


def test_asking_for_an_unknown_piece_names_it() -> None:
    with pytest.raises(UserError, match="'zebra' is not one of the 10 pieces"):
        Vocabulary(PIECES).id("zebra")


def test_a_piece_without_hashes_starts_a_word() -> None:
    vocabulary = Vocabulary((*SPECIALS, "a", "##a", "#", "##"))
    assert vocabulary.starts_word.tolist() == [True] * 6 + [False, True, False]
    with pytest.raises(ValueError, match="read-only"):
        vocabulary.starts_word[0] = False


def test_free_rows_are_numbered_from_one_and_recognised() -> None:
    assert unused_pieces(2) == ["[unused1]", "[unused2]"]
    assert all(map(is_unused, unused_pieces(12)))
    assert [piece for piece in ("[unused]", "[unusedx]", "unused1", "a[unused1]") if is_unused(piece)] == []
    assert is_reserved("[MASK]")
    assert not is_reserved("mask")

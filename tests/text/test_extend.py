from pathlib import Path

import pytest

from glassbert.errors import DataError, UserError
from glassbert.text.extend import Coverage, NewRow, Refusal, extend_tokenizer, plan_extension
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

PIECES = (*SPECIALS, "[unused1]", "ten", "##sor", "##flow", "[unused2]", "the", "中")


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(Vocabulary(PIECES))


def test_free_rows_are_taken_first_and_then_rows_at_the_end(tokenizer: Tokenizer) -> None:
    plan = plan_extension(tokenizer, ["tensor", "TensorFlow", "龘", "flow"])
    unknown = (tokenizer.vocabulary.unk_id,)
    assert plan.rows == (
        NewRow(5, "tensor", (6, 7)),
        NewRow(9, "tensorflow", (6, 7, 8)),
        NewRow(12, "龘", unknown),
        NewRow(13, "flow", unknown),
    )
    assert plan.num_reused == 2
    assert plan.unknown_starts == ("龘", "flow")
    assert plan.vocabulary.pieces == (
        *(*SPECIALS, "tensor", "ten", "##sor", "##flow", "tensorflow", "the", "中"),
        *("龘", "flow"),
    )


def test_old_rows_keep_their_pieces_and_each_new_word_is_one_piece(tokenizer: Tokenizer) -> None:
    plan = plan_extension(tokenizer, ["tensorflow", "餐"])
    extended = Tokenizer(plan.vocabulary)
    assert [extended.pieces_of(row.piece).ids for row in plan.rows] == [[row.id] for row in plan.rows]
    changed = [id_ for id_, piece in enumerate(PIECES) if plan.vocabulary.pieces[id_] != piece]
    assert changed == [5, 9]


def test_what_is_not_added_is_reported_with_its_reason(tokenizer: Tokenizer) -> None:
    lines = ["The", "the", "", "  ", "C++", "中国", "C++", "x" * 101, "\u200b", "new", " NEW "]
    plan = plan_extension(tokenizer, lines)
    assert [row.piece for row in plan.rows] == ["new"]
    assert plan.already == ("the",)
    assert (plan.num_duplicates, plan.num_empty) == (3, 2)
    assert plan.refused == (
        Refusal("C++", "the tokenizer cuts it into 3 words: c + +"),
        Refusal("中国", "the tokenizer cuts it into 2 words: 中 国"),
        Refusal("x" * 101, "it has 101 characters; a word of more than 100 is [UNK]"),
        Refusal("\u200b", "nothing is left of it after cleaning"),
    )


def test_coverage_compares_the_words_before_and_after(tokenizer: Tokenizer) -> None:
    plan = plan_extension(tokenizer, ["tensorflow", "龘", "the", "C++"])
    assert plan.before == Coverage(num_words=3, num_whole=1, num_unknown=1, num_pieces=5)
    assert plan.after == Coverage(num_words=3, num_whole=3, num_unknown=0, num_pieces=3)


def test_a_cased_tokenizer_keeps_the_words_as_they_are() -> None:
    cased = Tokenizer(Vocabulary(PIECES), lowercase=False)
    assert [row.piece for row in plan_extension(cased, ["The", "Café"]).rows] == ["The", "Café"]


def test_the_extended_tokenizer_is_written_with_the_settings_of_the_old_one(tmp_path: Path) -> None:
    Tokenizer(Vocabulary(PIECES), lowercase=False, max_length=64).save(tmp_path / "old")
    plan = extend_tokenizer(tmp_path / "old", ["New"], tmp_path / "new")
    extended = Tokenizer.load(tmp_path / "new")
    assert extended.vocabulary == plan.vocabulary
    assert extended.settings == Tokenizer.load(tmp_path / "old").settings
    (tmp_path / "words.txt").write_text("New\n")
    with pytest.raises(UserError, match="holds a vocabulary"):
        extend_tokenizer(tmp_path / "old", tmp_path / "words.txt", tmp_path / "new")
    again = extend_tokenizer(tmp_path / "old", tmp_path / "words.txt", tmp_path / "new", overwrite=True)
    assert again == plan


def test_a_model_is_not_extended_without_its_rows(tmp_path: Path) -> None:
    Tokenizer(Vocabulary(PIECES)).save(tmp_path / "old")
    (tmp_path / "old" / "config.json").write_text("{}")
    with pytest.raises(UserError, match="needs new rows too; use `glassbert vocab extend`"):
        extend_tokenizer(tmp_path / "old", ["new"], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_nothing_to_add_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match=r"words: no word to add \(1 are pieces already, 1 cannot be"):
        plan_extension(tokenizer, ["the", "C++"])

"""A model without the rows that a text never uses: the same numbers for that text."""

import json
from pathlib import Path

import pytest
import torch

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import DataError
from glassbert.messages import say_nothing
from glassbert.model.layout import Batch

TEXT = "The unbelievable river runs.\nA house by the sea!\n北京是首都。\n"


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trimmed")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    gb.trim_vocabulary("demo", folder / "text.txt", folder / "out", log=say_nothing)
    return folder


def test_every_number_is_the_same_for_the_text_that_was_given(trimmed: Path) -> None:
    whole, small = gb.load("demo", gb.Model), gb.load(trimmed / "out", gb.Model)
    assert len(small.tokenizer.vocabulary) < 60 < len(whole.tokenizer.vocabulary)
    places = [whole.tokenizer.vocabulary.id(piece) for piece in small.tokenizer.vocabulary.pieces]
    for text in TEXT.splitlines():
        ours, theirs = (model.tokenize([text])[0] for model in (small, whole))
        assert ours.pieces == theirs.pieces
        assert ours.offsets == theirs.offsets
        found = []
        for model, encoding in ((small, ours), (whole, theirs)):
            batch = Batch.from_lists([encoding.ids], [encoding.segments])
            with torch.no_grad():
                found.append(model.network(batch, predict_at=torch.arange(len(encoding.ids))))
        assert torch.equal(found[0].hidden, found[1].hidden)
        assert found[0].mlm is not None
        assert found[1].mlm is not None
        torch.testing.assert_close(found[0].mlm, found[1].mlm[:, places], rtol=0, atol=1e-5)


def test_the_report_says_what_went(trimmed: Path) -> None:
    found = gb.trim_vocabulary("demo", trimmed / "text.txt", trimmed / "again", log=say_nothing)
    whole, small = gb.load("demo", gb.Model), gb.load(trimmed / "again", gb.Model)
    pieces = set(small.tokenizer.vocabulary.pieces)
    assert set(found.dropped) == set(whole.tokenizer.vocabulary.pieces) - pieces
    assert (found.rows_before, found.rows_after) == (len(whole.tokenizer.vocabulary), len(pieces))
    assert (found.parameters_before, found.parameters_after) == (whole.num_parameters, small.num_parameters)
    assert {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} <= pieces


def test_single_characters_can_be_kept_for_other_text(trimmed: Path) -> None:
    gb.trim_vocabulary("demo", trimmed / "text.txt", trimmed / "chars", characters=True, log=say_nothing)
    plain, kept = (gb.Tokenizer.load(trimmed / name) for name in ("out", "chars"))
    assert plain.encode("天 zoo").num_unknown == 2
    assert kept.encode("天 zoo").num_unknown == 0


def test_bad_input_ends_in_one_line(
    trimmed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(DataError, match="no word found"):
        gb.trim_vocabulary("demo", tmp_path / "empty.txt", tmp_path / "out", log=say_nothing)
    assert not (tmp_path / "out").exists()
    arguments = ["vocab", "trim", "demo", "--text", str(trimmed / "text.txt")]
    assert main([*arguments, "--out", str(trimmed / "out")]) == 2
    assert "not empty" in capsys.readouterr().err
    assert main([*arguments, "--out", str(tmp_path / "new"), "--json"]) == 0
    whole = gb.load("demo", gb.Model).tokenizer.vocabulary
    assert json.loads(capsys.readouterr().out)["rows_before"] == len(whole)

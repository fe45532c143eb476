from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from glassbert.errors import ModelError
from glassbert.inference.loading import load
from glassbert.interop.extend_rows import extend_rows
from glassbert.text.extend import plan_extension
from glassbert.text.wordpiece.tokenizer import Tokenizer
from helpers.oracles import make_oracle, save_oracle


@pytest.mark.parametrize("tie", [True, False])
def test_a_new_row_is_the_mean_of_its_old_pieces_and_no_other_row_moves(tmp_path: Path, tie: bool) -> None:
    source = save_oracle(make_oracle("BertForMaskedLM", tie_word_embeddings=tie), tmp_path / "old")
    plan = plan_extension(Tokenizer.load(source), ["abc", "xyz", "ok", "go"])
    extend_rows(source, tmp_path / "new", plan)
    before, after = (load_file(folder / "model.safetensors") for folder in (source, tmp_path / "new"))
    names = ["bert.embeddings.word_embeddings.weight"] + ([] if tie else ["cls.predictions.decoder.weight"])
    new_ids = {row.id for row in plan.rows}
    assert len(new_ids) == 4
    for name in names:
        for row in plan.rows:
            torch.testing.assert_close(after[name][row.id], before[name][list(row.old_ids)].mean(dim=0))
        kept = [index for index in range(len(before[name])) if index not in new_ids]
        assert torch.equal(after[name][kept], before[name][kept])
    assert load(tmp_path / "new").tokenize(["abc"])[0].pieces == ["[CLS]", "abc", "[SEP]"]


def test_pooling_files_come_along(tmp_path: Path) -> None:
    source = save_oracle(make_oracle("BertModel"), tmp_path / "old")
    (source / "modules.json").write_text(
        '[{"type": "x.Transformer", "path": ""}, {"type": "x.Pooling", "path": "1_Pooling"}]'
    )
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    extend_rows(source, tmp_path / "new", plan_extension(Tokenizer.load(source), ["abc"]))
    assert load(tmp_path / "new").pooling.modes == ("cls",)


def test_a_vocabulary_with_more_pieces_than_rows_is_refused(tmp_path: Path) -> None:
    source = save_oracle(make_oracle("BertForMaskedLM"), tmp_path / "old")
    (source / "tokenizer.json").unlink()
    with (source / "vocab.txt").open("a") as file:
        file.write("newword\n")
    with pytest.raises(ModelError, match="pieces, but the model has"):
        extend_rows(source, tmp_path / "new", plan_extension(Tokenizer.load(source), ["abc"]))
    assert not (tmp_path / "new").exists()

"""The answers on the page are the model's own; where it gives no probability, none is shown."""

from pathlib import Path
from typing import Any

import glassbert as gb
from glassbert.page.workbench import Workbench
from helpers.oracles import small_tokenizer
from helpers.small_served import write_small

TEXT = "a b c"


def answers(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Workbench(folder).record(TEXT, None)["places"]
    return found


def test_a_translation_is_its_text_without_an_invented_probability(tmp_path: Path) -> None:
    folder = write_small("translate", tmp_path / "model")
    (expected,) = gb.load(folder, gb.Translator).translate([TEXT])
    assert answers(folder) == [{"kind": "translation", "token": None, "said": expected.text, "bars": []}]


def test_a_regression_answers_with_its_number(tmp_path: Path) -> None:
    shape = gb.BertConfig(vocab_size=60, hidden_size=8, num_attention_heads=2, intermediate_size=8)
    config = gb.ModelConfig(encoder=shape, head="classify", labels=("stars",), problem_type="regression")
    folder = tmp_path / "model"
    gb.Model(gb.new_bert(config, seed=0), small_tokenizer(60)).save(folder)
    (expected,) = gb.load(folder, gb.Model).predict([TEXT])
    assert answers(folder) == [{"kind": "number", "token": None, "said": expected.score, "bars": []}]


def test_labels_have_their_probabilities(tmp_path: Path) -> None:
    folder = write_small("classify", tmp_path / "model")
    (expected,) = gb.load(folder, gb.Model).predict([TEXT])
    (place,) = answers(folder)
    assert place["said"] is None
    assert {bar["label"]: bar["score"] for bar in place["bars"]} == expected.scores

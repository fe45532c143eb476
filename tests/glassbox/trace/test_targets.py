"""What a target means for each head, and which numbers are differentiated."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import glassbert as gb
from glassbert.errors import DataError, ModelError, UserError
from helpers.formulas import softmax
from helpers.traced_models import CASES, TAGS, bert, crf_tagger, translator


@pytest.mark.parametrize("name", CASES)
def test_a_gradient_needs_no_target(name: str) -> None:
    case = CASES[name]()
    if name == "plain encoder":
        with pytest.raises(ModelError, match="no loss; name a number"):
            case.trace(target=None, grad=True)
        return
    trace = case.trace(target=None, grad=True)
    assert trace.info.differentiated == ("head.labels.logits[0, 0]" if name == "regression" else "loss")
    assert np.abs(trace["grad.emb.token"]).max() > 0


@pytest.mark.parametrize("name", [name for name in CASES if name != "plain encoder"])
def test_the_loss_of_a_target_is_that_of_the_task(name: str) -> None:
    case = CASES[name]()
    trace = case.trace()
    assert trace["loss"].shape == ()
    assert trace["loss"] > 0
    assert not trace.names("grad.*")
    assert trace.info.differentiated is None


def test_without_a_target_the_model_is_right_about_itself() -> None:
    model = bert("classify", labels=("good", "bad"))
    prediction = model.predict(["a b c"])[0]
    trace = model.trace("a b c", grad=True)
    assert trace.info.target == prediction.label
    assert float(trace["loss"]) == pytest.approx(-np.log(prediction.score), rel=1e-5)


def test_hidden_words_are_those_that_differ_from_the_true_text() -> None:
    trace = bert("mlm").trace("a [MASK] x d", target="a b c d")
    assert trace["head.mlm.places"].tolist() == [2, 3]  # [MASK], and x where c was
    pieces = bert("mlm").tokenizer.vocabulary
    assert trace["head.mlm.labels"].tolist() == [pieces.id("b"), pieces.id("c")]


def test_a_text_without_mask_predicts_every_piece() -> None:
    trace = bert("mlm").trace("a b", grad=True)
    assert trace["head.mlm.places"].tolist() == [1, 2]
    assert trace["head.mlm.labels"].tolist() == list(trace.info.ids[1:3])


def test_the_chosen_number_alone_is_differentiated() -> None:
    model = bert("classify", labels=("good", "bad"))
    trace = model.trace("a b", target="head.labels.logits[0, bad]", grad=True)
    assert trace.info.differentiated == "head.labels.logits[0, 1]"
    assert trace["grad.head.labels.logits"].tolist() == [[0.0, 1.0]]
    assert "loss" not in trace
    # The slope of a logit along its own row of weights is what that row is multiplied by.
    assert np.allclose(trace["grad.labels.dense.weight"][1], trace["head.pooled"][0], atol=1e-6)
    assert not trace["grad.labels.dense.weight"][0].any()


def test_numbers_inside_the_model_can_be_differentiated() -> None:
    trace = bert().trace("a b", target="enc.0.attn.probs[0, 1, 2, 0]", grad=True)
    assert trace.info.differentiated == "enc.0.attn.probs[0, 1, 2, 0]"
    assert np.abs(trace["grad.enc.0.attn.q"]).max() > 0
    assert not trace["grad.enc.0.attn.v"].any()
    assert not trace["grad.enc.1.out"].any()


def test_a_translator_writes_its_own_target_or_is_given_one() -> None:
    model = translator()
    own, given = model.trace("one two."), model.trace("one two.", target="\u00a1uno!")
    assert own.info.target == model.translate(["one two."])[0].text
    assert given.info.target == "\u00a1uno!"
    assert given.target_tokens[0] == "<pad>"
    probs = softmax(given["head.logits"].astype(float))
    labels = given["head.labels"]
    assert float(given["loss"]) == pytest.approx(-np.log(probs[range(len(labels)), labels]).sum(), rel=1e-5)


def test_teacher_forcing_shows_the_numbers_of_step_by_step_decoding() -> None:
    model = translator()
    trace = model.trace("one two.", target="\u00a1uno dos!")
    source, target = list(trace.info.ids), list(trace.info.decoder.ids)
    with torch.no_grad():
        state = model.network.start(gb.Batch.from_lists([source]))
        rows = [model.network.output(model.network.step(state, torch.tensor([[id_]])))[0] for id_ in target]
    assert np.allclose(trace["head.logits"], torch.stack(rows).numpy(), atol=1e-5)


def test_the_transitions_of_a_crf_have_a_gradient() -> None:
    trace = crf_tagger().trace("abc d", target=[{"start": 0, "end": 3, "label": "PER"}], grad=True)
    assert trace["grad.extra.weight"].shape == (len(TAGS) + 1,) * 2
    assert np.abs(trace["grad.extra.weight"]).max() > 0


def test_a_vocabulary_that_does_not_fit_is_refused_in_one_line() -> None:
    model = bert()
    pieces = (*model.tokenizer.vocabulary.pieces, "beyond")
    with pytest.raises(UserError, match="^id 60 lies outside the table of 60 rows"):
        gb.Model(model.network, gb.Tokenizer(gb.Vocabulary(pieces), max_length=40)).trace("a beyond")


def test_threads_may_trace_one_model_side_by_side() -> None:
    model, texts = bert("mlm"), [f"{letter} [MASK] b" for letter in "acdefghi"]
    alone = [model.trace(text, grad=True) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: model.trace(text, grad=True), texts))
    for one, other in zip(alone, together, strict=True):
        assert one.diff(other).first is None
        assert np.allclose(one["grad.mlm.dense.weight"], other["grad.mlm.dense.weight"], atol=1e-6)


@pytest.mark.parametrize("name", ["pretraining", "nsp", "pair", "regression", "answer"])
def test_both_texts_are_read(name: str) -> None:
    case = CASES[name]()
    first, second = case.texts
    tokens = case.trace(target=None).tokens
    assert tokens == ("[CLS]", *first.split(), "[SEP]", *second.split(), "[SEP]")


def test_a_trace_leaves_nothing_in_the_model() -> None:
    model = bert("mlm")
    before = {name: value.detach().clone() for name, value in model.network.named_parameters()}
    model.trace("a [MASK]", grad=True, names="loss")
    assert all(parameter.grad is None for parameter in model.network.parameters())
    assert all(torch.equal(before[name], value) for name, value in model.network.named_parameters())
    model.network(gb.Batch.from_lists([[2, 7, 3]])).hidden.sum().backward()
    assert model.network.encoder.embeddings.token.weight.grad is not None  # no hook takes it away


BAD = {
    "a label that is not one": (lambda: bert("classify", labels=("x", "y")), ("a",), "z", "x, y"),
    "a span that is not one": (
        lambda: bert("tag", labels=TAGS),
        ("a b",),
        [{"start": 0, "end": 1, "label": "LOC"}],
        "PER",
    ),
    "an answer that is not in the context": (lambda: bert("answer"), ("a", "b c"), "x", "not in the context"),
    "a question without a context": (
        lambda: bert("answer"),
        ("a",),
        None,
        "context, got 1 text",
    ),
    "too few pieces": (
        lambda: bert("mlm"),
        ("a [MASK] c",),
        "b b",
        "2 pieces; expected 3, as the text",
    ),
    "no piece": (lambda: bert("mlm"), ("a [MASK]",), ["nonsense"], "'nonsense' is not in the vocabulary"),
    "the same text": (lambda: bert("mlm"), ("a b",), "a b", "are the same; hide a word"),
    "not a pair label": (lambda: bert("nsp"), ("a", "b"), "Maybe", "IsNext or NotNext"),
    "a head that is not there": (lambda: bert("mlm"), ("a",), {"nsp": "IsNext"}, "this model learns mlm"),
    "a loss that is not there": (lambda: bert(), ("a",), "good", "no loss; name a number"),
    "a step that is not there": (lambda: bert(), ("a",), "enc.0.attn.qq[0, 0]", "did you mean enc.0.attn.q?"),
    "too many indices": (lambda: bert(), ("a",), "enc.out[0, 0, 0]", "3 indices, but enc.out has 2 axes"),
    "a token that is not there": (lambda: bert(), ("a",), "enc.out[9, 0]", "0 to 2"),
    "a target that is too long": (translator, ("one.",), "uno " * 60, "but the model reads 48"),
    "a blank target": (translator, ("one.",), " ", "not blank"),
    "two texts for a translator": (translator, ("one.", "two."), None, "give its translation as the target"),
    "a blank text": (lambda: bert(), ("  ",), None, "the text is blank"),
    "a list of texts": (lambda: bert(), (["a", "b"],), None, "text=['a', 'b']; expected str"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_target_is_refused_in_one_line(name: str) -> None:
    make, texts, target, message = BAD[name]
    with pytest.raises((UserError, DataError, ModelError)) as caught:
        make().trace(*texts, target=target, grad=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)

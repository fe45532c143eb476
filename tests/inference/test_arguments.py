"""What a model takes and gives, and what it does not depend on: torch's state, threads, forks."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import ModelError, UserError
from glassbert.inference.loading import load
from glassbert.inference.model import Model
from glassbert.parsing import json_text, parse_json
from helpers.oracles import make_oracle, save_oracle

TEXTS = ["one two three", "今天 天气", "four"]
DEMO = load("demo", Model)
WRONG = [None, 3, b"one", {"a": 1}, [None], [b"one"], [["one"]], ["\ud800"], ["one", "a\udc00b"]]


@pytest.mark.parametrize("texts", WRONG, ids=repr)
def test_only_texts_are_embedded_and_tokenised(texts: Any) -> None:
    for method in (DEMO.embed, DEMO.tokenize):
        with pytest.raises(UserError, match="text"):
            method(texts)


@pytest.mark.parametrize("name", [None, 3, b"demo", ["demo"], {}])
def test_a_name_that_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(UserError, match="name=.*; expected a path"):
        load(name)


@pytest.mark.parametrize("name", ["x" * 5000, "a/" + "猫" * 100, "\0", "a\nb", "\udcff"])
def test_a_name_that_no_folder_can_have_is_a_missing_model(name: str) -> None:
    with pytest.raises(ModelError, match="no folder"):
        load(name)


def autocast() -> AbstractContextManager[Any]:
    return torch.autocast("cpu", torch.bfloat16)


@contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


FOREIGN: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "plain": nullcontext,
    "autocast": autocast,
    "float64": default_dtype,
    "meta": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
}


@pytest.mark.parametrize("state", FOREIGN)
def test_what_others_set_in_torch_changes_no_result(state: str) -> None:
    expected = DEMO.embed(TEXTS)
    expected_fill = DEMO.fill("one [MASK] three")
    with FOREIGN[state]():
        loaded = load("demo", Model)
        assert np.array_equal(loaded.embed(TEXTS), expected)
        assert loaded.fill("one [MASK] three") == expected_fill
        assert {parameter.dtype for parameter in loaded.network.parameters()} == {torch.float32}
        assert not any(parameter.is_inference() for parameter in loaded.network.parameters())
        assert np.array_equal(DEMO.embed(TEXTS), expected)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tagger with a CRF, which has weights of its own."""
    folder = tmp_path_factory.mktemp("tagger")
    save_oracle(make_oracle("BertModel", num_hidden_layers=1), folder / "bert")
    rows = '{"text": "a b", "spans": [{"start": 0, "end": 1, "label": "X"}]}\n' * 20
    (folder / "rows.jsonl").write_text(rows)
    gb.train("tag", model=folder / "bert", train=folder / "rows.jsonl", out=folder / "run", steps=1, crf=True)
    return folder / "run"


METHODS: dict[str, Callable[[Any], Any]] = {
    "predict": lambda model: model.predict(["a b"]),
    "why": lambda model: model.why("a b", target="a=X", method="occlusion").to_json(),
    "heads": lambda model: model.why("a b", target="a=X", method="heads").to_json(),
    "rollout": lambda model: model.why("a b", target="a=X", method="rollout").to_json(),
    "trace": lambda model: model.trace("a b", grad=True)["grad.emb.out"].tolist(),
    "doctor": lambda model: [one.check for one in gb.doctor(model).verdicts],
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("state", FOREIGN)
def test_no_method_depends_on_what_others_set(state: str, method: str, tagger: Path) -> None:
    expected = METHODS[method](load(tagger))
    with FOREIGN[state]():
        assert METHODS[method](load(tagger)) == expected


def test_weights_that_overflow_never_reach_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = load("demo", Model)
    with torch.no_grad():
        broken.network.encoder.blocks[0].mlp.outer.weight.mul_(1e38)
    broken.save(tmp_path / "broken")
    broken = load(tmp_path / "broken", Model)
    with pytest.raises(ModelError, match="not finite"):
        broken.embed(TEXTS)
    with pytest.raises(ModelError, match="not finite"):
        broken.fill("one [MASK]")
    assert main(["fill", str(tmp_path / "broken"), "one [MASK]", "--json"]) == 4
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("change", ["fewer blocks", "no biases", "a foreign key"])
def test_what_config_json_leaves_out_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    DEMO.save(tmp_path / "m")
    path = tmp_path / "m" / "config.json"
    config = parse_json(path.read_bytes())
    said = "not used, since config.json does not ask for it: bert.encoder.layer"
    if change == "fewer blocks":
        config["num_hidden_layers"] = 1
    elif change == "no biases":
        config |= {"use_bias": False, "model_type": "glassbert"}
        config.pop("position_embedding_type", None)
    else:
        config["uniem_embedding_strategy"] = "last_mean"
        said = "unknown keys of config.json ignored: uniem_embedding_strategy"
    path.write_text(json_text(config))
    assert main(["fill", str(tmp_path / "m"), "one [MASK]"]) == 0
    assert said in capsys.readouterr().err


def test_a_forked_child_computes() -> None:
    expected = DEMO.embed(TEXTS * 200)
    child = os.fork()
    if not child:
        is_same = np.allclose(DEMO.embed(TEXTS * 200), expected, atol=1e-5)
        os._exit(0 if is_same else 1)
    timer = threading.Timer(30, os.kill, (child, 9))
    timer.start()
    _, status = os.waitpid(child, 0)
    timer.cancel()
    assert status == 0


@pytest.mark.parametrize(
    "item",
    [None, 3, b"a", {1: "a"}, {"a"}, [None], ("a", 1), iter("a"), {}],
    # Not repr: the address of an iterator would give each process another name.
    ids=["none", "number", "bytes", "numbered", "set", "list", "tuple", "iterator", "empty"],
)
def test_an_item_that_is_none_is_refused(item: Any, tmp_path: Path) -> None:
    model = load(save_oracle(make_oracle("BertForSequenceClassification"), tmp_path))
    for ask in (lambda: model.predict([item]), lambda: model.why(item)):
        with pytest.raises(UserError):
            ask()

"""Served = Python = command line, for every task, whatever else is in the batch."""

import asyncio
import io
import json
import random
from typing import Any
from unicodedata import normalize

import numpy as np
import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.serve.front import Front
from glassbert.serve.settings import ServeSettings
from helpers.asgi import Client

RANDOM = random.Random(0)
WORDS = [*"abcdefghijklmnop", "今", "天", "好", "xyz", "é"]


def text(num_words: int) -> str:
    return " ".join(RANDOM.choices(WORDS, k=num_words))


TEXTS = [text(length) for length in (1, 3, 7, 12, 30, 90)]
ITEMS: dict[str, list[Any]] = {
    "embed": TEXTS,
    "classify": TEXTS,
    "pair": [{"text_a": text(3), "text_b": text(9)}, {"text_a": text(60), "text_b": text(60)}],
    "tag": TEXTS,
    "answer": [{"question": text(2), "context": text(length)} for length in (3, 20, 100)],
    "fill": ["a [MASK] b", "[MASK] 今 [MASK]"],
    "translate": ["a b c", "你好", "x " * 60],
}
MODELS = {"embed": "fill"}


def python_rows(task: str, model: Any, items: list[Any]) -> list[dict[str, Any]]:
    """Return what Python gives for each item alone."""
    if task == "embed":
        found = [model.embed([item]) for item in items]
        return [
            {"embedding": one[0].tolist(), "tokens": one.tokens[0], "truncated": one.truncated[0]}
            for one in found
        ]
    if task == "fill":
        return [{"masks": [[vars(one) for one in mask] for mask in model.fill(item)]} for item in items]
    if task == "translate":
        return [model.translate([item])[0].to_json() for item in items]
    return [model.predict([item])[0].to_json() for item in items]


def assert_close(found: Any, expected: Any) -> None:
    """Compare JSON: floats within 1e-5, everything else exactly; keys may be added."""
    if isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5)
    elif isinstance(expected, dict):
        for key in expected:
            assert_close(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    else:
        assert found == expected


async def asked_together(client: Client, requests: list[tuple[str, Any]]) -> list[Any]:
    responses = await asyncio.gather(*(client.sent("POST", path, body, {}) for path, body in requests))
    assert [response.status for response in responses] == [200] * len(responses)
    return [response.json()["data"] for response in responses]


def test_every_task_answers_as_python_does_while_all_are_asked_at_once(
    client: Client, folders: dict[str, str]
) -> None:
    requests = [
        (f"/models/{MODELS.get(task, task)}/tasks/{task}", {"inputs": chosen})
        for task, items in ITEMS.items()
        for chosen in (items, *([item] for item in items))
    ]
    found = asyncio.run(asked_together(client, requests))
    models = {task: gb.load(folders[MODELS.get(task, task)]) for task in ITEMS}
    for (path, body), rows in zip(requests, found, strict=True):
        task = path.rpartition("/")[2]
        assert_close(rows, python_rows(task, models[task], body["inputs"]))


VERBS = {"embed": ["embed", "--json"], "translate": ["translate", "--json"]}
"""How the command line is asked; fine-tuned tasks by `predict`."""


@pytest.mark.parametrize("task", [task for task in ITEMS if task != "fill"])
def test_the_command_line_prints_the_same_rows(
    task: str,
    client: Client,
    folders: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [json.dumps(item if isinstance(item, dict) else {"text": item}) for item in ITEMS[task]]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))
    verb, *options = VERBS.get(task, ["predict"])
    model = MODELS.get(task, task)
    assert main([verb, folders[model], *options]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(printed) == len(ITEMS[task])
    served = client.post(f"/models/{model}/tasks/{task}", {"inputs": ITEMS[task]}).json()["data"]
    assert_close(served, printed)


def test_the_command_line_fills_masks_with_the_same_pieces(
    client: Client, folders: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    served = client.post("/models/fill/tasks/fill", {"inputs": ITEMS["fill"]}).json()["data"]
    for text, row in zip(ITEMS["fill"], served, strict=True):
        assert main(["fill", folders["fill"], text, "--json"]) == 0
        assert_close(row["masks"], [json.loads(line) for line in capsys.readouterr().out.splitlines()])


OFFSET_TEXTS = ["a 今天 b", "😀 a é 好", "今 [MASK] xyz", "e\u0301 a 天"]


def test_offsets_count_code_points_in_our_dialect_and_bytes_in_that_of_tei(client: Client) -> None:
    pieces = client.post("/models/fill/tokenize", {"inputs": OFFSET_TEXTS}).json()
    for text, tokens in zip(OFFSET_TEXTS, pieces, strict=True):
        inner = [one for one in tokens if one["start"] is not None]
        assert len(inner) >= 3
        for one in inner:
            shown = text.encode()[one["start"] : one["stop"]].decode()  # cut between two characters
            assert shown
            assert one["text"].removeprefix("##") in (shown, "[UNK]", *normalize("NFD", shown))
    wide = client.post("/models/fill/tokenize", {"inputs": "今天"}).json()[0]
    assert [(one["start"], one["stop"]) for one in wide[1:-1]] == [(0, 3), (3, 6)]
    for path, spans_of in (
        ("/models/tag/tasks/tag", lambda answer: [row["spans"] for row in answer["data"]]),
        ("/models/tag/token-classification", lambda answer: answer),
    ):
        found = spans_of(client.post(path, {"inputs": OFFSET_TEXTS}).json())
        assert any(found)
        for text, spans in zip(OFFSET_TEXTS, found, strict=True):
            for span in spans:
                assert text[span["start"] : span["end"]] == span.get("text", span.get("word"))
    asked = [{"question": "a", "context": text} for text in OFFSET_TEXTS]
    for row in client.post("/models/answer/tasks/answer", {"inputs": asked}).json()["data"]:
        for one in row["n_best"]:
            assert any(text[one["start"] : one["end"]] == one["answer"] for text in OFFSET_TEXTS)


def test_sampled_translations_depend_on_their_place_in_the_request_alone(
    client: Client, folders: dict[str, str]
) -> None:
    settings = {"method": "sample", "seed": 3, "max_length": 8}
    texts = ["a b", "a b", "c"]
    served = client.post("/models/translate/tasks/translate", {"inputs": texts, **settings}).json()["data"]
    translator = gb.load(folders["translate"], gb.Translator)
    expected = translator.translate(texts, translator.usual_settings(**settings))
    assert [row["text"] for row in served] == [one.text for one in expected]


def test_exact_answers_are_equal_to_the_last_bit_whatever_else_is_asked(folders: dict[str, str]) -> None:
    front = Front({"fill": folders["fill"]}, ServeSettings(exact=True, threads=2, timeout=60, max_wait=60))
    front.start()
    try:
        client = Client(front)
        alone = [client.post("/tasks/embed", {"inputs": one}).json()["data"][0] for one in TEXTS]
        requests = [("/tasks/embed", {"inputs": TEXTS[::-1]}), ("/tasks/embed", {"inputs": TEXTS * 3})]
        together = asyncio.run(asked_together(client, requests))
    finally:
        front.stop()
    assert together[0][::-1] == alone
    assert together[1] == alone * 3


@pytest.mark.parametrize("keep", ["head", "tail", "head+tail"])
def test_long_texts_are_cut_as_python_cuts_them(keep: Any, client: Client, folders: dict[str, str]) -> None:
    # Long words, a special at every place of the cut, Chinese, a word without end.
    long = [f"{'a' * number} [MASK] 今天 b.c " * 400 for number in range(1, 9)] + ["z" * 5000, "今" * 5000]
    served = client.post("/models/fill/tasks/embed", {"inputs": long, "keep": keep}).json()["data"]
    expected = gb.load(folders["fill"], gb.Model).embed(long, keep=keep)
    np.testing.assert_allclose([row["embedding"] for row in served], expected, atol=1e-5)
    assert [row["tokens"] for row in served] == list(expected.tokens)
    assert [row["truncated"] for row in served] == list(expected.truncated)


def test_long_pairs_are_cut_as_python_cuts_them(client: Client, folders: dict[str, str]) -> None:
    texts = ["a", "b c " * 5, "d ef " * 300, "ghi 今 " * 300]
    pairs = [{"text_a": first, "text_b": second} for first in texts for second in texts]
    served = client.post("/models/pair/tasks/pair", {"inputs": pairs}).json()["data"]
    assert_close(served, python_rows("pair", gb.load(folders["pair"]), pairs))


@pytest.mark.parametrize("task", ITEMS)
def test_in_int8_the_server_gives_the_bits_of_python(task: str, folders: dict[str, str]) -> None:
    folder = folders[MODELS.get(task, task)]
    settings = ServeSettings(threads=2, timeout=60, max_wait=60)
    front = Front({"model": folder}, settings, place={"device": "cpu", "precision": "int8"})
    front.start()
    try:
        served = Client(front).post(f"/tasks/{task}", {"inputs": ITEMS[task]}).json()["data"]
    finally:
        front.stop()
    expected = python_rows(task, gb.load(folder, precision="int8"), ITEMS[task])
    for got, wanted in zip(served, expected, strict=True):
        if task == "embed":  # the server prints as many digits as a float32 has
            got["embedding"], wanted["embedding"] = (
                np.float32(one["embedding"]).tolist() for one in (got, wanted)
            )
        assert {name: got[name] for name in wanted} == json.loads(json.dumps(wanted))

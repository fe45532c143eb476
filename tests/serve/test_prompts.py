"""Prompts of a sentence-transformers folder: dialects that can name one do, the others get its default."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.interop.sentence_transformers import SentenceSettings
from glassbert.model.pooling import Pooling
from glassbert.serve.front import Front
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.asgi import Client

PROMPTS = {"query": "a b: ", "passage": "c: ", "usual": "d d "}


@pytest.fixture(scope="module")
def prompting(folders: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model folder with prompts, one of them the default."""
    plain = gb.load(folders["fill"], gb.Model)
    sentences = SentenceSettings(Pooling(should_normalise=True), None, PROMPTS, "usual")
    folder = tmp_path_factory.mktemp("prompts") / "model"
    gb.Model(plain.network, plain.tokenizer, sentences=sentences).save(folder)
    return str(folder)


@pytest.fixture(scope="module")
def client(prompting: str, folders: dict[str, str]) -> Iterator[Client]:
    """Sends requests to a server of that model and of one without prompts."""
    models = {"model": prompting, "rerank": folders["rerank"]}
    front = Front(models, ServeSettings(threads=1, timeout=60, max_wait=60), log=Log(io.StringIO()))
    front.start()
    yield Client(front)
    front.stop()


@pytest.fixture(scope="module")
def vectors(prompting: str) -> dict[str | None, Any]:
    """The vector of "x y" behind each prompt, with the prompt written out; None is for the default."""
    model = gb.load(prompting, gb.Model)
    bare = gb.Model(model.network, model.tokenizer, sentences=SentenceSettings(model.pooling))
    written = {name: bare.embed(prompt + "x y") for name, prompt in PROMPTS.items()}
    return {**written, None: written["usual"]}


@pytest.mark.parametrize("name", [None, *PROMPTS])
def test_a_prompt_is_put_before_the_text(
    name: str | None, client: Client, prompting: str, vectors: dict[str | None, Any]
) -> None:
    named = {} if name is None else {"prompt_name": name}
    found = [
        gb.load(prompting, gb.Model).embed("x y", prompt_name=name),
        client.post("/embed", {"inputs": "x y", **named}).json()[0],
        client.post("/tasks/embed", {"inputs": "x y", **named}).json()["data"][0]["embedding"],
        client.post("/feature-extraction", {"inputs": ["x y"], **named}).json()[0],
        np.mean(client.post("/embed_all", {"inputs": "x y", **named}).json()[0], axis=0),
    ]
    found[-1] /= np.linalg.norm(found[-1])
    for vector in found:
        np.testing.assert_allclose(vector, vectors[name], atol=1e-5)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v2/models/model/infer"])
def test_dialects_without_a_name_for_prompts_use_the_default(
    path: str, client: Client, vectors: dict[str | None, Any]
) -> None:
    if path == "/v1/embeddings":
        found = client.post(path, {"input": "x y"}).json()["data"][0]["embedding"]
    else:
        tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["x y"]}
        found = client.post(path, {"inputs": [tensor]}).json()["outputs"][0]["data"]
    np.testing.assert_allclose(found, vectors[None], atol=1e-5)


@pytest.mark.parametrize(
    ("input_type", "name"),
    [("search_query", "query"), ("search_document", "passage"), ("clustering", None), (None, None)],
)
def test_input_types_of_cohere_are_prompts(
    input_type: str | None, name: str | None, client: Client, vectors: dict[str | None, Any]
) -> None:
    body = {"texts": ["x y"], "model": "model", "input_type": input_type}
    found = client.post("/v2/embed", body).json()["embeddings"]["float"][0]
    np.testing.assert_allclose(found, vectors[name], atol=1e-5)


def test_sentences_are_compared_behind_the_same_prompt(client: Client, prompting: str) -> None:
    inputs = {"source_sentence": "x", "sentences": ["y", "z z"]}
    found = client.post("/similarity", {"inputs": inputs, "parameters": {"prompt_name": "query"}}).json()
    rows = np.asarray(gb.load(prompting, gb.Model).embed(["x", "y", "z z"], prompt_name="query"))
    np.testing.assert_allclose(found, rows[1:] @ rows[0], atol=1e-5)


def test_tokenize_shows_the_prompt_that_the_model_reads(client: Client) -> None:
    with_prompt = client.post("/tokenize", {"inputs": "x", "prompt_name": "query"}).json()
    assert with_prompt == client.post("/models/rerank/tokenize", {"inputs": "a b: x"}).json()


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/embed", {"inputs": "x"}, "the model has no prompt 'nope'; it has 'query', 'passage', 'usual'"),
        ("/embed_all", {"inputs": "x"}, "no prompt 'nope'"),
        ("/tokenize", {"inputs": "x"}, "no prompt 'nope'"),
        ("/tasks/embed", {"inputs": "x"}, "no prompt 'nope'"),
        ("/embed", {"inputs": [[5, 6]]}, "ids are read as they are"),
        ("/models/rerank/predict", {"inputs": ["x", "y"]}, "prompts are for vectors"),
        ("/models/rerank/rerank", {"query": "x", "texts": ["y"]}, "prompts are for vectors"),
        ("/models/rerank/embed", {"inputs": "x"}, "it has none"),
    ],
)
def test_a_prompt_that_cannot_be_used_is_named(path: str, body: Any, message: str, client: Client) -> None:
    response = client.post(path, {**body, "prompt_name": "nope"})
    assert response.status == 422
    assert response.json()["error_type"] == "Validation"
    assert response.json()["error"].startswith("$.prompt_name: ")
    assert message in response.json()["error"]


def test_ids_get_no_prompt(client: Client, prompting: str) -> None:
    model = gb.load(prompting, gb.Model)
    bare = gb.Model(model.network, model.tokenizer, sentences=SentenceSettings(model.pooling))
    ids = model.tokenize(["x y"])[0].ids
    found = client.post("/embed", {"inputs": [ids]}).json()
    np.testing.assert_allclose(found, [bare.embed("x y")], atol=1e-5)


def test_a_whole_folder_of_files_is_read_behind_a_prompt(
    prompting: str, tmp_path: Path, vectors: dict[str | None, Any]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("x y\n")
    gb.embed_files(prompting, tmp_path / "in", tmp_path / "out", prompt_name="query")
    row = json.loads((tmp_path / "out" / "a.jsonl").read_text())
    np.testing.assert_allclose(row["embedding"], vectors["query"], atol=1e-5)


def test_the_command_line_names_a_prompt(
    prompting: str, tmp_path: Path, vectors: dict[str | None, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "texts").write_text("x y\n")
    assert main(["embed", prompting, str(tmp_path / "texts"), "--prompt-name", "query", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(row["embedding"], vectors["query"], atol=1e-5)
    assert main(["embed", prompting, str(tmp_path / "texts"), "--prompt-name", "nope"]) == 4
    assert "the model has no prompt 'nope'; it has 'query'" in capsys.readouterr().err

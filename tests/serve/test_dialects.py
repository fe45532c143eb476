"""The shapes that clients of each dialect read, over small models of every task."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.interop.sentence_transformers import SentenceSettings
from glassbert.model.pooling import Pooling
from glassbert.serve.routes import all_routes
from helpers.asgi import Client


def ok(client: Client, path: str, content: Any, **headers: str) -> Any:
    response = client.post(path, content, **headers)
    assert response.status == 200, response.body
    return response.json()


@pytest.fixture(scope="module")
def vectors(folders: dict[str, str]) -> dict[str, Any]:
    """The normalised vectors of some texts, by Python."""
    texts = ["a b", "c", "今天 x"]
    found = np.asarray(gb.load(folders["fill"], gb.Model).embed(texts))
    return {text: one / np.linalg.norm(one) for text, one in zip(texts, found, strict=True)}


# text-embeddings-inference


def test_tei_embed_gives_a_list_of_lists_also_for_one_text(client: Client, vectors: dict[str, Any]) -> None:
    one = ok(client, "/models/fill/embed", {"inputs": "a b"})
    np.testing.assert_allclose(one, [vectors["a b"]], atol=1e-5)
    many = ok(client, "/models/fill/embed", {"inputs": list(vectors), "unknown": 1})
    np.testing.assert_allclose(many, list(vectors.values()), atol=1e-5)


def test_tei_ids_are_taken_as_they_are_with_or_without_specials(
    client: Client, vectors: dict[str, Any]
) -> None:
    tokens = ok(client, "/models/fill/tokenize", {"inputs": "a b"})[0]
    with_specials = [token["id"] for token in tokens]
    for inputs in (with_specials, with_specials[1:-1], [with_specials]):
        found = ok(client, "/models/fill/embed", {"inputs": inputs})
        np.testing.assert_allclose(found, [vectors["a b"]], atol=1e-5)


def test_tei_dimensions_are_cut_then_normalised(client: Client, vectors: dict[str, Any]) -> None:
    found = ok(client, "/models/fill/embed", {"inputs": "a b", "dimensions": 8})[0]
    expected = vectors["a b"][:8] / np.linalg.norm(vectors["a b"][:8])
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_tei_embed_all_has_a_vector_for_each_token_not_normalised(client: Client) -> None:
    found = ok(client, "/models/fill/embed_all", {"inputs": ["a b", "c"]})
    assert [np.shape(one) for one in found] == [(4, 32), (3, 32)]
    mean = ok(client, "/models/fill/embed", {"inputs": "a b", "normalize": False})[0]
    np.testing.assert_allclose(np.mean(found[0], axis=0), mean, atol=1e-5)


def test_tei_predict_is_flat_for_one_input_and_a_list_of_two_texts_is_a_pair(client: Client) -> None:
    one = ok(client, "/models/classify/predict", {"inputs": "a"})
    assert {row["label"] for row in one} == {"bad", "good", "so-so"}
    assert [row["score"] for row in one] == sorted((row["score"] for row in one), reverse=True)
    assert sum(row["score"] for row in one) == pytest.approx(1.0)
    batch = ok(client, "/models/classify/predict", {"inputs": [["a"], ["b"]]})
    assert [len(rows) for rows in batch] == [3, 3]
    assert batch[0][0]["label"] == one[0]["label"]
    assert len(ok(client, "/models/pair/predict", {"inputs": ["a", "b"]})) == 2
    assert client.post("/models/classify/predict", {"inputs": ["a", "b"]}).status == 422
    raw = ok(client, "/models/classify/predict", {"inputs": "a", "raw_scores": True})
    powers = np.exp([row["score"] for row in raw])
    np.testing.assert_allclose(powers / powers.sum(), [row["score"] for row in one], atol=1e-6)


def test_tei_rerank_sorts_and_the_key_decides_the_dialect(client: Client) -> None:
    texts = ["a", "b c", "今"]
    found = ok(client, "/models/rerank/rerank", {"query": "q", "texts": texts, "return_text": True})
    assert [row["score"] for row in found] == sorted((row["score"] for row in found), reverse=True)
    assert [texts[row["index"]] for row in found] == [row["text"] for row in found]
    raw = ok(client, "/models/rerank/rerank", {"query": "q", "texts": texts, "raw_scores": True})
    assert 1 / (1 + np.exp(-raw[0]["score"])) == pytest.approx(found[0]["score"])
    asked = {"query": "q", "documents": ["a", {"text": "b c"}, "今"], "top_n": 2, "return_documents": True}
    for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
        results = ok(client, f"/models/rerank{path}", asked)["results"]
        assert [one["index"] for one in results] == [row["index"] for row in found[:2]]
        assert results[0]["relevance_score"] == pytest.approx(found[0]["score"])
        assert results[0]["document"] == {"text": found[0]["text"]}


def test_tei_tokenize_counts_bytes_and_decode_gives_the_text_back(client: Client) -> None:
    (tokens,) = ok(client, "/models/fill/tokenize", {"inputs": "今 a"})
    assert [(token["start"], token["stop"]) for token in tokens] == [
        (None, None),
        (0, 3),
        (4, 5),
        (None, None),
    ]
    assert [token["special"] for token in tokens] == [True, False, False, True]
    ids = [token["id"] for token in tokens]
    assert ok(client, "/models/fill/decode", {"ids": ids}) == ["今 a"]
    assert ok(client, "/models/fill/decode", {"ids": [ids, ids]}) == ["今 a", "今 a"]


def test_tei_similarity_is_the_cosine(client: Client, vectors: dict[str, Any]) -> None:
    body = {"inputs": {"source_sentence": "a b", "sentences": ["c", "今天 x"]}}
    expected = [vectors["a b"] @ vectors["c"], vectors["a b"] @ vectors["今天 x"]]
    assert ok(client, "/models/fill/similarity", body) == pytest.approx(expected, abs=1e-5)


def test_every_inference_answer_says_what_was_read(client: Client) -> None:
    response = client.post("/models/fill/embed", {"inputs": ["a", "b " * 60]}, x_request_id="abc")
    headers = response.headers
    assert headers["x-request-id"] == "abc"
    assert headers["x-compute-tokens"] == "43"
    assert headers["x-compute-characters"] == "121"
    assert (headers["x-truncated"], headers["x-windows"]) == ("1", "2")
    assert headers["x-compute-type"] == "cpu"
    for name in ("compute", "total", "tokenization", "queue", "inference"):
        assert headers[f"x-{name}-time"].isdecimal()


def test_info_has_the_keys_of_tei_and_no_folder(client: Client, folders: dict[str, str]) -> None:
    response = client.get("/models/classify/info")
    info = response.json()
    assert info["model_id"] == "classify"
    assert info["model_type"]["classifier"]["id2label"] == {"0": "bad", "1": "good", "2": "so-so"}
    assert info["tasks"] == ["classify", "embed"]
    assert folders["classify"] not in response.body.decode()


# OpenAI, Cohere


def test_openai_embeddings_as_floats_and_as_base64(client: Client, vectors: dict[str, Any]) -> None:
    body = {"model": "fill", "input": list(vectors)}
    floats = ok(client, "/v1/embeddings", body)
    np.testing.assert_allclose(
        [one["embedding"] for one in floats["data"]], list(vectors.values()), atol=1e-5
    )
    assert floats["usage"]["prompt_tokens"] == floats["usage"]["total_tokens"] == 12
    packed = ok(client, "/embeddings", {**body, "encoding_format": "base64"})["data"]
    decoded = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4") for one in packed]
    np.testing.assert_allclose(decoded, list(vectors.values()), atol=1e-5)


def test_openai_ids_of_another_vocabulary_name_the_switch_of_langchain(client: Client) -> None:
    response = client.post("/models/fill/v1/embeddings", {"input": [[9906, 1917]]})
    assert response.status == 422
    assert "check_embedding_ctx_length=False" in response.json()["error"]["message"]


def test_openai_lists_the_models(client: Client, folders: dict[str, str]) -> None:
    listed = client.get("/v1/models").json()
    assert [one["id"] for one in listed["data"]] == list(folders)


@pytest.mark.parametrize("version", ["1", "2"])
def test_cohere_answers_name_the_version_that_was_asked(version: str, client: Client) -> None:
    embedded = ok(client, f"/models/fill/v{version}/embed", {"texts": ["a"]})
    ranked = ok(client, f"/models/rerank/v{version}/rerank", {"query": "q", "documents": ["a"]})
    for found in (embedded, ranked):
        assert found["meta"]["api_version"] == {"version": version}


@pytest.mark.parametrize("path", ["/rerank", "/v1/rerank", "/v2/rerank"])
def test_cohere_documents_are_read_as_far_as_max_tokens_per_doc(path: str, client: Client) -> None:
    def scores(documents: list[str], **asked: Any) -> dict[int, float]:
        body = {"query": "q", "documents": documents, **asked}
        results = ok(client, f"/models/rerank{path}", body)["results"]
        return {one["index"]: one["relevance_score"] for one in results}

    long, short = ["a b c d", "今 天 e", "f"], ["a b", "今 天", "f"]
    assert scores(long, max_tokens_per_doc=2) == pytest.approx(scores(short), abs=1e-6)
    assert scores(long, max_tokens_per_doc=None) != pytest.approx(scores(short), abs=1e-6)
    body = {"query": "q", "documents": ["a"], "max_tokens_per_doc": 0}
    assert client.post(f"/models/rerank{path}", body).status == 422


def test_cohere_embeddings_by_type(client: Client, vectors: dict[str, Any]) -> None:
    types = ["float", "int8", "uint8", "binary", "ubinary", "base64"]
    body = {"texts": ["a b"], "model": "fill", "input_type": "search_query", "embedding_types": types}
    found = ok(client, "/v2/embed", body)
    by_type = found["embeddings"]
    np.testing.assert_allclose(by_type["float"][0], vectors["a b"], atol=1e-5)
    np.testing.assert_allclose(np.array(by_type["int8"][0]) / 127, vectors["a b"], atol=0.005)
    assert [one - 128 for one in by_type["uint8"][0]] == by_type["int8"][0]
    assert [one - 128 for one in by_type["ubinary"][0]] == by_type["binary"][0]
    assert found["response_type"] == "embeddings_by_type"
    first = ok(client, "/v1/embed", {"texts": ["a b"], "model": "fill", "truncate": None})
    assert first["response_type"] == "embeddings_floats"
    np.testing.assert_allclose(first["embeddings"], [vectors["a b"]], atol=1e-5)


def test_infinity_classifies(client: Client) -> None:
    found = ok(client, "/models/classify/classify", {"input": ["a", "b"]})
    assert found["object"] == "classify"
    assert [len(row) for row in found["data"]] == [3, 3]


# Pipelines of Hugging Face: what InferenceClient sends to the base URL


@pytest.mark.parametrize(
    "path", ["/", "/invocations", "/text-classification", "/pipeline/text-classification"]
)
def test_hf_text_classification_is_nested(path: str, client: Client) -> None:
    found = ok(client, f"/models/classify{path}", {"inputs": "a", "parameters": {"top_k": 2}})
    assert [len(row) for row in found] == [2]
    assert set(found[0][0]) == {"label", "score"}
    raw = ok(
        client,
        "/models/classify/text-classification",
        {"inputs": ["a"], "parameters": {"function_to_apply": "none"}},
    )
    assert len(raw[0]) == 1


def test_hf_token_classification_gives_exact_substrings(client: Client) -> None:
    text = "a b 今天 c"
    found = ok(client, "/models/tag", {"inputs": text, "parameters": {}})
    assert found
    assert all(text[one["start"] : one["end"]] == one["word"] for one in found)
    listed = ok(client, "/models/tag/token-classification", {"inputs": [text]})
    assert listed[0] == found


def test_hf_token_classification_without_aggregation_is_that_of_the_pipeline(
    client: Client, folders: dict[str, str]
) -> None:
    transformers = pytest.importorskip("transformers")
    text = "a b 今天 c"
    theirs = transformers.pipeline("token-classification", folders["tag"], aggregation_strategy="none")
    body = {"inputs": text, "parameters": {"aggregation_strategy": "none"}}
    found, expected = ok(client, "/models/tag", body), theirs(text)
    assert expected
    assert [set(one) for one in found] == [set(one) for one in expected]
    for own, one in zip(found, expected, strict=True):
        assert own.pop("score") == pytest.approx(float(one.pop("score")), abs=1e-5)
        assert own == one
    body["parameters"]["ignore_labels"] = []
    assert [one["index"] for one in ok(client, "/models/tag", body)] == [1, 2, 3, 4, 5]


def test_hf_question_answering(client: Client) -> None:
    inputs = {"question": "x", "context": "a b c d"}
    one = ok(client, "/models/answer", {"inputs": inputs, "parameters": {}})
    assert inputs["context"][one["start"] : one["end"]] == one["answer"]
    several = ok(client, "/models/answer/question-answering", {"inputs": inputs, "parameters": {"top_k": 3}})
    assert several[0] == one
    assert len(several) == 3
    every = {"top_k": 10}
    assert len(ok(client, "/models/answer", {"inputs": inputs, "parameters": every})) == 10
    short = {"top_k": 10, "max_answer_len": 1}
    found = ok(client, "/models/answer", {"inputs": inputs, "parameters": short})
    assert {one["answer"] for one in found} == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("path", "inputs", "parameters"),
    [
        ("answer/question-answering", {"question": "x", "context": "a"}, {"doc_stride": 3}),
        ("answer/question-answering", {"question": "x", "context": "a"}, {"max_seq_len": 30}),
        ("tag/token-classification", "a", {"stride": 3}),
        ("translate/translation", "a", {"src_lang": "en"}),
        ("translate/translation", "a", {"tgt_lang": "zh"}),
        ("translate/translation", "a", {"generate_parameters": {"do_sample": True}}),
    ],
)
def test_hf_parameters_that_would_change_nothing_are_refused_by_name(
    path: str, inputs: Any, parameters: dict[str, Any], client: Client
) -> None:
    response = client.post(f"/models/{path}", {"inputs": inputs, "parameters": parameters})
    assert response.status == 422
    name = next(iter(parameters.get("generate_parameters", parameters)))
    assert f"unknown field {name}" in response.json()["error"]


@pytest.mark.parametrize("multi_label", [False, True])
def test_hf_zero_shot_takes_a_list_and_gives_a_list(multi_label: bool, client: Client) -> None:
    parameters = {"candidate_labels": ["x", "y", "z"], "multi_label": multi_label}

    def asked(inputs: Any) -> Any:
        return ok(client, "/models/pair", {"inputs": inputs, "parameters": parameters})

    for row, alone in zip(asked(["a", "b c"]), [asked("a"), asked("b c")], strict=True):
        assert [one["label"] for one in row] == [one["label"] for one in alone]
        np.testing.assert_allclose([one["score"] for one in row], [one["score"] for one in alone], atol=1e-5)


def test_hf_fill_mask_gives_the_whole_sequence(client: Client) -> None:
    found = ok(
        client,
        "/models/fill",
        {"inputs": "a [MASK] b", "parameters": {"top_k": 2, "targets": ["c", "d", "e"]}},
    )
    assert {one["token_str"] for one in found} < {"c", "d", "e"}
    assert found[0]["sequence"] == f"a {found[0]['token_str']} b"
    assert client.post("/models/fill/fill-mask", {"inputs": "a b", "parameters": {}}).status == 422


def test_hf_translation_zero_shot_similarity_and_features(client: Client, vectors: dict[str, Any]) -> None:
    translated = ok(client, "/models/translate", {"inputs": "a b", "parameters": {}})
    assert set(translated[0]) == {"translation_text"}
    labels = {"candidate_labels": ["x", "y"], "multi_label": False}
    zero = ok(client, "/models/pair", {"inputs": "a", "parameters": labels})
    assert sum(one["score"] for one in zero) == pytest.approx(1.0)
    refused = client.post("/models/classify/zero-shot-classification", {"inputs": "a", "parameters": labels})
    assert refused.status == 424
    assert "NLI" in refused.json()["error"]
    body = {"inputs": {"source_sentence": "a b", "sentences": ["a b"]}, "parameters": {}}
    assert ok(client, "/models/fill", body) == pytest.approx([1.0], abs=1e-5)
    np.testing.assert_allclose(ok(client, "/models/fill", {"inputs": "a b"}), [vectors["a b"]], atol=1e-5)


# Ours, KServe, Vertex


def test_rows_can_be_streamed_line_by_line_and_as_events(client: Client) -> None:
    texts = ["a", "b c", "d"]
    whole = ok(client, "/models/tag/tag", {"inputs": texts})["data"]
    lines = client.post("/models/tag/tag", {"inputs": texts}, accept="application/x-ndjson")
    assert lines.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["tokens"] for line in lines.body.splitlines()] == [
        row["tokens"] for row in whole
    ]
    events = client.post("/models/translate/translate", {"inputs": ["a", "b"]}, accept="text/event-stream")
    assert [line[:6] for line in events.body.split(b"\n\n") if line] == [b"data: "] * 2
    refused = client.post("/models/tag/tag", {"inputs": [""]}, accept="application/x-ndjson")
    assert refused.status == 400


def test_vectors_can_be_had_as_bytes(client: Client, vectors: dict[str, Any]) -> None:
    import io

    from safetensors.numpy import load

    body = {"inputs": list(vectors)}
    plain = [row["embedding"] for row in ok(client, "/models/fill/tasks/embed", body)["data"]]
    npy = client.post("/models/fill/tasks/embed", body, accept="application/x-npy")
    np.testing.assert_allclose(np.load(io.BytesIO(npy.body), allow_pickle=False), plain, atol=1e-6)
    tensors = load(client.post("/models/fill/tasks/embed", body, accept="application/vnd.safetensors").body)
    np.testing.assert_allclose(tensors["embeddings"], plain, atol=1e-6)
    assert tensors["tokens"].tolist() == [4, 3, 5]


@pytest.mark.parametrize(("on_long", "status"), [("truncate", 200), ("window", 200), ("error", 422)])
def test_a_long_text_is_cut_read_in_windows_or_refused(on_long: str, status: int, client: Client) -> None:
    body = {"inputs": "a " * 100, "on_long": on_long}
    for path in ("/models/fill/tasks/embed", "/models/classify/tasks/classify"):
        response = client.post(path, body)
        assert response.status == status
        if status == 200:
            row = response.json()["data"][0]
            assert row["truncated"] == (on_long == "truncate")
            assert (row["windows"] > 1) == (on_long == "window")
    assert client.post("/models/tag/tag", {"inputs": "a " * 20_000}).status == 413


def test_kserve_takes_bytes_and_gives_json_rows(client: Client) -> None:
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a", "b c"]}
    found = ok(client, "/v2/models/tag/infer", {"id": "7", "inputs": [tensor]})
    assert found["id"] == "7"
    (output,) = found["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [2])
    assert json.loads(output["data"][1])["tokens"] == 4
    two = [{**tensor, "name": name} for name in ("question", "context")]
    assert ok(client, "/v2/models/answer/infer", {"inputs": two})["outputs"][0]["shape"] == [2]
    wrong = client.post("/v2/models/tag/infer", {"inputs": [{**tensor, "shape": [3]}]})
    assert (wrong.status, set(wrong.json())) == (422, {"error"})
    assert client.get("/v2/models/tag").json()["inputs"][0]["datatype"] == "BYTES"
    assert client.get("/v2/models/tag/ready").status == client.get("/v2").status == 200


def test_kserve_describes_the_width_of_several_pooled_vectors(
    folders: dict[str, str], tmp_path: Path
) -> None:
    plain = gb.load(folders["fill"], gb.Model)
    sentences = SentenceSettings(Pooling(modes=("cls", "max")))
    gb.Model(plain.network, plain.tokenizer, sentences=sentences).save(tmp_path / "wide")
    app = gb.serve.build_app(tmp_path / "wide", threads=1)
    try:
        wide = Client(app)
        tensor = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a b"]}
        (given,) = ok(wide, "/v2/models/wide/infer", {"inputs": [tensor]})["outputs"]
        (described,) = wide.get("/v2/models/wide").json()["outputs"]
        assert given["shape"] == [1, 64]
        assert described["shape"] == [-1, 64]
    finally:
        app.stop()


def test_vertex_answers_each_instance(client: Client) -> None:
    body = {"instances": [{"inputs": "a"}, {"inputs": "b"}]}
    found = ok(client, "/models/classify/vertex", body)["predictions"]
    assert [len(one) for one in found] == [3, 3]


# The table of routes


def test_openapi_describes_every_route(client: Client) -> None:
    document = client.get("/openapi.json").json()
    for route in all_routes():
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["summary"]
        assert ("requestBody" in operation) == (route.request is not None)
    names = re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document))
    assert set(names) <= set(document["components"]["schemas"])


def test_metrics_have_the_names_of_tei_and_count_right(client: Client) -> None:
    def value(name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", client.get("/metrics").body.decode(), re.M)
        assert found, name
        return float(found[1])

    names = ['te_request_count{method="single"}', 'te_request_success{method="single"}', "te_predict_count"]
    before = [value(name) for name in names]
    ok(client, "/models/classify/predict", {"inputs": "a"})
    assert [value(name) for name in names] == [one + 1 for one in before]
    failures = value('te_request_failure{err="model_type"}')
    client.post("/models/fill/predict", {"inputs": "a"})
    assert value('te_request_failure{err="model_type"}') == failures + 1
    too_many = value('te_request_failure{err="batch_size"}')
    client.post("/models/fill/embed", {"inputs": ["a"] * 2049})
    assert value('te_request_failure{err="batch_size"}') == too_many + 1
    assert value("te_queue_size") == 0
    assert value('te_request_duration_bucket{le="+Inf"}') == value("te_request_duration_count")

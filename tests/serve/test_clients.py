"""Foreign clients, unchanged, of the extra [clients]; the test of one that is not installed is skipped."""

import io
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from glassbert.serve.front import Front
from glassbert.serve.http.log import Log
from glassbert.serve.settings import ServeSettings
from helpers.live_server import LiveServer


@pytest.fixture(scope="module")
def address(folders: dict[str, str]) -> Iterator[str]:
    """The address of a server of all small models."""
    front = Front(folders, ServeSettings(threads=1, timeout=60, max_wait=60), log=Log(io.StringIO()))
    live = LiveServer(front)
    while front.state == "loading":
        time.sleep(0.01)
    yield live.address
    live.stop()


def test_huggingface_hub_asks_for_eight_tasks(address: str) -> None:
    if os.environ.get("HF_HUB_OFFLINE"):
        pytest.skip("HF_HUB_OFFLINE is set: this client then refuses this machine too")
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra [clients]")

    def at(name: str, **options: Any) -> Any:
        return hub.InferenceClient(f"{address}/models/{name}", **options)

    assert np.shape(at("fill").feature_extraction("a b")) == (1, 32)
    assert len(at("classify").text_classification("a b", top_k=2)) == 2
    assert all("a b 今"[one.start : one.end] == one.word for one in at("tag").token_classification("a b 今"))
    assert at("answer").question_answering(question="x", context="a b c").answer in "a b c"
    assert len(at("fill").fill_mask("a [MASK] b", top_k=3)) == 3
    assert isinstance(at("translate").translation("a b").translation_text, str)
    assert {one.label for one in at("pair").zero_shot_classification("a", ["x", "y"])} == {"x", "y"}
    assert at("fill").sentence_similarity("a", other_sentences=["a"]) == pytest.approx([1.0], abs=1e-5)
    assert at("fill", provider="hf-inference").get_endpoint_info()["model_id"] == "fill"
    assert at("fill", provider="hf-inference").health_check()


def test_openai_reads_vectors_models_and_errors(address: str) -> None:
    openai = pytest.importorskip("openai", reason="needs the extra [clients]")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0)
    found = client.embeddings.create(model="fill", input=["a", "b"], dimensions=8).data
    assert [len(one.embedding) for one in found] == [8, 8]
    assert "fill" in [one.id for one in client.models.list().data]
    with pytest.raises(openai.NotFoundError, match="no such model"):
        client.embeddings.create(model="nope", input="a")
    with pytest.raises(openai.UnprocessableEntityError, match="check_embedding_ctx_length"):
        client.embeddings.create(model="fill", input=[[99_999]])


def test_cohere_embeds_and_ranks(address: str) -> None:
    cohere = pytest.importorskip("cohere", reason="needs the extra [clients]")
    second, first = (kind(api_key="k", base_url=address) for kind in (cohere.ClientV2, cohere.Client))
    asked = {"texts": ["a"], "model": "fill", "input_type": "search_query"}
    assert len(second.embed(**asked, embedding_types=["float"]).embeddings.float_[0]) == 32
    assert len(first.embed(**asked).embeddings[0]) == 32
    for client in (first, second):
        (best,) = client.rerank(model="rerank", query="q", documents=["a", "b c"], top_n=1).results
        assert 0 < best.relevance_score < 1


def test_langchain_sends_texts_to_the_openai_route_and_documents_to_the_cohere_one(address: str) -> None:
    openai = pytest.importorskip("langchain_openai", reason="needs the extra [clients]")
    options = {"base_url": f"{address}/v1", "api_key": "k", "model": "fill"}
    embeddings = openai.OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    many = embeddings.embed_documents([f"a {number}" for number in range(1500)])  # 1,000 at a time
    assert np.shape(many) == (1500, 32)
    np.testing.assert_allclose(many[7], embeddings.embed_query("a 7"), atol=1e-5)


def test_langchain_cohere_embeds_and_ranks(address: str) -> None:
    cohere = pytest.importorskip("langchain_cohere", reason="needs the extra [clients]")
    embeddings = cohere.CohereEmbeddings(cohere_api_key="k", base_url=address, model="fill")
    assert np.shape(embeddings.embed_documents(["a", "b"])) == (2, 32)
    ranker = cohere.CohereRerank(cohere_api_key="k", base_url=address, model="rerank", top_n=2)
    found = ranker.rerank(["a", "b c", "d"], "q")
    assert len(found) == 2
    assert found[0]["relevance_score"] >= found[1]["relevance_score"]


def test_llama_index_embeds_and_ranks_as_with_text_embeddings_inference(address: str) -> None:
    tei = pytest.importorskip(
        "llama_index.embeddings.text_embeddings_inference", reason="needs the extra [clients]"
    )
    ranking = pytest.importorskip("llama_index.postprocessor.tei_rerank", reason="needs the extra [clients]")
    from llama_index.core.schema import NodeWithScore, TextNode

    embeddings = tei.TextEmbeddingsInference(model_name="fill", base_url=f"{address}/models/fill")
    many = embeddings.get_text_embedding_batch([f"a {number}" for number in range(25)])
    assert np.shape(many) == (25, 32)
    np.testing.assert_allclose(many[7], embeddings.get_text_embedding("a 7"), atol=1e-5)
    ranker = ranking.TextEmbeddingInference(base_url=f"{address}/models/rerank", model_name="rerank", top_n=2)
    nodes = [NodeWithScore(node=TextNode(text=text)) for text in ("a", "b c", "d")]
    found = ranker.postprocess_nodes(nodes, query_str="q")
    assert len(found) == 2
    assert found[0].score >= found[1].score


def test_llama_index_reads_the_vectors_of_the_openai_route(address: str) -> None:
    openai = pytest.importorskip("llama_index.embeddings.openai", reason="needs the extra [clients]")
    embeddings = openai.OpenAIEmbedding(api_base=f"{address}/v1", api_key="k", model_name="fill")
    assert np.shape(embeddings.get_text_embedding_batch(["a"] * 150)) == (150, 32)

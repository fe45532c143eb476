"""Every refusal has its status in every dialect, in the dialect's own form, and gives nothing away."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassbert.serve import questions
from glassbert.serve.front import Front
from glassbert.serve.routes import Route, all_routes
from helpers.asgi import Client, Response
from helpers.fake_work import Held
from helpers.small_served import TASKS, served

# For each dialect: a path, the field of the texts, and what the error object must hold.
DIALECTS: dict[str, tuple[str, str]] = {
    "tei": ("/models/fill/embed", "inputs"),
    "openai": ("/models/fill/v1/embeddings", "input"),
    "cohere": ("/models/fill/v2/embed", "texts"),
    "native": ("/models/fill/tasks/embed", "inputs"),
    "hf": ("/models/fill/feature-extraction", "inputs"),
    "hf classify": ("/models/classify/text-classification", "inputs"),
    "infinity": ("/models/classify/classify", "input"),
    "any": ("/models/fill/", "inputs"),
}


def message_of(response: Response, dialect: str) -> str:
    """Return the message of an error where clients of the dialect look for it."""
    body = response.json()
    if dialect == "openai":
        assert set(body["error"]) == {"message", "type", "param", "code"}
        return body["error"]["message"]
    if dialect in ("cohere", "infinity"):
        return body["message"]
    assert isinstance(body["error_type"], str)
    return body["error"]


CASES: dict[str, tuple[Any, int, str]] = {
    "not JSON": (b"{", 400, "not valid JSON"),
    "not UTF-8": (b'{"$": ["\xff"]}', 400, "not valid JSON"),
    "deep": (b"[" * 100_000, 422, "expected object"),
    "a list": ([], 422, "expected object"),
    "a number": ({"$": 5}, 422, "$.$"),
    "an object in the list": ({"$": ["a", {"x": 1}]}, 422, "$.$[1]"),
    "no field": ({}, 422, "missing required field"),
    "empty list": ({"$": []}, 400, "at least one text"),
    "empty text": ({"$": ["a", ""]}, 400, "$.$[1]"),
    "a word of a million letters": ({"$": ["a", "a" * 1_200_000]}, 422, "$.$[1]"),
    "too many": ({"$": ["a"] * 2049}, 422, "2049 texts; expected at most 2048"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_that_cannot_be_used(dialect: str, case: str, client: Client) -> None:
    path, field = DIALECTS[dialect]
    content, status, message = CASES[case]
    if isinstance(content, dict):
        content = {name.replace("$", field): value for name, value in content.items()}
    elif isinstance(content, bytes):
        content = content.replace(b"$", field.encode())
    response = client.post(path, content)
    if (dialect, case) == ("any", "deep"):  # it is read to its end before anything is known of it
        status, message = 400, "not valid JSON"
    assert response.status == status
    assert message.replace("$.$", f"$.{field}") in message_of(response, dialect)


KSERVE = "/v2/models/fill/infer"


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "not valid JSON"),
        ([], 422, "expected object"),
        ({}, 422, "missing required field"),
        ({"inputs": []}, 422, "0 tensors; expected 1: text"),
        ({"inputs": [{"name": "text", "shape": [0], "datatype": "BYTES", "data": []}]}, 400, "$.inputs"),
        ({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [""]}]}, 400, "$.inputs"),
        ({"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["a"]}]}, 422, ".shape"),
        ({"inputs": [{"name": "text", "shape": [1], "datatype": "FP32", "data": [1]}]}, 422, ".datatype"),
        ({"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": [1]}]}, 422, ".data"),
        (
            {"inputs": [{"name": "text", "shape": [2049], "datatype": "BYTES", "data": ["a"] * 2049}]},
            422,
            "2049 texts",
        ),
    ],
)
def test_a_tensor_that_cannot_be_used(content: Any, status: int, message: str, client: Client) -> None:
    response = client.post(KSERVE, content)
    assert response.status == status
    assert set(response.json()) == {"error"}
    assert message in response.json()["error"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_number_that_is_too_large_for_json_is_refused(dialect: str, client: Client) -> None:
    path, field = DIALECTS[dialect]
    for value in (b"1e999", b"NaN", b"[" + b"9" * 5000 + b"]", b'"\\ud800"'):
        assert client.post(path, b'{"%s": %s}' % (field.encode(), value)).status in (400, 422)


def test_a_body_must_be_json_by_its_type_and_not_compressed(client: Client) -> None:
    for headers in ({"content_type": "text/plain"}, {"content_encoding": "gzip"}):
        response = client.post("/models/fill/embed", {"inputs": "a"}, **headers)
        assert response.status == 415
        assert response.headers["connection"] == "close"


def test_a_body_that_is_too_long_is_not_read(folders: dict[str, str]) -> None:
    with served(folders, "fill", max_body_bytes=100) as front:
        response = Client(front).post("/embed", {"inputs": "a" * 200})
        assert response.status == 413
        assert response.headers["connection"] == "close"
        assert Client(front).post("/embed", {}, content_length="9" * 5000).status == 413


def test_unknown_models_routes_and_methods(client: Client) -> None:
    assert client.post("/models/nope/embed", {"inputs": "a"}).status == 404
    unknown = client.post("/v1/embeddings", {"input": "a", "model": "nope"})
    assert unknown.status == 404
    assert unknown.json()["error"]["code"] == "model_not_found"
    assert client.get("/nothing").status == 404
    wrong = client.get("/embed")
    assert wrong.status == 405
    assert wrong.headers["allow"] == "POST"


def test_a_small_request_for_a_huge_answer_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "MAX_CANDIDATES", 60)
    monkeypatch.setattr(questions, "MAX_VALUES", 6 * 32)
    answer = {"question": "a", "context": "b c"}
    for path, body, status, where in (
        ("fill/fill-mask", {"inputs": "[MASK] [MASK]", "parameters": {"top_k": 31}}, 422, "$.inputs[0]: 62"),
        ("fill/tasks/fill", {"inputs": ["[MASK]"] * 4, "top": 20}, 422, "$.inputs[3]: 80"),
        ("fill/tasks/fill", {"inputs": ["[MASK]", "a"], "top": 31}, 422, "$.inputs[1]: the text has no"),
        ("answer/question-answering", {"inputs": [answer], "parameters": {"top_k": 61}}, 422, "61 cand"),
        ("fill/embed_all", {"inputs": ["a", "b c"]}, 413, "$.inputs[1]: more than 192 numbers"),
    ):
        refused = client.post(f"/models/{path}", body)
        assert refused.status == status
        assert where in refused.json()["error"]
    for path, body in (
        ("fill/fill-mask", {"inputs": "[MASK] [MASK]", "parameters": {"top_k": 30}}),
        ("answer/question-answering", {"inputs": [answer] * 6, "parameters": {"top_k": 10}}),
        ("fill/embed_all", {"inputs": ["a", "b"]}),
    ):
        assert client.post(f"/models/{path}", body).status == 200


def test_a_text_that_takes_the_tokeniser_long_is_refused_wherever_all_of_it_is_read(
    folders: dict[str, str],
) -> None:
    with served(folders, "fill", max_characters=20, on_long="window") as front:
        for path in ("/embed", "/tokenize", "/fill"):
            refused = Client(front).post(path, {"inputs": ["[MASK]", "a [MASK] " * 3]})
            assert refused.status == 413
            assert "$.inputs[1]: 27 characters; expected at most 20" in refused.json()["error"]


def test_with_one_model_any_name_means_it(folders: dict[str, str]) -> None:
    with served(folders, "fill") as front:
        answer = Client(front).post("/v1/embeddings", {"input": "a", "model": "text-embedding-3-small"})
        assert answer.status == 200
        assert answer.json()["model"] == "fill"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"inputs": [[5, 60]]}, "id 60"),
        ({"inputs": "a", "dimensions": 0}, "$.dimensions"),
        ({"inputs": "a", "dimensions": 33}, "$.dimensions"),
        ({"inputs": "a " * 50, "truncate": False}, "$.inputs[0]: more than the 40 tokens"),
        ({"inputs": ["a", [5]]}, "only texts"),
        ({"inputs": "a", "prompt_name": "query"}, "$.prompt_name"),
        ({"inputs": "a", "truncation_direction": "up"}, "$.truncation_direction"),
    ],
)
def test_values_outside_their_limits_are_named(body: Any, where: str, client: Client) -> None:
    response = client.post("/models/fill/embed", body)
    assert response.status == 422
    assert where in response.json()["error"]


def test_without_a_key_only_probes_are_answered(folders: dict[str, str]) -> None:
    with served(folders, "fill", keys="alice secret-of-alice\nbob secret-of-bob") as front:
        client = Client(front)
        for path in ("/livez", "/readyz", "/health"):
            assert client.get(path).status == 200
        for path in ("/info", "/metrics", "/openapi.json", "/nothing", "/models/fill/info"):
            refused = client.get(path)
            assert refused.status == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        assert client.post("/embed", {"inputs": "a"}).status == 401
        for wrong in (
            "Bearer secret-of-eve",
            "secret-of-bob",
            "Basic secret-of-bob",
            "Bearer ",
            "Bearer \u00e9",
        ):
            assert client.post("/embed", {"inputs": "a"}, authorization=wrong).status == 401
        right = client.post("/embed", {"inputs": "a"}, authorization="bearer secret-of-bob")
        assert right.status == 200


def test_a_foreign_host_is_refused(folders: dict[str, str]) -> None:
    with served(folders, "fill") as front:
        client = Client(front)
        assert client.get("/health", host="evil.example").status == 403
        for name in ("localhost:80", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST"):
            assert client.get("/health", host=name).status == 200


def test_a_client_that_leaves_is_not_computed_for(folders: dict[str, str]) -> None:
    with served(folders, "fill") as front:
        assert front.service
        held, service = Held(), front.service
        service.models["fill"].__dict__["embed_group"] = held

        async def leave() -> None:
            client, leaves = Client(front), asyncio.Event()
            running = asyncio.ensure_future(client.sent("POST", "/embed", {"inputs": "a"}, {}))
            while not held.has_started.is_set():
                await asyncio.sleep(0.01)
            waiting = asyncio.ensure_future(client.sent("POST", "/embed", {"inputs": ["b"] * 9}, {}, leaves))
            while not service.queue.state().num_units:
                await asyncio.sleep(0.01)
            leaves.set()
            await waiting
            assert service.queue.state().num_units == 0
            held.may_end.set()
            assert (await running).status == 424  # an echo is no vector

        asyncio.run(leave())
        assert len(held.batches) == 1
        assert "glassbert_cancelled_total 1" in front.metrics.render()


def test_logs_hold_neither_texts_nor_paths_nor_keys(folders: dict[str, str]) -> None:
    server = served(folders, "fill", keys="bob secret-of-bob")
    with server as front:
        client = Client(front, {"authorization": "Bearer secret-of-bob"})
        client.post("/embed", {"inputs": "telltale"}, x_request_id="mine-1")
        client.post("/embed/telltale", {"inputs": "telltale"})
        client.post("/embed", {"inputs": ["telltale", ""]})
    lines = server.lines.getvalue()
    assert "mine-1" in lines
    assert '"key":"bob"' in lines
    for secret in ("telltale", "secret", folders["fill"]):
        assert secret not in lines


NAMES = ("inputs", "text", "question", "context", "source_sentence", "sentences", "candidate_labels", "x")
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
# Every route that takes a body, so that no new one is forgotten; the main ones take that of any dialect.
POSTS = [route for route in all_routes() if route.method == "POST"]
ANY_FIELDS = ("inputs", "parameters", "query", "texts", "documents", "truncate")


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, Route]:
    """A route with a body, at one of the models, and its path there."""
    route, model = draw(st.sampled_from(POSTS)), draw(st.sampled_from([*TASKS, "translate"]))
    path = route.path.replace("{model}", model)
    return (path if path != route.path else f"/models/{model}{path}"), route


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A path, and a body with some of the fields that it knows."""
    path, route = draw(paths())
    fields = getattr(route.request, "__struct_fields__", ANY_FIELDS)
    return path, draw(st.fixed_dictionaries({}, optional=dict.fromkeys(fields, json_values)))


def check_that_it_is_answered(front: Front, path: str, body: Any) -> None:
    assert Client(front).post(path, body).status in (200, 400, 404, 413, 422, 424)


def test_the_bodies_go_to_every_route_that_takes_one() -> None:
    known = {route.path for route in POSTS}
    assert {"/", "/invocations", "/vertex", "/v2/models/{model}/infer", "/pipeline/fill-mask"} < known
    assert len(known) == len(POSTS) > 40


@settings(max_examples=60)
@given(bodies())
def test_no_body_breaks_the_server(front: Front, asked: tuple[str, dict[str, Any]]) -> None:
    check_that_it_is_answered(front, *asked)


@settings(max_examples=30)
@given(paths(), st.binary(max_size=40))
def test_no_bytes_break_the_server(front: Front, asked: tuple[str, Route], body: bytes) -> None:
    check_that_it_is_answered(front, asked[0], body)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=10_000)
@given(bodies())
def test_ten_thousand_bodies_do_not_break_the_server(front: Front, asked: tuple[str, dict[str, Any]]) -> None:
    check_that_it_is_answered(front, *asked)

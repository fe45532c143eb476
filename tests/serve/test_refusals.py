"""Whatever ends a request without an answer has its status in each dialect, in the dialect's own form.

Bodies that cannot be used are in test_errors.py.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from glassbert.serve.front import Front, dialect_of
from glassbert.serve.http.problems import Problem
from glassbert.serve.routes import all_routes
from helpers.asgi import Client, Response
from helpers.fake_work import Deadly, Held
from helpers.small_served import served

TEI = frozenset({"error", "error_type"})
NATIVE = frozenset({"error", "error_type", "id"})
COHERE = frozenset({"id", "message"})
ONE = frozenset({"error"})
KINDS = {"Validation", "Tokenizer", "Empty", "Backend", "Overloaded", "Unhealthy", "Unauthorized"}


@dataclass(frozen=True, kw_only=True)
class Way:
    """How a dialect is asked, and what its errors look like."""

    path: str
    field: str = "inputs"
    keys: frozenset[str] = TEI
    """Of an error object."""
    model: str = "fill"
    wrong: tuple[str, int] | None = None
    """A model that lacks the task, and the status then; None where the model decides what it is asked."""
    never_cut: dict[str, Any] | None = None
    """What refuses a text that is too long; None where only the server decides."""
    dimensions: str | None = None
    """The field that cuts vectors."""
    takes_ids: bool = True

    def body(self, texts: Sequence[Any], **more: Any) -> Any:
        """Return a request for some texts; each has a mask, since the model of /v2 fills it in."""
        if self.path.endswith("/infer"):
            tensor = {"name": "text", "shape": [len(texts)], "datatype": "BYTES", "data": texts}
            return {"inputs": [tensor], **more}
        asked = {self.field: list(texts), **more}
        return {"instances": [asked]} if self.path == "/vertex" else asked

    def message(self, response: Response) -> str:
        """Return the message of an error where clients of the dialect look for it."""
        body = response.json()
        assert set(body) == self.keys
        if self.keys is COHERE:
            return body["message"]
        if self.keys is ONE and self.field == "input":
            assert set(body["error"]) == {"message", "type", "param", "code"}
            return body["error"]["message"]
        assert self.keys is ONE or body["error_type"] in KINDS
        return body["error"]


TO_CLASSIFY: dict[str, Any] = {"model": "classify", "takes_ids": False}
BY_MODEL: dict[str, Any] = {"never_cut": {"truncate": False}}
WAYS = {
    "tei": Way(path="/embed", wrong=("translate", 424), dimensions="dimensions", **BY_MODEL),
    "main": Way(path="/", dimensions="dimensions", **BY_MODEL),
    "sagemaker": Way(path="/invocations", dimensions="dimensions", **BY_MODEL),
    "vertex": Way(path="/vertex", dimensions="dimensions", **BY_MODEL),
    "hf": Way(path="/feature-extraction", wrong=("translate", 424), dimensions="dimensions", **BY_MODEL),
    "hf labels": Way(path="/text-classification", wrong=("fill", 424), **TO_CLASSIFY),
    "openai": Way(
        path="/v1/embeddings",
        field="input",
        keys=ONE,
        wrong=("translate", 400),
        dimensions="dimensions",
    ),
    "cohere": Way(
        path="/v2/embed",
        field="texts",
        keys=COHERE,
        wrong=("translate", 400),
        never_cut={"truncate": "NONE"},
        dimensions="output_dimension",
        takes_ids=False,
    ),
    "infinity": Way(path="/classify", field="input", keys=COHERE, wrong=("fill", 400), **TO_CLASSIFY),
    "native": Way(
        path="/tasks/embed",
        keys=NATIVE,
        wrong=("translate", 400),
        never_cut={"on_long": "error"},
        takes_ids=False,
    ),
    "native labels": Way(
        path="/tasks/classify",
        keys=NATIVE,
        wrong=("fill", 400),
        never_cut={"on_long": "error"},
        **TO_CLASSIFY,
    ),
    "kserve": Way(path="/v2/models/fill/infer", keys=ONE, takes_ids=False),
}
TEXT, LONG = "a [MASK]", "a b c [MASK] d e f g h i j k"
GROUPS = ("embed_group", "task_group", "fill_group")

each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def put_instead(front: Front, way: Way, group: Any) -> None:
    """Let something else than the model compute from now on."""
    assert front.service
    for name in GROUPS:
        front.service.models[way.model].__dict__[name] = group


def test_a_refusal_before_the_route_is_known_has_the_form_of_the_route() -> None:
    problem = Problem(401, "Unauthorized", "no")
    for route in all_routes():
        for path in (route.path, f"/models/fill{route.path}"):
            assert dialect_of(path).error(problem, "id") == route.dialect.error(problem, "id"), path


@each_way
def test_what_the_table_refuses_before_a_model_runs(way: Way, folders: dict[str, str]) -> None:
    with served(folders, way.model, keys="bob secret-of-bob", max_body_bytes=300, max_texts=2) as front:
        client = Client(front, {"authorization": "Bearer secret-of-bob"})
        good = way.body([TEXT])
        assert client.post(way.path, good).status == 200
        found = {
            400: client.post(way.path, b"{"),
            401: Client(front).post(way.path, good),
            404: client.post(
                way.path.replace("/fill/", "/nope/")
                if way.path[:3] == "/v2" and way.keys is ONE
                else f"/models/nope{way.path}",
                good,
            ),
            405: client.send("PUT", way.path, good),
            413: client.post(way.path, way.body(["a" * 400])),
            415: client.post(way.path, good, content_type="text/plain"),
            422: client.post(way.path, way.body([TEXT] * 3)),
        }
        front.state = "draining"
        found[503] = client.post(way.path, good)
    assert [one.status for one in found.values()] == list(found)
    messages = {status: way.message(one) for status, one in found.items()}
    assert "3 texts; expected at most 2" in messages[422]
    assert "at most 300 bytes" in messages[413]
    assert found[401].headers["www-authenticate"] == "Bearer"
    assert "POST" in found[405].headers["allow"]
    assert int(found[503].headers["retry-after"]) >= 1
    assert all(one.headers["x-request-id"] for one in found.values())


@each_way
def test_a_server_that_loads_says_when_to_come_back(way: Way, folders: dict[str, str]) -> None:
    front = Front({way.model: folders[way.model]})
    refused = Client(front).post(way.path, way.body([TEXT]))
    assert (refused.status, int(refused.headers["retry-after"]) >= 1) == (503, True)
    assert "loading" in way.message(refused)


@each_way
def test_what_the_model_cannot_do_names_the_right_route(way: Way, client: Client) -> None:
    if way.wrong is None:
        pytest.skip("the model decides what it is asked")
    other, status = way.wrong
    refused = client.post(f"/models/{other}{way.path}", way.body([TEXT]))
    assert refused.status == status
    assert ("/translate" if other == "translate" else "/fill") in way.message(refused)


@each_way
def test_a_text_that_is_too_long_is_named_with_the_limit(
    way: Way, client: Client, folders: dict[str, str]
) -> None:
    texts, where = [TEXT, "a " * 50 + TEXT], f"$.{way.field}[1]"
    if way.never_cut:
        refused = client.post(f"/models/{way.model}{way.path}", way.body(texts, **way.never_cut))
        assert refused.status == 422
        assert where in way.message(refused)
        assert "the 40 tokens" in way.message(refused)
    with served(folders, way.model, on_long="error") as front:
        refused = Client(front).post(way.path, way.body(texts))
    assert refused.status == 422
    assert where in way.message(refused)
    assert "the 40 tokens" in way.message(refused)


@each_way
def test_ids_and_widths_outside_the_model_are_named_with_the_limit(way: Way, client: Client) -> None:
    path = f"/models/{way.model}{way.path}" if way.keys is not ONE or way.field == "input" else way.path
    unknown = client.post(path, way.body([[5, 60]]))
    assert unknown.status == 422
    if way.takes_ids:
        assert "id 60 is not in the vocabulary of 60 pieces" in way.message(unknown)
    for width in (0, 33) if way.dimensions else ():
        refused = client.post(path, way.body([TEXT], **{way.dimensions or "": width}))
        assert refused.status == 422
        assert f"$.{way.dimensions}: {width}; expected 1 to 32" in way.message(refused)


@each_way
def test_overload_and_a_deadline_tell_clients_what_to_do(way: Way, folders: dict[str, str]) -> None:
    with served(folders, way.model, max_wait=2.0) as front:
        assert front.service
        held = Held()
        put_instead(front, way, held)
        client, body = Client(front), way.body([TEXT])
        late = client.post(way.path, body, x_request_timeout_ms="50")
        assert (late.status, late.headers["x-should-retry"]) == (504, "false")
        assert "the deadline passed" in way.message(late)
        assert "glassbert_deadline_total 1" in front.metrics.render()
        front.service.queue.set_model(way.model, tokens_per_s=1.0, budget=64)

        async def flood() -> Response:
            waiting = asyncio.ensure_future(client.sent("POST", way.path, body, {}))
            while not front.service.queue.state().num_units:
                await asyncio.sleep(0.01)
            refused = await client.sent("POST", way.path, body, {})
            waiting.cancel()
            return refused

        refused = asyncio.run(flood())
        held.may_end.set()
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert refused.headers["retry-after-ms"] == refused.headers["retry-after"] + "000"
    assert "overloaded: the request would wait about" in way.message(refused)
    if way.field == "input" and way.keys is ONE:
        assert refused.json()["error"]["type"] == "rate_limit_error"


class FailsOnLong:
    """A model that fails on every sequence of more than ten tokens."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def run(self, payloads: Any) -> Any:
        if any(len(one.ids) > 10 for one in payloads):
            raise RuntimeError("secret text")
        return self.model.run(payloads)


@each_way
def test_a_text_on_which_the_model_fails_is_424_with_its_place_and_no_reason(
    way: Way, folders: dict[str, str]
) -> None:
    server = served(folders, way.model)
    with server as front:
        assert front.service
        model = front.service.models[way.model]
        for name in GROUPS if model.task else ("embed_group", "fill_group"):
            if name != "fill_group" or "fill" in model.tasks:
                model.__dict__[name] = FailsOnLong(getattr(model, name))
        failed = Client(front).post(way.path, way.body([TEXT, LONG]))
        assert failed.status == 424
        field = "inputs" if way.path == "/vertex" else way.field
        assert way.message(failed) == f"$.{field}[1]: the model has no answer for this text"
        assert Client(front).post(way.path, way.body([TEXT])).status == 200
    assert "secret" not in server.lines.getvalue()


@each_way
def test_a_dead_thread_is_503_for_its_requests_and_the_next_is_answered(
    way: Way, folders: dict[str, str]
) -> None:
    with served(folders, way.model) as front:
        assert front.service
        put_instead(front, way, Deadly())
        client = Client(front)
        dead = client.post(way.path, way.body([TEXT]))
        assert dead.status == 503
        assert int(dead.headers["retry-after"]) >= 1
        assert "try again" in way.message(dead)
        for name in GROUPS:
            del front.service.models[way.model].__dict__[name]
        assert client.post(way.path, way.body([TEXT])).status == 200
        assert "glassbert_worker_restarts_total 1" in front.metrics.render()

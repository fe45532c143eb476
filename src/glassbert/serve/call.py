"""A request as handlers see it: which model is asked, what can be asked, and how answers are made."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from glassbert.inference.decode import DecodeSettings
from glassbert.serve.answer import Answer, Asker
from glassbert.serve.http.body import Receive
from glassbert.serve.http.log import Record
from glassbert.serve.http.problems import Dialect, Problem, empty
from glassbert.serve.questions import (
    EmbedQuestion,
    FillQuestion,
    Ids,
    Question,
    TaskQuestion,
    TranslateQuestion,
)
from glassbert.serve.rows import AnyRow, Row
from glassbert.serve.served import Served
from glassbert.serve.service import Service, num_characters
from glassbert.serve.settings import OnLong

ROUTES_OF_TASKS = {
    "embed": "/embed",
    "classify": "/predict",
    "pair": "/predict",
    "tag": "/tag",
    "answer": "/answer",
    "fill": "/fill",
    "translate": "/translate",
}


@dataclass(frozen=True)
class Reply:
    """An answer, ready to be sent."""

    content: bytes | AsyncIterator[bytes]
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(value: Any) -> Reply:
    """Return a value as JSON; numpy arrays are lists."""
    return Reply(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS))


@dataclass
class Call:
    """One request to one model."""

    service: Service
    served: Served
    dialect: Dialect
    record: Record
    headers: Mapping[str, str]
    receive: Receive
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the path."""
    task: str = ""
    """What was asked, once that is known."""

    def choose(self, model: str | None) -> None:
        """Ask the model that a body names; with one model, any name means that one."""
        models = self.service.models
        if "model" in self.parameters or model is None or len(models) == 1:
            return
        self.served = find_model(self.service, model)
        self.record.model = self.served.name

    async def embed(
        self,
        items: Sequence[str | Ids],
        *,
        on_long: OnLong | None = None,
        field: str = "inputs",
        **options: Any,
    ) -> list[AnyRow]:
        """Return the vector of each item, or the vectors of its tokens; see `embed_question`."""
        question = self.embed_question(on_long, field=field, **options)
        return await self.rows("embed", question, items, field)

    def embed_question(self, on_long: OnLong | None, **options: Any) -> EmbedQuestion:
        """Return the question for vectors; ``options`` are those of `EmbedQuestion`."""
        self.need("embed")
        return EmbedQuestion(self.served, self.service.settings, on_long, **options)

    async def predict(
        self, task: str, items: Sequence[Any], *, on_long: OnLong | None = None, field: str = "inputs"
    ) -> list[AnyRow]:
        """Return the prediction of a fine-tuned task for each item."""
        return await self.rows(task, self.task_question(task, on_long, field), items, field)

    def task_question(self, task: str, on_long: OnLong | None, field: str = "inputs") -> TaskQuestion:
        self.need(task)
        return TaskQuestion(self.served, self.service.settings, on_long, field=field)

    def fill_question(self, top: int, targets: Sequence[str] = (), field: str = "inputs") -> FillQuestion:
        self.need("fill")
        return FillQuestion(self.served, self.service.settings, top=top, targets=targets, field=field)

    def translate_question(self, field: str = "inputs", **changes: Any) -> TranslateQuestion:
        self.need("translate")
        decode: DecodeSettings = self.served.translator.usual_settings(**changes)
        return TranslateQuestion(self.served, self.service.settings, decode, field=field)

    def need(self, *tasks: str) -> None:
        """Refuse a request for something that the model cannot do."""
        if not set(tasks) & set(self.served.tasks):
            main = self.served.tasks[0]
            message = (
                f"the model {self.served.name!r} does {', '.join(self.served.tasks)}, not {tasks[0]}; "
                f"ask it at {ROUTES_OF_TASKS.get(main, '/tasks/' + main)}"
            )
            raise Problem(self.dialect.wrong_task_status, "Backend", message, code="wrong_task")

    async def rows(
        self, task: str, question: Question, items: Sequence[Any], field: str = "inputs"
    ) -> list[AnyRow]:
        """Return the rows of all items."""
        answer = await self.ask(task, question, items, field)
        rows = await answer.rows(field)
        self.note(answer, rows)
        return rows

    async def ask(
        self, task: str, question: Question, items: Sequence[Any], field: str, *, should_stream: bool = False
    ) -> Answer:
        """Send items to the queue."""
        self.task = task
        check_items(items, self.service.settings.max_texts, field)
        self.record.numbers["texts"] = len(items)
        self.record.numbers["characters"] = sum(map(num_characters, items))
        self.service.metrics.requests.add(method=self.method)
        self.service.metrics.count_texts(task, len(items))
        asker = Asker(self.record.client or self.record.peer, self.receive, patience(self.headers))
        return await self.service.ask(self.served, question, items, asker, should_stream=should_stream)

    @property
    def method(self) -> str:
        """The word of text-embeddings-inference for the size of a request."""
        return "single" if self.record.numbers.get("texts", 1) == 1 else "batch"

    def note(self, answer: Answer, rows: Sequence[AnyRow]) -> None:
        """Count what was read and how long it took, for headers, log and metrics."""
        numbers, metrics = self.record.numbers, self.service.metrics
        numbers["tokens"] = sum(row.tokens for row in rows)
        numbers["truncated"] = sum(row.truncated for row in rows)
        numbers["windows"] = sum(row.windows for row in rows)
        stages = {"_tokenization": answer.tokenise_s, "_queue": answer.queue_s, "_inference": answer.infer_s}
        for name, seconds in zip(("tokenise_ms", "queue_ms", "infer_ms"), stages.values(), strict=True):
            numbers[name] = 1000 * seconds
        metrics.stages(self.task, {"": sum(stages.values()), **stages})
        metrics.count_texts(self.task, len(rows), answered=True)
        metrics.successes.add(method=self.method)
        metrics.truncated.add(numbers["truncated"])
        metrics.windows.add(numbers["windows"])
        for row in rows:
            metrics.lengths.add(row.tokens)

    def counts(self) -> dict[str, str]:
        """Return the headers that every inference answer has; bare lists have no other place for them."""
        numbers = self.record.numbers
        queue, tokenise, infer = (
            round(numbers.get(f"{name}_ms", 0)) for name in ("queue", "tokenise", "infer")
        )
        return {
            "x-compute-type": self.served.loaded.device.type,
            "x-compute-time": str(tokenise + infer),
            "x-total-time": str(tokenise + queue + infer),
            "x-tokenization-time": str(tokenise),
            "x-queue-time": str(queue),
            "x-inference-time": str(infer),
            "x-compute-characters": str(round(numbers.get("characters", 0))),
            "x-compute-tokens": str(round(numbers.get("tokens", 0))),
            "x-truncated": str(round(numbers.get("truncated", 0))),
            "x-windows": str(round(numbers.get("windows", 0))),
        }


def find_model(service: Service, name: str) -> Served:
    """Return a served model by name."""
    if name not in service.models:
        known = ", ".join(service.models)
        raise Problem(
            404, "Validation", f"no such model; served are {known}", "$.model", code="model_not_found"
        )
    return service.models[name]


def check_items(items: Sequence[Any], max_texts: int, field: str) -> None:
    """Refuse no items, too many of them, and empty texts."""
    if not items:
        raise empty(f"$.{field}")
    if len(items) > max_texts:
        message = f"{len(items)} texts; expected at most {max_texts}; send them in several requests"
        raise Problem(422, "Validation", message, f"$.{field}", code="batch_size")
    for index, item in enumerate(items):
        texts = (item,) if isinstance(item, str) else item
        if not texts or any(isinstance(text, str) and not text for text in texts):
            raise empty(f"$.{field}[{index}]")


_PATIENCE_HEADERS = {
    "x-request-timeout-ms": 1e-3,
    "x-envoy-expected-rq-timeout-ms": 1e-3,
    "x-stainless-read-timeout": 1.0,
}


def patience(headers: Mapping[str, str]) -> float | None:
    """Return the seconds after which the client will have left, if it says so."""
    found = []
    for name, unit in _PATIENCE_HEADERS.items():
        try:
            value = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if 0 < value < float("inf"):
            found.append(value)
    return min(found, default=None)


def vectors_of(rows: Sequence[Row[Any]]) -> list[Any]:
    """Return the vectors of rows."""
    return [row.value for row in rows]

"""What the page asks of its model, by address: each question is answered from a query or a body, in one line.

The app runs them in the model's thread.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from glassbert.page.comparison import Comparison
from glassbert.page.decoding import DecodeRequest, decode_for_page
from glassbert.page.pretraining import PretrainRequest, pretrain_for_page
from glassbert.page.run_examples import masked_examples
from glassbert.page.run_folder import MovesRequest, RunFolder, SavedRequest
from glassbert.page.workbench import Workbench
from glassbert.sentence import Language
from glassbert.serve.http.problems import Problem

Query = Mapping[str, str]


class CompareRequest(msgspec.Struct):
    """Two texts, or one text for two models."""

    text: str
    other_text: str
    pair: str | None = None
    other_pair: str | None = None


class GradientsRequest(msgspec.Struct):
    """A text whose loss is to be differentiated."""

    text: str
    pair: str | None = None
    target: Any = None


class PlainRequest(msgspec.Struct):
    """A question without parameters."""


GETS: Mapping[str, Callable[[Workbench, Query], Any]] = {
    "vocabulary": lambda bench, _: bench.vocabulary.to_json(),
    "vocabulary/map": lambda bench, _: bench.vocabulary.map(),
    "vocabulary/near": lambda bench, query: bench.vocabulary.near(whole(query.get("id", ""), "id")),
    "trace/{key}/words": lambda bench, query: bench.bench_of(query["key"]).words(query["key"]),
    "trace/{key}/share": lambda bench, query: bench.bench_of(query["key"]).share(
        query["key"], language_of(query)
    ),
    "trace/{key}/weight": lambda bench, query: bench.weight(query["key"], query.get("name", "")),
    "trace/{key}/slope": lambda bench, query: bench.slope(query["key"], query.get("name", "")),
}
"""Answers are JSON values; bytes are a safetensors file, a str is a page to save."""

POSTS: Mapping[str, tuple[type[Any], Callable[[Workbench, Any], Any]]] = {
    "compare": (
        CompareRequest,
        lambda bench, asked: Comparison(bench, bench.other).compare(
            asked.text, asked.pair, asked.other_text, asked.other_pair
        ),
    ),
    "gradients": (
        GradientsRequest,
        lambda bench, asked: bench.gradients(asked.text, asked.pair, asked.target),
    ),
    "pretrain": (
        PretrainRequest,
        lambda bench, asked: pretrain_for_page(bench.model, bench.source, asked),
    ),
    "data": (PlainRequest, lambda bench, _: bench.rows_of_data()),
    "decode": (DecodeRequest, lambda bench, asked: decode_for_page(bench.model, bench.source, asked)),
}

RUN_POSTS: Mapping[str, tuple[type[Any], Callable[[RunFolder, Any], Any]]] = {
    "run/moves": (MovesRequest, lambda run, asked: run.moves(asked)),
    "run/examples": (SavedRequest, lambda run, asked: masked_examples(run, asked.saved)),
}
"""Questions to the run whose folder is open."""


def whole(text: str, name: str) -> int:
    """Return a whole number of a query."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise Problem(422, "Validation", f"{name}: expected a whole number")
    return int(text)


def language_of(query: Query) -> Language:
    """Return the language that is asked for; English unless it is Chinese."""
    return "zh" if query.get("language") == "zh" else "en"

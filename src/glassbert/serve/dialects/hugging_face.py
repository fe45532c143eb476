"""The shapes of Hugging Face's pipelines, as `InferenceClient` sends and reads them; lists in, lists out."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import UNSET, Meta, Struct, UnsetType, field
from numpy.typing import NDArray

from glassbert.serve.call import Call, Reply, check_items, json_reply
from glassbert.serve.dialects import tei
from glassbert.serve.dialects.answers import own_task, scores_of, sigmoid
from glassbert.serve.dialects.native import searched
from glassbert.serve.dialects.types import Some, Text
from glassbert.serve.http.body import decode
from glassbert.serve.http.problems import HUGGING_FACE, Problem, empty, invalid
from glassbert.serve.questions import Filling, check_candidates
from glassbert.serve.routes import Route
from glassbert.serve.rows import AnyRow
from glassbert.tasks.answer.task import Extract
from glassbert.tasks.tag.predictions import TaggedSpan

Top = Annotated[int, Meta(ge=1, le=1000)]


class Parameters(Struct, forbid_unknown_fields=True):
    """The parameters of a pipeline; those that would have no effect here are refused by name."""


class ClassificationParameters(Parameters):
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None
    top_k: Top | None = None


class ClassificationRequest(Struct):
    inputs: Text | Some[Text]
    parameters: ClassificationParameters = field(default_factory=ClassificationParameters)


class TagParameters(Parameters):
    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] | None = None


class TagRequest(Struct):
    inputs: Text | Some[Text]
    parameters: TagParameters = field(default_factory=TagParameters)


class Asked(Struct):
    question: Text
    context: Text


class AnswerParameters(Parameters):
    top_k: Top | None = None
    handle_impossible_answer: bool | None = None
    max_answer_len: Annotated[int, Meta(ge=1)] | None = None


class AnswerRequest(Struct):
    inputs: Asked | Some[Asked]
    parameters: AnswerParameters = field(default_factory=AnswerParameters)


class FillParameters(Parameters):
    top_k: Top | None = None
    targets: list[str] | None = None


class FillRequest(Struct):
    inputs: Text | Some[Text]
    parameters: FillParameters = field(default_factory=FillParameters)


class Generation(Parameters):
    num_beams: Annotated[int, Meta(ge=1, le=32)] | None = None
    max_new_tokens: Annotated[int, Meta(ge=1)] | None = None


class TranslationParameters(Parameters):
    generate_parameters: Generation | None = None


class TranslationRequest(Struct):
    inputs: Text | Some[Text]
    parameters: TranslationParameters = field(default_factory=TranslationParameters)


class ZeroShotParameters(Parameters):
    candidate_labels: Some[Text]
    multi_label: bool | None = None
    hypothesis_template: str | None = None


class ZeroShotRequest(Struct):
    inputs: Text | Some[Text]
    parameters: ZeroShotParameters


class LabelScore(Struct):
    label: str
    score: float


class Entity(Struct):
    """A span with its group, or, without aggregation, a piece with its tag and its place among the tokens."""

    score: float
    word: str
    start: int
    end: int
    entity_group: str | UnsetType = UNSET
    entity: str | UnsetType = UNSET
    index: int | UnsetType = UNSET


class AnswerSpan(Struct):
    answer: str
    start: int
    end: int
    score: float


class MaskFill(Struct):
    score: float
    token: int
    token_str: str
    sequence: str


class TranslationText(Struct):
    translation_text: str


def _listed(inputs: Any) -> tuple[list[Any], bool]:
    """Return the items of a request, and whether it had a list of them."""
    return (inputs, True) if isinstance(inputs, list) else ([inputs], False)


async def text_classification(call: Call, asked: ClassificationRequest) -> Reply:
    items, _ = _listed(asked.inputs)
    call.need("classify")
    rows = await call.predict("classify", items)
    wanted = asked.parameters.function_to_apply
    found = [_scores(call, row, wanted)[: asked.parameters.top_k or 1] for row in rows]
    return json_reply(found)  # also for one text: the client takes the first


def _scores(call: Call, row: AnyRow, function: str | None) -> list[dict[str, Any]]:
    if function is None:
        return scores_of(call, row)
    assert row.logits is not None
    scores = {"none": lambda x: x, "sigmoid": sigmoid, "softmax": softmax}[function](row.logits)
    order = np.argsort(-scores, kind="stable")
    return [{"label": call.served.labels[index], "score": float(scores[index])} for index in order]


def softmax(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return exp(x) / sum(exp(x)) over the last axis."""
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


async def token_classification(call: Call, asked: TagRequest) -> Reply:
    parameters = asked.parameters
    items, is_list = _listed(asked.inputs)
    rows = await call.predict("tag", items)
    if parameters.aggregation_strategy == "none":
        found = await call.service.in_slices(
            lambda some, first: [
                _tagged_pieces(call, text, rows[index]) for index, text in enumerate(some, first)
            ],
            items,
        )
        ignored = {"O"} if parameters.ignore_labels is None else set(parameters.ignore_labels)
        found = [[one for one in pieces if one["entity"] not in ignored] for pieces in found]
    else:
        found = [_spans(row.value.spans, set(parameters.ignore_labels or ())) for row in rows]
    return json_reply(found if is_list else found[0])


def _spans(spans: Sequence[TaggedSpan], ignored: set[str]) -> list[dict[str, Any]]:
    return [
        {
            "entity_group": span.label,
            "score": span.score,
            "word": span.text,
            "start": span.start,
            "end": span.end,
        }
        for span in spans
        if span.label not in ignored
    ]


def _tagged_pieces(call: Call, text: str, row: AnyRow) -> list[dict[str, Any]]:
    """Return the likeliest tag of each piece, regardless of its neighbours."""
    assert row.logits is not None
    tokenizer = call.served.model.tokenizer
    pieces, scores = tokenizer.pieces_of(text), softmax(row.logits)
    return [
        {
            "entity": call.served.labels[best],
            "score": float(of_tags[best]),
            "index": number,  # among the tokens, of which [CLS] is the first
            "word": tokenizer.vocabulary.pieces[id_],
            "start": start,
            "end": end,
        }
        for number, (id_, (start, end), of_tags, best) in enumerate(
            zip(pieces.ids, pieces.offsets, scores, scores.argmax(axis=-1), strict=True), start=1
        )
    ]


async def question_answering(call: Call, asked: AnswerRequest) -> Reply:
    items, is_list = _listed(asked.inputs)
    parameters = asked.parameters
    check_candidates(len(items) * (parameters.top_k or 1), "$.parameters.top_k")
    question = call.task_question("answer", None)
    assert isinstance(question.task, Extract)
    question.task = question.task.searching(num_best=parameters.top_k, max_pieces=parameters.max_answer_len)
    rows = await call.rows("answer", question, [(item.question, item.context) for item in items])
    found = [_answers(row.value, parameters) for row in rows]
    return json_reply(found if is_list else found[0])


def _answers(prediction: Any, parameters: AnswerParameters) -> Any:
    """Return the best answer, or the best few; none is an empty text at 0, and only if that is allowed."""
    names = ("answer", "start", "end", "score")
    listed = [{name: getattr(one, name) for name in names} for one in prediction.n_best]
    if not prediction.answer and (parameters.handle_impossible_answer or not listed):
        listed.insert(0, {"answer": "", "start": 0, "end": 0, "score": prediction.score})
    number = parameters.top_k or 1
    return listed[0] if number == 1 else listed[:number]


async def fill_mask(call: Call, asked: FillRequest) -> Reply:
    items, is_list = _listed(asked.inputs)
    top = asked.parameters.top_k or 5
    rows = await call.rows("fill", call.fill_question(top, asked.parameters.targets or ()), items)
    found = await call.service.in_slices(
        lambda some, first: [_fillings(call, rows[first + number].value) for number in range(len(some))],
        items,
    )
    return json_reply(found if is_list else found[0])


def _fillings(call: Call, filling: Filling) -> list[Any]:
    """Return the candidates for the mask of a text, or a list of them for each of its masks."""
    tokenizer, masks = call.served.model.tokenizer, []
    for place, ids, candidates in zip(filling.places, filling.candidate_ids, filling.candidates, strict=True):
        whole = [[*filling.ids[:place], id_, *filling.ids[place + 1 :]] for id_ in ids]
        # With several masks the others stay visible.
        skip = len(filling.places) == 1
        masks.append(
            [
                {
                    "score": one.score,
                    "token": id_,
                    "token_str": one.token,
                    "sequence": tokenizer.decode(with_one, skip_specials=skip),
                }
                for one, id_, with_one in zip(candidates, ids, whole, strict=True)
            ]
        )
    return masks[0] if len(masks) == 1 else masks


async def translation(call: Call, asked: TranslationRequest) -> Reply:
    items, _ = _listed(asked.inputs)
    generation = asked.parameters.generate_parameters or Generation()
    wished: dict[str, Any] = {"beam_size": generation.num_beams, "max_length": generation.max_new_tokens}
    question = searched(call, **{name: value for name, value in wished.items() if value is not None})
    rows = await call.rows("translate", question, items)
    return json_reply([{"translation_text": row.value.text} for row in rows])


async def zero_shot_classification(call: Call, asked: ZeroShotRequest) -> Reply:
    parameters, labels = asked.parameters, asked.parameters.candidate_labels
    items, is_list = _listed(asked.inputs)
    entailment, contradiction = _nli_labels(call)
    if not labels:
        raise empty("$.parameters.candidate_labels")
    check_items(items, call.service.settings.max_texts // len(labels), "inputs")
    template = parameters.hypothesis_template or "This example is {}."
    if "{}" not in template:
        raise invalid("expected {} where the label belongs", "$.parameters.hypothesis_template")
    pairs = [(item, template.replace("{}", label)) for item in items for label in labels]
    rows = await call.predict(own_task(call, "pair"), pairs)
    logits = np.stack([row.logits for row in rows if row.logits is not None])
    logits = logits.reshape(len(items), len(labels), -1)
    if parameters.multi_label:
        scores = softmax(logits[..., [contradiction, entailment]])[..., 1]
    else:
        scores = softmax(logits[..., entailment])
    found = [
        [{"label": labels[best], "score": float(own[best])} for best in np.argsort(-own, kind="stable")]
        for own in scores
    ]
    return json_reply(found if is_list else found[0])


def _nli_labels(call: Call) -> tuple[int, int]:
    """Return the places of entailment and contradiction among the labels of the model."""
    found = {label.lower()[:6]: index for index, label in enumerate(call.served.labels)}
    if "entail" not in found or "pair" not in call.served.tasks:
        message = f"the model {call.served.name!r} is none; zero-shot needs an NLI pair model"
        raise Problem(424, "Backend", message, code="wrong_task")
    return found["entail"], found.get("contra", 0)


Handler = Callable[[Call, Any], Awaitable[Reply]]
PIPELINES: dict[str, tuple[Handler, Any, Any, str]] = {
    "feature-extraction": (tei.embed, tei.EmbedRequest, list[list[float]], "The vector of each text"),
    "sentence-similarity": (tei.similarity, tei.SimilarityRequest, list[float], "Cosines with one sentence"),
    "text-classification": (
        text_classification,
        ClassificationRequest,
        list[list[LabelScore]],
        "The labels of each text",
    ),
    "token-classification": (
        token_classification,
        TagRequest,
        list[Entity | list[Entity]],
        "The labelled spans of a text",
    ),
    "question-answering": (
        question_answering,
        AnswerRequest,
        AnswerSpan | list[Any],
        "The answer to a question",
    ),
    "fill-mask": (fill_mask, FillRequest, list[Any], "The likeliest pieces for a mask"),
    "translation": (translation, TranslationRequest, list[TranslationText], "The translation of each text"),
    "zero-shot-classification": (
        zero_shot_classification,
        ZeroShotRequest,
        list[LabelScore | list[LabelScore]],
        "Labels that the model was never trained on",
    ),
}
PIPELINE_OF_TASK = {
    "embed": "feature-extraction",
    "classify": "text-classification",
    "tag": "token-classification",
    "answer": "question-answering",
    "fill": "fill-mask",
    "translate": "translation",
    "pair": "zero-shot-classification",
}
_decoders = {name: msgspec.json.Decoder(request) for name, (_, request, _, _) in PIPELINES.items()}


async def run_pipeline(call: Call, name: str, body: msgspec.Raw) -> Reply:
    """Answer a body as the pipeline of this name does."""
    return await PIPELINES[name][0](call, decode(bytes(body), _decoders[name]))


ROUTES = [
    Route("POST", prefix + name, HUGGING_FACE, handler, response, request, summary)
    for name, (handler, request, response, summary) in PIPELINES.items()
    for prefix in ("/", "/pipeline/")
]

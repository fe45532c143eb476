"""The shapes of Hugging Face's pipelines, as `InferenceClient` sends and reads them; lists in, lists out."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

from glassbert.serve.call import Call, Reply, json_reply
from glassbert.serve.dialects import tei
from glassbert.serve.dialects.answers import own_task, scores_of, sigmoid
from glassbert.serve.dialects.native import searched
from glassbert.serve.dialects.types import Some, Text
from glassbert.serve.http.body import decode
from glassbert.serve.http.problems import HUGGING_FACE, Problem, empty, invalid
from glassbert.serve.routes import Route
from glassbert.serve.rows import AnyRow

Top = Annotated[int, Meta(ge=1, le=1000)]


class ClassificationParameters(Struct):
    function_to_apply: Literal["sigmoid", "softmax", "none"] | None = None
    top_k: Top | None = None


class ClassificationRequest(Struct):
    inputs: Text | Some[Text]
    parameters: ClassificationParameters = field(default_factory=ClassificationParameters)


class TagParameters(Struct):
    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = None
    ignore_labels: list[str] | None = None


class TagRequest(Struct):
    inputs: Text | Some[Text]
    parameters: TagParameters = field(default_factory=TagParameters)


class Asked(Struct):
    question: Text
    context: Text


class AnswerParameters(Struct):
    top_k: Top | None = None
    handle_impossible_answer: bool | None = None


class AnswerRequest(Struct):
    inputs: Asked | Some[Asked]
    parameters: AnswerParameters = field(default_factory=AnswerParameters)


class FillParameters(Struct):
    top_k: Top | None = None
    targets: list[str] | None = None


class FillRequest(Struct):
    inputs: Text | Some[Text]
    parameters: FillParameters = field(default_factory=FillParameters)


class Generation(Struct):
    num_beams: Annotated[int, Meta(ge=1, le=32)] | None = None
    max_new_tokens: Annotated[int, Meta(ge=1)] | None = None


class TranslationParameters(Struct):
    src_lang: str | None = None
    tgt_lang: str | None = None
    generate_parameters: Generation | None = None


class TranslationRequest(Struct):
    inputs: Text | Some[Text]
    parameters: TranslationParameters = field(default_factory=TranslationParameters)


class ZeroShotParameters(Struct):
    candidate_labels: Some[Text]
    multi_label: bool | None = None
    hypothesis_template: str | None = None


class ZeroShotRequest(Struct):
    inputs: Text
    parameters: ZeroShotParameters


class LabelScore(Struct):
    label: str
    score: float


class Entity(Struct):
    entity_group: str
    score: float
    word: str
    start: int
    end: int


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
    if asked.parameters.aggregation_strategy == "none":
        raise invalid("spans are found as wholes; leave it out", "$.parameters.aggregation_strategy")
    items, is_list = _listed(asked.inputs)
    rows = await call.predict("tag", items)
    ignored = set(asked.parameters.ignore_labels or ())
    found = [
        [
            {
                "entity_group": span.label,
                "score": span.score,
                "word": span.text,
                "start": span.start,
                "end": span.end,
            }
            for span in row.value.spans
            if span.label not in ignored
        ]
        for row in rows
    ]
    return json_reply(found if is_list else found[0])


async def question_answering(call: Call, asked: AnswerRequest) -> Reply:
    items, is_list = _listed(asked.inputs)
    rows = await call.predict("answer", [(item.question, item.context) for item in items])
    found = [_answers(row.value, asked.parameters) for row in rows]
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
    tokenizer = call.served.model.tokenizer

    def shaped() -> list[Any]:
        found = []
        for row in rows:
            masks = []
            for place, ids, candidates in zip(
                row.value.places, row.value.candidate_ids, row.value.candidates, strict=True
            ):
                whole = [[*row.value.ids[:place], id_, *row.value.ids[place + 1 :]] for id_ in ids]
                # With several masks the others stay visible.
                skip = len(row.value.places) == 1
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
            found.append(masks[0] if len(masks) == 1 else masks)
        return found

    found = await call.service.on_tokeniser(shaped)
    return json_reply(found if is_list else found[0])


async def translation(call: Call, asked: TranslationRequest) -> Reply:
    items, _ = _listed(asked.inputs)
    generation = asked.parameters.generate_parameters or Generation()
    wished: dict[str, Any] = {"beam_size": generation.num_beams, "max_length": generation.max_new_tokens}
    question = searched(call, **{name: value for name, value in wished.items() if value is not None})
    rows = await call.rows("translate", question, items)
    return json_reply([{"translation_text": row.value.text} for row in rows])


async def zero_shot_classification(call: Call, asked: ZeroShotRequest) -> Reply:
    parameters = asked.parameters
    labels = {label.lower(): index for index, label in enumerate(call.served.labels)}
    entailment = next((index for label, index in labels.items() if label.startswith("entail")), None)
    if entailment is None or "pair" not in call.served.tasks:
        message = f"the model {call.served.name!r} is none; zero-shot needs an NLI pair model"
        raise Problem(424, "Backend", message, code="wrong_task")
    if not parameters.candidate_labels:
        raise empty("$.parameters.candidate_labels")
    template = parameters.hypothesis_template or "This example is {}."
    if "{}" not in template:
        raise invalid("expected {} where the label belongs", "$.parameters.hypothesis_template")
    pairs = [(asked.inputs, template.replace("{}", label)) for label in parameters.candidate_labels]
    rows = await call.predict(own_task(call, "pair"), pairs)
    logits = np.stack([row.logits for row in rows if row.logits is not None])
    if parameters.multi_label:
        against = next((index for label, index in labels.items() if label.startswith("contra")), 0)
        scores = softmax(logits[:, [against, entailment]])[:, 1]
    else:
        scores = softmax(logits[:, entailment])
    order = np.argsort(-scores, kind="stable")
    return json_reply([{"label": parameters.candidate_labels[i], "score": float(scores[i])} for i in order])


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
        list[LabelScore],
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

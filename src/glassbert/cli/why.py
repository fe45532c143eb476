"""`why`: what an answer is based on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.output import print_json, print_remarks, remark
from glassbert.errors import GateError, UserError
from glassbert.inference.questions import Baseline, Method, Unit
from glassbert.model_names import model_folder
from glassbert.outputs import HTML, check_files, check_new
from glassbert.ranges import COUNT, STEPS


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class WhyOptions:
    """What is asked, and how; named as the arguments of `Model.why`."""

    method: Method = "gradients"
    """gradients (integrated gradients), occlusion, heads or layers (switched off one by one), rollout (of
    attention), lens (the answer after each layer), tokens (nearest ones), or rows (nearest of --data)."""
    target: str | None = None
    """The answer to explain; the model's own when not given. A label; for tag a part of the text, a label or
    TEXT=LABEL; for answer a part of the context; for [MASK] a piece or N=PIECE."""
    unit: Unit = "token"
    """Judge each token, or whole words."""
    baseline: Baseline = "mask"
    """The text without information: the vector of [MASK] or [PAD], or zeros."""
    steps: Annotated[int | None, Parameter(validator=STEPS)] = None
    """Gradients to take; as many as it needs when not given."""
    segmenter: str | None = None
    """Of Chinese words: rjieba, jieba, or a file with one word a line."""
    data: Path | None = None
    """File of rows, such as the training data, for --method rows."""
    top: Annotated[int, Parameter(validator=COUNT)] = 20
    """How many parts or neighbours to show."""


def why(
    model: str,
    text: str = "",
    /,
    *,
    pair: str | None = None,
    question: str | None = None,
    context: str | None = None,
    options: WhyOptions | None = None,
    html: Path | None = None,
    force: bool = False,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Show why a model gives its answer to a text: which parts of the text, or of the model, it depends on.

    Args:
        model: Model folder, or folder of a run.
        text: The text; for a model that fills words in, with a [MASK]; the context, beside a question.
        pair: The second text, for a model that judges pairs.
        question: The question, for a model that answers them.
        context: The text that holds the answer, instead of TEXT.
        html: Write a page with the text highlighted to this file.
        force: Replace the file of --html if it exists.
        json: Print one object with "target", "score", "parts" and "notes".
    """
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model

    options = options or WhyOptions()
    item = _item(text, pair, question, context)
    if html is not None:
        check_new(html, HTML, overwrite=force)
        named = (options.data, options.segmenter)
        check_files([html], [model_folder(model), *(path for path in named if path is not None)])
    loaded = load(model, Model, **place_of(where))
    print_remarks(loaded)
    found = loaded.why(item, **vars(options))
    if json:
        print_json(found.to_json())
    else:
        from glassbert.glassbox.why.terminal import render

        print(render(found, options.top, has_refusal=False))
    if html is not None:
        found.save_html(html, overwrite=force)
        remark(f"the page is in {html}")
    if found.refusal:
        raise GateError(found.refusal)


def _item(text: str, pair: str | None, question: str | None, context: str | None) -> Any:
    """Return the item as `predict` takes it."""
    if question is not None or context is not None:
        if pair is not None or (text and context is not None):
            raise UserError("a question has one context: TEXT or --context, and no --pair")
        if question is None:
            raise UserError("--context without --question; ask something")
        return {"question": question, "context": text if context is None else context}
    return text if pair is None else (text, pair)

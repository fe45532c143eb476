"""`trace`: every number of one pass, in a file, on a page or on the terminal; where two traces diverge."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.output import print_json, print_lines, remark
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.outputs import HTML, check_files, check_new
from glassbert.parsing import FormatError, parse_json
from glassbert.ranges import COUNT
from glassbert.sentence import Language

if TYPE_CHECKING:
    from glassbert.glassbox.trace.trace import Trace

app = App(name="trace", help="Record every number of one pass through a model; compare two such traces.")


@app.default
def trace(
    model: str,
    text: str,
    /,
    *,
    pair: str | None = None,
    target: str | None = None,
    grad: bool = False,
    out: Path | None = None,
    html: Path | None = None,
    names: list[str] | None = None,
    layers: list[int] | None = None,
    lang: Language = "en",
    force: bool = False,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Record every number of one pass: embeddings, every head of every block, heads, loss, gradients.

    Args:
        model: Model folder.
        text: Text to trace; the question of a model that answers; the source of a translator.
        pair: Second text; the context of a question.
        target: What is right: a label, the true text behind [MASK], IsNext or NotNext, an answer, a
            translation; several labels or spans as JSON; or a number by its place, such as
            "head.labels.logits[0, good]". The model's own prediction if not given.
        grad: Also record the gradient of the loss, or of the number, at every name and of every weight.
        out: File to write, ending in .safetensors; its JSON is written beside it.
        html: Page to write, at most 5 MB.
        names: Keep only tensors that fit this pattern, such as "enc.*.attn.probs"; may be repeated.
        layers: Keep only this block, and what is outside of blocks; may be repeated.
        lang: Language of the page.
        force: Replace files that exist.
        json: Print tokens, config, model and graph as JSON; without it, the files that were written, or the
            steps if there are none.
    """
    from glassbert.glassbox.trace.api import trace as record
    from glassbert.inference.loading import load

    _check_new(model, out, html, force)
    found = record(
        load(model, **place_of(where)),
        text,
        pair,
        target=_target(target),
        grad=grad,
        names=names or (),
        layers=layers,
        out=out,
        overwrite=force,
        log=remark,
    )
    if html is not None:
        found.to_html(html, language=lang, overwrite=force)
    _print(found, [path for path in (out, html) if path], json)


@app.command
def diff(
    first: Path, second: Path, /, *, top: Annotated[int, Parameter(validator=COUNT)] = 12, json: bool = False
) -> None:
    """Show where two saved traces diverge: of two texts, of two models, or of two moments of a training.

    Args:
        first: File that `trace --out` wrote.
        second: Another one.
        top: How many names to show, those that are furthest apart first.
        json: Print {"first", "ranked", "only_first", "only_second"}, all names included.
    """
    from glassbert.glassbox.trace.trace import Trace

    found = Trace.load(first).diff(Trace.load(second))
    if json:
        print_json(found.to_json())
        return
    print_lines(found.lines(top))


def _check_new(model: str, out: Path | None, html: Path | None, force: bool) -> None:
    """Refuse files that exist, or belong to the model, before anything large is read."""
    from glassbert.glassbox.trace.trace import checked_path, json_beside

    written = [] if html is None else [html]
    if out is not None:
        checked_path(out, overwrite=force)
        written += [out, json_beside(out)]
    if html is not None:
        check_new(html, HTML, overwrite=force)
    check_files(written, [model_folder(model)])


def _print(found: "Trace", written: list[Path], json: bool) -> None:
    if found.info.truncated:
        remark(f"the text was longer than the model reads; its first {len(found.tokens)} tokens were traced")
    if json:
        print_json(found.to_json())
        return
    print_lines(written or _lines(found))


def _target(written: str | None) -> Any:
    """Return a target; lists and objects are written as JSON."""
    if written is None or not written.lstrip().startswith(("{", "[{", '["')):
        return written
    try:
        return parse_json(written)
    except FormatError as error:
        raise UserError(f"--target looks like JSON but is not: {error}") from None


def _lines(found: "Trace") -> Iterator[str]:
    """Yield one line for each step: name, shape, mean, deviation, formula."""
    width = max(len(name) for name in found.names())
    steps = {step.name: step for step in found.graph}
    for name in found.names():
        values = found[name]
        finite = values[abs(values) < float("inf")]
        numbers = "" if values.dtype.kind == "i" else f"{finite.mean():10.4g} {finite.std():10.4g}"
        shape = " x ".join(map(str, values.shape)) or "1"
        step = steps.get(name)
        yield f"{name:{width}}  {shape:18} {numbers:21}  {step.formula if step else ''}".rstrip()

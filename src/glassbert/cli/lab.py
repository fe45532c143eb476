"""`lab`: experiments, and arithmetic by hand."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassbert.cli.output import print_json, remark
from glassbert.errors import UserError
from glassbert.glassbox.lab.catalogue import CATALOGUE, experiments
from glassbert.model_names import model_folder
from glassbert.outputs import HTML, JSON, SVG, check_files, check_new
from glassbert.sentence import Language

if TYPE_CHECKING:
    from glassbert.glassbox.lab.result import Result


def lab(
    name: str | None = None,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter(name="--set")] = None,
    large: bool = False,
    saved: bool = False,
    claims: bool = False,
    html: Path | None = None,
    plot: Path | None = None,
    out: Path | None = None,
    force: bool = False,
    lang: Language = "en",
    json: bool = False,
) -> None:
    """Run an experiment, or list them.

    Experiments run on the CPU. Numbers of a model, and arithmetic by hand, are computed in float64; what is
    trained or timed, in float32.

    Args:
        name: The experiment; without it, all are listed.
        set_: Change a setting, such as num_seeds=3 or model=FOLDER; may be given several times.
        large: Run the large form: minutes instead of seconds, and narrower intervals.
        saved: Show the result that comes with the package instead of running anything.
        claims: List the claims about BERT and the Transformer, and what the saved results show.
        html: Write the result as one page to this file.
        plot: Write its plots as SVG to this file.
        out: Write the result as JSON to this file.
        force: Replace files that exist.
        lang: Language of the texts.
        json: Print the result as JSON.
    """
    if name is None:
        _list(claims=claims, language=lang, as_json=json)
        return
    settings = _settings(name, set_ or [])
    for path, kind in ((html, HTML), (plot, SVG), (out, JSON)):
        if path is not None:
            check_new(path, kind, overwrite=force)
    reads = [model_folder(settings["model"])] if isinstance(settings.get("model"), str) else []
    check_files((path for path in (html, plot, out) if path is not None), reads)
    result = _result(name, settings, is_large=large, is_saved=saved)
    if plot is not None and not result.plots:
        raise UserError(f"{name} has no plot; leave out --plot")
    for path, text in ((html, result.html), (plot, result.svg)):
        if path is not None:
            _write(path, text(lang))
    if out is not None:
        result.save(out, overwrite=force)
    if json:
        print_json(result.to_json())
    else:
        print(result.text(lang))


def _settings(name: str, changes: list[str]) -> dict[str, Any]:
    """Return the settings of an experiment that --set changes."""
    from glassbert.glassbox.lab.experiment import find
    from glassbert.runs.recipe import changed

    find(name)
    for change in changes:
        if "=" not in change:
            raise UserError(f"--set {change}: expected key=value, such as num_seeds=3")
    tables: dict[str, dict[str, Any]] = changed({}, [f"{name}.{change}" for change in changes])
    return tables.get(name, {})


def _result(name: str, settings: dict[str, Any], *, is_large: bool, is_saved: bool) -> "Result":
    from glassbert.glassbox.lab.experiment import lab, saved_result

    if is_saved:
        if settings or is_large:
            raise UserError("--saved shows a result as it was run; leave out --set and --large")
        return saved_result(name)
    return lab(name, **{"size": "large" if is_large else "small", **settings})


def _list(*, claims: bool, language: Language, as_json: bool) -> None:
    if claims:
        from glassbert.glassbox.lab.claims import claims_as_text, saved_claims

        found = saved_claims()
        print_json([one.to_json() for one in found]) if as_json else print(claims_as_text(found, language))
        return
    if as_json:
        questions = {name: vars(entry.question) for name, entry in CATALOGUE.items()}
        print_json([{"name": name, "question": question} for name, question in questions.items()])
        return
    width = max(map(len, CATALOGUE))
    for name, question in experiments(language).items():
        print(f"{name:<{width}}  {question}")


def _write(path: Path, text: str) -> None:
    from glassbert.storage import write_atomically

    write_atomically(path, text.encode("utf-8"))
    remark(f"written: {path}")

"""The report as one page of HTML: no scripts, nothing loaded from elsewhere, light and dark."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import mean, stdev

from glassbert.arguments import checked
from glassbert.evaluation.result import Evaluation, TrainingCurve
from glassbert.evaluation.training_history import with_training_history
from glassbert.metrics.baselines import Baselines
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.comparison import Comparison
from glassbert.metrics.thresholds import Acceptance, ThresholdCurve
from glassbert.outputs import HTML, check_files, check_ours
from glassbert.reports.html import columns, definitions, document, figure, section, table
from glassbert.reports.markup import Markup, tag
from glassbert.reports.mistakes import mistakes_section
from glassbert.reports.plots import Series, lines, reliability
from glassbert.reports.task_sections import task_sections
from glassbert.reports.wording import counts_in_words, headline, meaning, number, title
from glassbert.storage import write_atomically

MAX_LINES = 6
COVERAGES = (0.5, 0.75, 0.9, 0.95, 1.0)


@checked
def write_report(path: str | Path, evaluation: Evaluation, *, run: str | Path | None = None) -> None:
    """Write an evaluation as one HTML file, with plots and the worst mistakes.

    Args:
        run: Folder of the run that trained the model; its curves, and the results of its seeds, are shown.
    """
    path = Path(path)
    check_report_file(path)
    if run is not None:
        evaluation = with_training_history(evaluation, Path(run))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(evaluation).encode("utf-8"))


def check_report_file(path: str | Path, reads: Iterable[str | Path] = ()) -> None:
    """Refuse a report that would replace what is read, or a file that is not one of our pages."""
    check_files([path], reads)
    check_ours(path, HTML, overwrite=True)


def page(evaluation: Evaluation) -> str:
    """Return the page as HTML."""
    name = f"{evaluation.task}: {evaluation.model} on {evaluation.data}"
    return document(name, _header(evaluation), _sections(evaluation))


def _header(evaluation: Evaluation) -> Markup:
    metrics = evaluation.metrics
    names = headline(evaluation.report)
    tiles = [
        tag("div", tag("dt", title(name)), tag("dd", number(metrics[name])), class_="tile")
        for name in names
        if name in metrics
    ]
    about = [
        ("model", evaluation.model),
        ("data", evaluation.data),
        ("examples", f"{evaluation.examples:,}"),
    ]
    return tag(
        "header",
        tag("h1", f"Evaluation: {evaluation.task}"),
        definitions(about),
        tag("dl", *tiles, class_="tiles"),
    )


def _sections(evaluation: Evaluation) -> Iterator[Markup]:
    alarms = [f"The predictions are degenerate: {evaluation.alarm}."] if evaluation.alarm else []
    notes = [*alarms, *evaluation.notes]
    if notes:
        yield section("Notes", tag("ul", *(tag("li", note) for note in notes)))
    yield _metrics(evaluation)
    if evaluation.baselines:
        yield _worth(evaluation.baselines)
    if evaluation.comparison:
        yield _student(evaluation.comparison)
    yield from task_sections(evaluation.report)
    if evaluation.calibration:
        yield _calibration(evaluation.calibration)
    if evaluation.acceptance:
        if evaluation.acceptance.curve:
            yield _abstaining(evaluation.acceptance.curve)
        yield _thresholds(evaluation.acceptance)
    if evaluation.mistakes:
        yield mistakes_section(evaluation.mistakes)
    if evaluation.curves:
        yield _training(evaluation)
    if evaluation.seeds:
        yield _seeds(evaluation)
    about = [*counts_in_words(evaluation), *evaluation.settings.items()]
    if about:
        yield section("About this evaluation", definitions((title(name), text) for name, text in about))


def _metrics(evaluation: Evaluation) -> Markup:
    exact = evaluation.float32
    rows = [
        (
            name,
            f"{value:.4f}",
            *([] if exact is None else [f"{exact[name]:.4f}"]),
            meaning(name, evaluation.report),
        )
        for name, value in evaluation.metrics.items()
    ]
    values = ("value",) if exact is None else ("int8", "float32")
    return section("Metrics", table("Metrics", ("metric", *values, "meaning"), rows, texts=["meaning"]))


def _worth(baselines: Baselines) -> Markup:
    rows = [(title(name), number(value)) for name, value in baselines.scores.items()]
    rows.append(("this model", number(baselines.model)))
    intro = (
        f"Simple methods that learned from the same rows, measured on {baselines.rows:,} dev rows. "
        f"The model is {baselines.verdict}."
        if baselines.verdict != "no clear gain"
        else f"Simple methods on {baselines.rows:,} dev rows. The model's gain is within chance."
    )
    return section("Worth its cost?", table("Baselines", ("method", baselines.metric), rows), intro=intro)


def _student(comparison: Comparison) -> Markup:
    intro = "The model, which is the student, beside the teacher that it learned from, on the same data."
    names = ("", "teacher", "student", "student and teacher")
    return section("Teacher and student", table("Students", names, comparison.rows()), intro=intro)


def _calibration(calibration: Calibration) -> Markup:
    plots = [
        (
            reliability("reliability", "Reliability", calibration.bins),
            f"At temperature {calibration.temperature:.3f}: calibration error {calibration.ece:.3f}.",
        )
    ]
    if calibration.temperature != 1.0:
        raw = reliability("reliability-raw", "Reliability before scaling", calibration.bins_uncalibrated)
        caption = f"Before temperature scaling: calibration error {calibration.ece_uncalibrated:.3f}."
        plots.append((raw, caption))
    intro = (
        "Of all guesses with a confidence of 0.8, 80% should be right. A bar is the accuracy of the guesses "
        "with that confidence, stronger the more there are; the short line is their mean confidence. Bars of "
        "a well calibrated model end on the diagonal."
    )
    return section("Calibration", columns(*(figure(*one) for one in plots)), intro=intro)


def _abstaining(curve: ThresholdCurve) -> Markup:
    series = Series("accuracy", curve.coverage.tolist(), curve.precision.tolist())
    plot = lines(
        "abstain",
        "Accuracy if unsure guesses are withheld",
        [series],
        x_name="share answered",
        y_name="accuracy",
    )
    rows = []
    for coverage in COVERAGES:
        at = curve[int((curve.coverage >= coverage - 1e-9).argmax())]
        rows.append((f"{at.coverage:.1%}", number(at.precision), number(at.threshold)))
    content = table("Abstaining", ("answered", "accuracy", "threshold"), rows)
    caption = "Accuracy over the share of texts that get an answer."
    intro = "The accuracy of a model that answers only if its confidence reaches a threshold."
    return section("Abstaining", columns(figure(plot, caption), content), intro=intro)


def _thresholds(acceptance: Acceptance) -> Markup:
    rows = []
    for one in acceptance.thresholds:
        found = one.threshold
        values = (found.threshold, found.precision, found.recall, found.coverage) if found else ()
        cells = [number(value) for value in values] or ["none", "", "", ""]
        rows.append((one.label, *cells, f"{one.support:,}"))
    names = ("class", "threshold", "precision", "recall", "accepted", "gold")
    intro = (
        f"The lowest score from which a class can be accepted with a precision of {acceptance.precision:g}; "
        "none if no score is enough."
    )
    return section("Thresholds", table("Thresholds", names, rows), intro=intro)


def _training(evaluation: Evaluation) -> Markup:
    losses = [curve for curve in evaluation.curves if curve.name.endswith("loss")]
    rates = [curve for curve in evaluation.curves if curve.name == "learning_rate"]
    scores = [curve for curve in evaluation.curves if curve.kind == "evaluation" and curve not in losses]
    first = headline(evaluation.report)
    scores.sort(key=lambda curve: first.index(curve.name) if curve.name in first else len(first))
    plots = []
    for name, heading, curves in (
        ("loss", "Loss", losses),
        ("score", "Scores on the dev data", scores),
        ("rate", "Learning rate", rates),
    ):
        if curves:
            series = [_series(curve) for curve in curves[:MAX_LINES]]
            is_share = name == "score" and all(0 <= y <= 1 for one in series for y in one.ys)
            drawn = lines(f"curve-{name}", heading, series, x_name="step", y_name=name, is_share=is_share)
            plots.append(figure(drawn, f"{heading} over the training steps."))
    return section("Training", columns(*plots))


def _series(curve: TrainingCurve) -> Series:
    name = f"{curve.name} (dev)" if curve.kind == "evaluation" and "loss" in curve.name else curve.name
    return Series(title(name), curve.steps, curve.values)


def _seeds(evaluation: Evaluation) -> Markup:
    names = [name for name in evaluation.metrics if all(name in seed.metrics for seed in evaluation.seeds)]
    rows = [(str(seed.seed), *(number(seed.metrics[name]) for name in names)) for seed in evaluation.seeds]
    columns = [[seed.metrics[name] for seed in evaluation.seeds] for name in names]
    rows.append(("mean", *(number(mean(values)) for values in columns)))
    if len(evaluation.seeds) > 1:
        rows.append(("standard deviation", *(number(stdev(values)) for values in columns)))
    return section("Seeds", table("Seeds", ("seed", *names), rows))

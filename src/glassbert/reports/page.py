"""One page of HTML with all that an evaluation found: no scripts, nothing from elsewhere, light and dark."""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import mean, stdev

from glassbert.evaluation.result import Evaluation, Mistake, TrainingCurve
from glassbert.metrics.calibration import Calibration
from glassbert.metrics.thresholds import ThresholdCurve
from glassbert.reports.html import definitions, figures, section, table
from glassbert.reports.markup import Markup, tag
from glassbert.reports.passages import marked
from glassbert.reports.plots import Series, lines, reliability
from glassbert.reports.task_sections import results
from glassbert.reports.wording import headline, meaning, number, share
from glassbert.storage import write_atomically

MAX_MISTAKES = 50
MAX_LINES = 6


def write_report(path: Path, evaluation: Evaluation) -> None:
    """Write the page to ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, page(evaluation).encode("utf-8"))


def page(evaluation: Evaluation) -> str:
    """Return the page."""
    # The policy forbids what the page does not need: whatever a text in it says, nothing is run or fetched.
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("title", f"{evaluation.task}: {evaluation.model} on {evaluation.data}"),
        tag("style", Markup(files("glassbert.reports").joinpath("page.css").read_text(encoding="utf-8"))),
    )
    body = tag("body", _header(evaluation), tag("main", *_sections(evaluation)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _header(evaluation: Evaluation) -> Markup:
    metrics = evaluation.metrics()
    names = headline(evaluation.report)
    tiles = [
        tag("div", tag("dt", name.replace("_", " ")), tag("dd", number(metrics[name])), class_="tile")
        for name in names
        if name in metrics
    ]
    about = [("model", evaluation.model), ("data", evaluation.data), ("examples", f"{evaluation.examples:,}")]
    return tag(
        "header",
        tag("h1", f"Evaluation: {evaluation.task}"),
        definitions(about),
        tag("dl", *tiles, class_="tiles"),
    )


def _sections(evaluation: Evaluation) -> Iterator[Markup]:
    if evaluation.notes:
        yield section("Notes", tag("ul", *(tag("li", note) for note in evaluation.notes)))
    yield _metrics(evaluation)
    yield from results(evaluation)
    if evaluation.calibration:
        yield _calibration(evaluation.calibration)
    if evaluation.abstain is not None and len(evaluation.abstain):
        yield _abstain(evaluation.abstain)
    if evaluation.thresholds:
        yield _thresholds(evaluation)
    if evaluation.mistakes:
        yield _mistakes(evaluation.mistakes)
    if evaluation.curves:
        yield _training(evaluation)
    if evaluation.seeds:
        yield _seeds(evaluation)
    yield _about(evaluation)


def _metrics(evaluation: Evaluation) -> Markup:
    rows = [
        (name, f"{value:.4f}", meaning(name, evaluation.report))
        for name, value in evaluation.metrics().items()
    ]
    columns = ("metric", "value", "what it says")
    return section("Metrics", table("Metrics", columns, rows, texts=columns[2:]))


def _calibration(calibration: Calibration) -> Markup:
    plots = [
        (
            reliability("reliability", "Reliability", calibration.bins),
            f"At temperature {calibration.temperature:.3f}: calibration error {calibration.ece:.3f}.",
        )
    ]
    if calibration.temperature != 1.0:
        raw = reliability("reliability-raw", "Reliability before scaling", calibration.bins_uncalibrated)
        plots.append((raw, f"Before: calibration error {calibration.ece_uncalibrated:.3f}."))
    intro = (
        "Of guesses made with a confidence of 0.8, eight in ten should be right. Bars show accuracy, "
        "stronger the more guesses there are; short lines show confidence; honest scores lie on the diagonal."
    )
    return section("Calibration", figures(*plots), intro=intro)


def _abstain(curve: ThresholdCurve) -> Markup:
    series = Series("accuracy", curve.coverage.tolist(), curve.precision.tolist())
    plot = lines(
        "abstain",
        "Accuracy when unsure guesses are left out",
        [series],
        x_name="share answered",
        y_name="accuracy",
    )
    wanted = [0.5, 0.75, 0.9, 0.95, 1.0]
    rows = []
    for coverage in wanted:
        at = curve[int((curve.coverage >= coverage - 1e-9).argmax())]
        rows.append((f"{at.coverage:.1%}", number(at.precision), number(at.threshold)))
    columns = ("answered", "accuracy", "from confidence")
    intro = "What the accuracy would be if the model answered only where its confidence reaches a threshold."
    return section("Abstaining", figures((plot, intro)), table("Abstaining", columns, rows))


def _thresholds(evaluation: Evaluation) -> Markup:
    rows = []
    for one in evaluation.thresholds:
        found = one.threshold
        values = (found.threshold, found.precision, found.recall, found.coverage) if found else ()
        cells = [number(value) for value in values] or ["none does", "", "", ""]
        rows.append((one.label, *cells, f"{one.support:,}"))
    columns = ("for", "threshold", "precision", "recall", "accepted", "gold")
    wish = f", for {evaluation.thresholds_for}" if evaluation.thresholds_for else ""
    intro = f"The score from which a guess is accepted{wish}."
    return section("Thresholds", table("Thresholds", columns, rows), intro=intro)


def _mistakes(mistakes: Sequence[Mistake]) -> Markup:
    worst = sorted(mistakes, key=lambda mistake: -mistake.score)[:MAX_MISTAKES]
    intro = "The highest score of a wrong guess comes first."
    return section("Worst mistakes", tag("ol", *map(_mistake, worst), class_="mistakes"), intro=intro)


def _mistake(mistake: Mistake) -> Markup:
    texts = [
        tag(
            "p",
            *([tag("b", passage.name), " "] if passage.name else []),
            marked(passage),
            class_="text",
            dir="auto",
        )
        for passage in mistake.passages
    ]
    verdict = definitions(
        [
            ("gold", mistake.gold),
            ("guess", mistake.guess),
            ("score", number(mistake.score)),
            ("where", mistake.where),
        ]
    )
    return tag("li", *texts, verdict)


def _training(evaluation: Evaluation) -> Markup:
    losses = [curve for curve in evaluation.curves if curve.name.endswith("loss")]
    rates = [curve for curve in evaluation.curves if curve.name == "learning_rate"]
    scores = [curve for curve in evaluation.curves if curve.kind == "evaluation" and curve not in losses]
    first = headline(evaluation.report)
    scores.sort(key=lambda curve: first.index(curve.name) if curve.name in first else len(first))
    plots = []
    for name, title, curves in (
        ("loss", "Loss", losses),
        ("score", "Scores on the held-out rows", scores),
        ("rate", "Learning rate", rates),
    ):
        if curves:
            series = [_series(curve) for curve in curves[:MAX_LINES]]
            is_share = name == "score" and all(0 <= y <= 1 for one in series for y in one.ys)
            drawn = lines(f"curve-{name}", title, series, x_name="step", y_name=name, is_share=is_share)
            plots.append((drawn, f"{title} over the steps of training."))
    return section("Training", figures(*plots))


def _series(curve: TrainingCurve) -> Series:
    name = f"{curve.name} (held out)" if curve.kind == "evaluation" and "loss" in curve.name else curve.name
    return Series(name.replace("_", " "), curve.steps, curve.values)


def _seeds(evaluation: Evaluation) -> Markup:
    names = [name for name in evaluation.metrics() if all(name in seed.metrics for seed in evaluation.seeds)]
    rows = [(str(seed.seed), *(number(seed.metrics[name]) for name in names)) for seed in evaluation.seeds]
    columns = [[seed.metrics[name] for seed in evaluation.seeds] for name in names]
    rows.append(("mean", *(number(mean(values)) for values in columns)))
    if len(evaluation.seeds) > 1:
        rows.append(("deviation", *(number(stdev(values)) for values in columns)))
    return section("Seeds", table("Seeds", ("seed", *names), rows))


def _about(evaluation: Evaluation) -> Markup:
    rows = [
        ("texts seen only in part", share(evaluation.truncated, evaluation.examples)),
        ("tokens", f"{evaluation.tokens:,}"),
        ("unknown tokens", share(evaluation.unknown, evaluation.tokens)),
        *evaluation.settings.items(),
    ]
    return section("About this evaluation", definitions(rows))

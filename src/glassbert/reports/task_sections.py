"""The sections with the scores of the task, for each kind of report."""

from collections.abc import Iterator, Sequence

import numpy as np

from glassbert.evaluation.result import Report
from glassbert.metrics.answers import AnswerReport
from glassbert.metrics.classes import ClassReport, ClassScore, MultiLabelReport
from glassbert.metrics.corpus import CorpusReport
from glassbert.metrics.regression import RegressionReport
from glassbert.metrics.spans import SpanReport
from glassbert.metrics.translation import TranslationReport
from glassbert.reports.html import columns, definitions, figure, section, table
from glassbert.reports.markup import Markup, join
from glassbert.reports.plots import Bar, bars, heat_map, points
from glassbert.reports.wording import length_in_words, number, share

# A larger matrix is too crowded; the most frequent confusions are listed instead.
MAX_HEAT_MAP = 30
# A matrix of more labels has no room for a table beside it.
MAX_BESIDE = 6
MAX_BARS = 30
MAX_CONFUSIONS = 12
_OBJECTIVES = {
    "mlm": "predict masked tokens",
    "mlm+nsp": "predict masked tokens, and say if the second text follows the first",
    "sop": "predict masked tokens, and say which of two texts comes first",
}


def task_sections(report: Report) -> Iterator[Markup]:
    """Yield the sections for the kind of report."""
    if isinstance(report, ClassReport):
        yield _classes("Classes", "class", report.per_class)
        yield _confusion(report)
    elif isinstance(report, MultiLabelReport):
        yield _classes("Classes", "class", report.per_class)
    elif isinstance(report, SpanReport):
        yield _classes("Types of spans", "type", report.per_type)
        yield _span_mistakes(report)
    elif isinstance(report, AnswerReport):
        yield _answers(report)
    elif isinstance(report, TranslationReport):
        yield _translations(report)
    elif isinstance(report, CorpusReport):
        yield _objective(report)
    elif isinstance(report, RegressionReport) and report.points:
        plot = points("points", "Guess over gold", report.points, x_name="gold", y_name="guess")
        yield section("Guesses", figure(plot, "On the diagonal, guess and gold agree."))


def _classes(title: str, name: str, scores: Sequence[ClassScore]) -> Markup:
    names = (name, "precision", "recall", "F1", "gold", "guessed")
    rows = [
        (score.label, number(score.precision), number(score.recall), number(score.f1), f"{score.support:,}")
        + (f"{score.guessed:,}",)
        for score in scores
    ]
    content = [table(title, names, rows)]
    if 1 < len(scores) <= MAX_BARS:
        worst_first = sorted(scores, key=lambda score: score.f1)
        rows_of_plot = [Bar(score.label, score.f1, number(score.f1)) for score in worst_first]
        plot = bars("f1-bars", f"F1 of each {name}", rows_of_plot, highest=1.0)
        content.append(figure(plot, f"F1 of each {name}, the lowest first."))
    return section(title, columns(*content))


def _confusion(report: ClassReport) -> Markup:
    wrong = report.confusion - np.diag(np.diag(report.confusion))
    content = []
    if len(report.labels) <= MAX_HEAT_MAP:
        plot = heat_map("confusion", "Confusion matrix", report.labels, report.confusion)
        caption = "A row for each gold label, a column for each guess; the shade is the share of the row."
        content.append(figure(plot, caption, is_wide=True))
    order = np.argsort(-wrong, axis=None, kind="stable")[:MAX_CONFUSIONS].tolist()
    cells = [divmod(cell, len(report.labels)) for cell in order]
    rows = [
        (
            report.labels[row],
            report.labels[column],
            share(int(wrong[row, column]), int(report.confusion[row].sum())),
        )
        for row, column in cells
        if wrong[row, column]
    ]
    if rows and len(report.labels) > 2:
        names = ("gold", "guess", "times (share of gold)")
        content.append(table("Most frequent confusions", names, rows, texts=["guess"]))
    has_room = len(report.labels) <= MAX_BESIDE
    return section("Confusions", columns(*content) if has_room else join(content))


def _span_mistakes(report: SpanReport) -> Markup:
    mistakes = report.mistakes
    named = {
        "right": report.right,
        "wrong label": mistakes.wrong_label,
        "wrong bounds": mistakes.wrong_bounds,
        "missed": mistakes.missed,
        "invented": mistakes.invented,
    }
    rows = [Bar(name, count, f"{count:,}") for name, count in named.items()]
    plot = bars("span-mistakes", "Spans found, missed and invented", rows)
    caption = (
        "Gold spans that were found, guessed with another label, overlapped by a wrong guess, or missed; "
        "and guesses that touch no gold span."
    )
    return section("Mistakes by kind", figure(plot, caption))


def _answers(report: AnswerReport) -> Markup:
    names = ("questions", "exact match", "F1", "count")
    parts = {"with an answer": report.has_answer, "without an answer": report.no_answer}
    rows = [
        (name, number(part.exact_match), number(part.f1), f"{part.support:,}")
        for name, part in parts.items()
        if part.support
    ]
    rows += [
        (length_in_words(score), number(score.exact_match), number(score.f1), f"{score.support:,}")
        for score in report.by_length
    ]
    plot = bars(
        "by-length",
        "F1 by length of the answer",
        [Bar(length_in_words(score), score.f1, f"{score.f1:.3f}") for score in report.by_length],
        highest=1.0,
    )
    caption = "F1 by the length of the shortest accepted answer, in words or Chinese characters."
    return section("Answers", columns(table("Answers", names, rows), figure(plot, caption)))


def _translations(report: TranslationReport) -> Markup:
    names = ("words of the source", "sentences", "BLEU")
    rows = [(one.words, f"{one.sentences:,}", f"{one.bleu:.2f}") for one in report.by_length]
    lengths = [Bar(f"{one.words} words", one.bleu, f"{one.bleu:.1f}") for one in report.by_length]
    plot = bars("by-length", "BLEU by length of the source", lengths, highest=100.0)
    caption = "BLEU by the length of the source, in words or Chinese characters."
    signatures = definitions([("BLEU", report.bleu_signature), ("chrF", report.chrf_signature)])
    return section(
        "Translations",
        columns(table("Translations", names, rows), figure(plot, caption)),
        signatures,
        intro="Scores are comparable only if their signatures, given below, are the same.",
    )


def _objective(report: CorpusReport) -> Markup:
    rows = [
        ("task", _OBJECTIVES.get(report.objective, report.objective)),
        ("longest example", f"{report.max_length:,} tokens"),
    ]
    intro = "The same tokens are masked for every model, so that models can be compared."
    return section(f"Objective: {report.objective}", definitions(rows), intro=intro)

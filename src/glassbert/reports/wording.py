"""What the metrics mean, in a line each, and how numbers are written."""

from glassbert.evaluation.result import Report
from glassbert.metrics.answers import AnswerReport, LengthScore
from glassbert.metrics.classes import ClassReport, MultiLabelReport
from glassbert.metrics.regression import RegressionReport
from glassbert.metrics.spans import SpanReport

_OF_ALL = {
    "ece": "mean distance between confidence and accuracy, after temperature scaling",
    "ece_uncalibrated": "the same before temperature scaling",
    "loss": "mean of what training makes small",
}
_OF_REPORTS: dict[type[Report], dict[str, str]] = {
    ClassReport: {
        "accuracy": "share of right guesses",
        "precision": "share of right ones among the guesses of a class, mean of the classes",
        "recall": "share of a class that was found, mean of the classes",
        "f1": "harmonic mean of precision and recall of a class, mean of the classes",
        "micro_f1": "F1 of all decisions together; with one label each it is the accuracy",
        "weighted_f1": "mean F1, classes weighing as often as they occur",
        "mcc": "Matthews' correlation of guess and gold: 0 is chance, 1 perfect",
    },
    MultiLabelReport: {
        "accuracy": "share of examples whose whole set of labels is right",
        "precision": "share of right ones among the guesses of a class, mean of the classes",
        "recall": "share of a class that was found, mean of the classes",
        "f1": "harmonic mean of precision and recall of a class, mean of the classes",
        "micro_f1": "F1 of all decisions together",
        "weighted_f1": "mean F1, classes weighing as often as they occur",
        "hamming_loss": "share of wrong decisions, one for each example and class",
    },
    RegressionReport: {
        "pearson": "linear correlation of guess and gold",
        "spearman": "correlation of their ranks",
        "mse": "mean of the squared errors",
        "mae": "mean of the errors without their signs",
    },
    SpanReport: {
        "precision": "share of guessed spans that are right in start, end and label",
        "recall": "share of gold spans that were found",
        "f1": "harmonic mean of both, all types counted together, as conlleval does",
        "macro_f1": "mean F1 of the types",
    },
    AnswerReport: {
        "exact_match": "share of answers equal to an accepted one, but for case and punctuation",
        "f1": "mean overlap with the best accepted answer",
        "has_answer_exact_match": "exact match over the questions that have an answer",
        "has_answer_f1": "F1 over the questions that have an answer",
        "no_answer_accuracy": "share of questions without an answer that were left unanswered",
    },
}


def meaning(name: str, report: Report) -> str:
    """Return what a metric says; empty for one that is not ours."""
    return {**_OF_ALL, **_OF_REPORTS[type(report)]}.get(name, "")


def headline(report: Report) -> tuple[str, ...]:
    """Return the metrics that people ask for first."""
    first: dict[type[Report], tuple[str, ...]] = {
        ClassReport: ("accuracy", "f1", "mcc"),
        MultiLabelReport: ("micro_f1", "f1", "accuracy"),
        RegressionReport: ("pearson", "spearman", "mae"),
        SpanReport: ("f1", "precision", "recall"),
        AnswerReport: ("exact_match", "f1"),
    }
    return first[type(report)]


def number(value: float) -> str:
    """Return a score as tables show it."""
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def share(part: int, whole: int) -> str:
    """Return a count with its share of the whole."""
    return f"{part:,} ({part / whole:.1%})" if whole else f"{part:,}"


def length_in_words(score: LengthScore) -> str:
    """Return the range of a row of lengths."""
    if score.high is None:
        return f"{score.low} words and more"
    if score.low == score.high:
        return f"{score.low} word{'s' if score.low > 1 else ''}"
    return f"{score.low} to {score.high} words"

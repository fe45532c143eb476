"""What the metrics mean, in a line each, and how numbers are written."""

from collections.abc import Iterator

from glassbert.evaluation.result import Evaluation, Report
from glassbert.metrics.answers import AnswerReport, LengthScore
from glassbert.metrics.classes import ClassReport, MultiLabelReport
from glassbert.metrics.corpus import CorpusReport
from glassbert.metrics.mistakes import Mistake
from glassbert.metrics.regression import RegressionReport
from glassbert.metrics.spans import SpanReport
from glassbert.metrics.translation import TranslationReport

_MEANINGS_OF_ALL = {
    "ece": "mean distance between confidence and accuracy, after temperature scaling",
    "ece_uncalibrated": "the same before temperature scaling",
    "loss": "mean training loss",
}
_OF_CLASSES = {
    "precision": "share of right guesses among those of a class, mean over the classes",
    "recall": "share of a class that was found, mean over the classes",
    "f1": "harmonic mean of precision and recall of a class, mean over the classes",
    "weighted_f1": "mean F1, classes weighted by how often they occur",
}
_MEANINGS: dict[type[Report], dict[str, str]] = {
    ClassReport: {
        **_OF_CLASSES,
        "accuracy": "share of right guesses",
        "micro_f1": "F1 of all decisions together; with one label each it is the accuracy",
        "mcc": "Matthews correlation of guess and gold: 0 is chance, 1 perfect",
    },
    MultiLabelReport: {
        **_OF_CLASSES,
        "accuracy": "share of examples whose whole set of labels is right",
        "micro_f1": "F1 of all decisions together",
        "hamming_loss": "share of wrong decisions, one for each example and class",
    },
    RegressionReport: {
        "pearson": "linear correlation of guess and gold",
        "spearman": "correlation of their ranks",
        "mse": "mean squared error",
        "mae": "mean absolute error",
    },
    SpanReport: {
        "precision": "share of guessed spans with the right start, end and label",
        "recall": "share of gold spans that were found",
        "f1": "harmonic mean of both, all types counted together, as conlleval does",
        "macro_f1": "mean F1 of the types",
    },
    AnswerReport: {
        "exact_match": "share of answers equal to an accepted one, except for case and punctuation",
        "f1": "mean overlap with the best accepted answer",
        "has_answer_exact_match": "exact match over the questions that have an answer",
        "has_answer_f1": "F1 over the questions that have an answer",
        "no_answer_accuracy": "share of questions without an answer that were left unanswered",
    },
    TranslationReport: {
        "bleu": "runs of one to four words shared with the references, 0 to 100",
        "chrf": "runs of characters shared with the references, 0 to 100",
    },
    CorpusReport: {
        "mlm_loss": "mean cross-entropy of the masked tokens; exp of it is the perplexity",
        "mlm_accuracy": "share of masked tokens that were predicted",
        "nsp_loss": "mean cross-entropy of the judgements on pairs of texts; 0.693 is chance",
        "nsp_accuracy": "share of pairs of texts that were judged right; 0.5 is chance",
    },
}
MAX_TILES = 3
_HEADLINES: dict[type[Report], tuple[str, ...]] = {
    ClassReport: ("accuracy", "f1", "mcc"),
    MultiLabelReport: ("micro_f1", "f1", "accuracy"),
    RegressionReport: ("pearson", "spearman", "mae"),
    SpanReport: ("f1", "precision", "recall"),
    AnswerReport: ("exact_match", "f1"),
    TranslationReport: ("bleu", "chrf"),
    CorpusReport: ("mlm_accuracy", "mlm_loss", "nsp_accuracy"),
}
_ABBREVIATIONS = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "f1": "F1",
    "mae": "MAE",
    "mcc": "MCC",
    "mlm": "MLM",
    "nsp": "pair",
}
_RANKINGS = {
    "score": "The mistakes that the model was surest of come first.",
    "error": "The largest errors come first.",
    "chrF": "The translations with the lowest chrF come first.",
}


def title(name: str) -> str:
    """Return the name of a metric or a setting as people write it."""
    return " ".join(_ABBREVIATIONS.get(word, word) for word in name.split("_"))


def meaning(name: str, report: Report) -> str:
    """Return what a metric means; empty if it is not one of ours."""
    return {**_MEANINGS_OF_ALL, **_MEANINGS.get(type(report), {})}.get(name, "")


def headline(report: Report) -> tuple[str, ...]:
    """Return the metrics that people ask for first; of a report that is not ours, its first ones."""
    return _HEADLINES.get(type(report), tuple(report.metrics())[:MAX_TILES])


def ranking(mistake: Mistake) -> str:
    """Return how mistakes of this kind are ranked."""
    return _RANKINGS.get(mistake.score_name, f"Those with the highest {mistake.score_name} come first.")


def score_text(mistake: Mistake) -> str:
    """Return the number that a mistake was ranked by."""
    return f"{mistake.score:.1f}" if mistake.score_name == "chrF" else number(mistake.score)


def counts_in_words(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    """Yield what was counted beside the metrics: a name and a count with its share."""
    if evaluation.truncated is not None:
        yield "texts seen only in part", share(evaluation.truncated, evaluation.examples)
    if evaluation.tokens is not None:
        yield "tokens", f"{evaluation.tokens:,}"
    if evaluation.unknown is not None:
        yield "unknown tokens", share(evaluation.unknown, evaluation.tokens or 0)


def number(value: float) -> str:
    """Return a score as tables show it."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"


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

"""An evaluation of each kind, filled with all that a page can show."""

import numpy as np

from glassbert.data.examples import Span
from glassbert.evaluation.result import Evaluation, SeedResult, TrainingCurve
from glassbert.metrics.answers import cmrc, squad
from glassbert.metrics.calibration import calibration, confidences, fit_temperature, probabilities
from glassbert.metrics.classes import classification, multi_label
from glassbert.metrics.corpus import CorpusReport
from glassbert.metrics.mistakes import Mark, Mistake, Passage
from glassbert.metrics.regression import regression
from glassbert.metrics.spans import span_f1
from glassbert.metrics.thresholds import Acceptance, class_thresholds, threshold_curve
from glassbert.metrics.translation import translation

LABELS = ("negative", "neutral", "positive", "不知道", "a label of many words that goes on")
NASTY = "<script>alert('x')</script> & \"quoted\" \x00 \ud800 \u202egnitirw </style>"


def curves() -> tuple[TrainingCurve, ...]:
    """What a run of 300 steps logs."""
    steps = tuple(range(10, 310, 10))
    loss = tuple(1.6 * np.exp(-step / 120) + 0.05 * np.sin(step) for step in steps)
    rate = tuple(1e-4 * min(step / 30, (310 - step) / 280) for step in steps)
    dev = (100, 200, 300)
    return (
        TrainingCurve("loss", "train", steps, loss),
        TrainingCurve("learning_rate", "train", steps, rate),
        TrainingCurve("grad_norm", "train", steps, loss),
        TrainingCurve("loss", "evaluation", dev, (0.9, 0.6, 0.62)),
        TrainingCurve("accuracy", "evaluation", dev, (0.61, 0.77, 0.79)),
        TrainingCurve("f1", "evaluation", dev, (0.5, 0.72, 0.735)),
    )


def single(num_examples: int = 600) -> Evaluation:
    """Texts with one label each, scores too sure of themselves."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(num_examples, len(LABELS))) * 2.2
    gold = np.array([random.choice(len(LABELS), p=row) for row in probabilities(logits)], int)
    logits *= 2.5
    temperature = fit_temperature(logits, gold)
    scores = probabilities(logits, temperature)
    mistakes = [
        Mistake("reviews.csv:17", (Passage("", NASTY),), "negative", "positive", 0.99),
        Mistake(
            "reviews.csv:4", (Passage("", "房间很小，但是服务还不错。" * 60),), "不知道", "neutral", 0.97
        ),
        Mistake("reviews.csv:9", (Passage("", "Not bad at all."),), LABELS[-1], "positive", 0.93),
    ]
    return Evaluation(
        task="classify",
        model="runs/reviews/best",
        data="reviews.dev.csv",
        examples=num_examples,
        report=classification(gold, logits.argmax(axis=1), LABELS),
        calibration=calibration(logits, gold, temperature),
        acceptance=Acceptance(
            0.9,
            class_thresholds(scores, gold, LABELS, precision=0.9),
            threshold_curve(*confidences(logits, gold, temperature)).thinned(200),
        ),
        mistakes=tuple(mistakes),
        curves=curves(),
        seeds=tuple(SeedResult(seed, {"accuracy": 0.7 + seed / 100, "f1": 0.6}) for seed in (1, 2, 3)),
        truncated=12,
        tokens=48_210,
        unknown=37,
        settings={"learning rate": "0.0001", "seed": "1", "glassbert": "0.1.0"},
        notes=("3 rows were left out: no label.", f"odd: {NASTY}"),
    )


def many_labels() -> Evaluation:
    """Texts with any number of labels."""
    random = np.random.default_rng(1)
    gold = random.random((80, len(LABELS))) < 0.4
    guess = gold ^ (random.random(gold.shape) < 0.2)
    report = multi_label(gold, guess, LABELS)
    return Evaluation(task="classify", model="m", data="d.jsonl", examples=80, report=report)


def numbers() -> Evaluation:
    """Pairs with a score."""
    random = np.random.default_rng(2)
    gold = random.random(200) * 5
    guess = gold + random.normal(size=200) * 0.6
    wrong = Mistake("d.tsv:3", (Passage("first", "a b"), Passage("second", "c")), "1", "4", 3.0, "error")
    return Evaluation(
        task="pair", model="m", data="d.tsv", examples=200, report=regression(gold, guess), mistakes=(wrong,)
    )


def spans() -> Evaluation:
    """Texts with spans, one of every mistake."""
    text = "John Smith lives in New York City and works for Acme Corporation."
    gold = [Span(0, 10, "PER"), Span(20, 33, "LOC"), Span(48, 64, "ORG")]
    guess = [Span(0, 10, "PER"), Span(20, 28, "LOC"), Span(34, 37, "MISC"), Span(48, 64, "LOC")]
    marks = (
        Mark(0, 10, "PER", "right"),
        Mark(20, 33, "LOC", "missed"),
        Mark(20, 28, "LOC", "wrong"),
        Mark(34, 37, "MISC", "wrong"),
        Mark(48, 64, "ORG", "missed"),
        Mark(48, 64, "LOC", "wrong"),
    )
    return Evaluation(
        task="tag",
        model="m",
        data="d.conll",
        examples=2,
        report=span_f1([gold, []], [guess, []]),
        mistakes=(Mistake("d.conll:1", (Passage("", text, marks),), "3 spans", "4 spans", 4.0),),
    )


def answers(measure: str = "squad") -> Evaluation:
    """Questions, one without an answer."""
    gold = {
        "a": ["in 1990"],
        "b": ["the quick brown fox", "fox"],
        "c": [],
        "d": ["很长的答案" * 9],
        "e": ["x y z"],
    }
    guess = {"a": "1990", "b": "fox", "c": "nothing", "d": "长的答案", "e": "x y"}
    context = "It was finished. " * 60 + "Then in 1990 it was opened." + " It is large." * 60
    marks = (Mark(1025, 1032, "", "missed"), Mark(1028, 1032, "", "wrong"))
    passages = (Passage("question", "When was it opened?"), Passage("context", context, marks))
    return Evaluation(
        task="answer",
        model="m",
        data="d.json",
        examples=5,
        report=(squad if measure == "squad" else cmrc)(gold, guess),
        mistakes=(Mistake("d.json:a", passages, "in 1990", "1990", 0.8),),
    )


def translations() -> Evaluation:
    """Sentences of two lengths, one of them translated wrongly."""
    sources = ["The boy buys a red hat.", "Our neighbours see these broken windows, and so do we."]
    gold = ["El niño compra un sombrero rojo.", "Nuestros vecinos ven estas ventanas rotas, y nosotros."]
    guess = [gold[0], f"Nuestro vecino ve esta puerta. {NASTY}"]
    passages = (
        Passage("source", sources[1]),
        Passage("reference", gold[1]),
        Passage("translation", guess[1]),
    )
    return Evaluation(
        task="translate",
        model="runs/translate/best",
        data="pairs.tsv",
        examples=2,
        report=translation(gold, guess, sources),
        mistakes=(Mistake("pairs.tsv:2", passages, "", "", 32.4, "chrF"),),
        truncated=0,
        tokens=31,
        settings={"search": "beam", "beam size": "4"},
    )


def corpus() -> Evaluation:
    """A pre-trained model on a corpus."""
    scores = {"mlm_loss": 2.1, "mlm_accuracy": 0.58, "nsp_loss": 0.31, "nsp_accuracy": 0.9}
    report = CorpusReport(scores, "sop", 128)
    return Evaluation(task="pretrain", model="m", data="corpus", examples=812, report=report, tokens=99_871)


ALL = {
    "single": single,
    "many": many_labels,
    "numbers": numbers,
    "spans": spans,
    "answers": answers,
    "translations": translations,
    "corpus": corpus,
}

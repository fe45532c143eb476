import re
from dataclasses import replace

import pytest

from glassbert.metrics.corpus import CorpusReport
from glassbert.metrics.translation import LengthScore, TranslationReport
from glassbert.reports.page import page
from glassbert.reports.plots import Bar, bars
from glassbert.reports.task_sections import task_sections
from glassbert.reports.terminal import render
from glassbert.reports.wording import meaning, ranking, score_text
from helpers.report_samples import ALL, corpus, translations

TRANSLATED = TranslationReport(
    bleu=31.5,
    chrf=54.25,
    bleu_signature="rules of BLEU",
    chrf_signature="rules of chrF",
    by_length=(LengthScore("1-5", 7, 50.0), LengthScore("6+", 3, 12.5)),
)


def texts_of(markup: str) -> list[str]:
    """Return the texts between the tags, in order."""
    return [text for text in re.split(r"<[^>]*>", markup) if text.strip()]


def follows(texts: list[str], *wanted: str) -> bool:
    """Return whether the texts stand one after the other somewhere."""
    return any(texts[place : place + len(wanted)] == list(wanted) for place in range(len(texts)))


def test_translations_are_counted_and_scored_by_length() -> None:
    texts = texts_of("".join(task_sections(TRANSLATED)))
    assert follows(texts, "words of the source", "sentences", "BLEU")
    assert follows(texts, "1-5", "7", "50.00")
    assert follows(texts, "6+", "3", "12.50")
    assert follows(texts, "BLEU", "rules of BLEU", "chrF", "rules of chrF")


def test_a_bar_of_bleu_is_full_at_a_hundred() -> None:
    found = "".join(task_sections(TRANSLATED))
    expected = bars(
        "by-length",
        "BLEU by length of the source",
        [Bar("1-5 words", 50.0, "50.0"), Bar("6+ words", 12.5, "12.5")],
        highest=100.0,
    )
    assert expected in found


def test_the_terminal_shows_both_signatures_and_the_lengths() -> None:
    lines = [line.split() for line in render(replace(translations(), report=TRANSLATED)).splitlines()]
    assert ["BLEU", "rules", "of", "BLEU"] in lines
    assert ["chrF", "rules", "of", "chrF"] in lines
    assert ["6+", "3", "12.50"] in lines


@pytest.mark.parametrize(
    ("objective", "words"), [("sop", "which of two texts comes first"), ("mlm", "predict masked tokens")]
)
def test_the_objective_of_a_corpus_is_explained(objective: str, words: str) -> None:
    texts = texts_of("".join(task_sections(CorpusReport({}, objective, 1234))))
    assert f"Objective: {objective}" in texts
    assert follows(texts, "longest example", "1,234 tokens")
    assert any(words in text for text in texts)


@pytest.mark.parametrize("name", ALL)
def test_every_metric_of_ours_has_a_meaning(name: str) -> None:
    evaluation = ALL[name]()
    assert all(meaning(metric, evaluation.report) for metric in evaluation.metrics)


def test_the_first_figures_are_those_people_ask_for() -> None:
    tiles = {
        "translate": re.findall(r'class="tile"><dt[^>]*>([^<]*)', page(translations())),
        "corpus": re.findall(r'class="tile"><dt[^>]*>([^<]*)', page(corpus())),
    }
    assert tiles == {"translate": ["BLEU", "chrF"], "corpus": ["MLM accuracy", "MLM loss", "pair accuracy"]}


def test_mistakes_of_translators_are_ranked_by_chrf() -> None:
    (mistake,) = translations().mistakes
    assert score_text(mistake) == "32.4"
    assert ranking(mistake) == "The translations with the lowest chrF come first."

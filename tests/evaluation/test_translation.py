from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.data.sentence_pairs import SentencePair
from glassbert.errors import DataError
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.translation import MAX_MISTAKES, evaluate_pairs, measured_translations
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator
from glassbert.metrics.translation import TranslationReport, translation
from helpers.sentence_pairs import sentence_pairs, write_arbitrary_translator, write_tsv

PAIRS = sentence_pairs(12, seed=2)
Evaluate = Callable[..., Evaluation]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(write_arbitrary_translator(tmp_path_factory.mktemp("translator")), Translator)


@pytest.fixture
def evaluated(translator: Translator) -> Evaluate:
    """Evaluate with a search that is short enough for a test; lines of the log are thrown away."""
    settings = translator.usual_settings(method="greedy", max_length=8)
    options = {"name": "m", "settings": settings, "log": lambda line: None}
    return lambda data, **changes: evaluate_pairs(translator, data, **{**options, **changes})


def test_scores_are_those_of_the_translations(translator: Translator, evaluated: Evaluate) -> None:
    found = translator.translate(
        [source for source, _ in PAIRS], translator.usual_settings(method="greedy", max_length=8)
    )
    expected = translation([target for _, target in PAIRS], [one.text for one in found])
    evaluation = evaluated(PAIRS)
    assert evaluation.metrics == expected.metrics()
    assert (evaluation.task, evaluation.examples, evaluation.data) == ("translate", 12, "12 pairs")
    assert evaluation.tokens == sum(one.tokens for one in found)


def test_a_file_gives_the_same_scores_as_its_pairs(evaluated: Evaluate, tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "pairs.tsv", PAIRS)
    assert evaluated(path).metrics == evaluated(PAIRS).metrics


def test_the_translations_least_like_their_references_come_first() -> None:
    pairs = [SentencePair(*pair) for pair in (("a b", "uno dos", 3), ("c", "tres", 5), ("d", "cuatro", 8))]
    right, close, far = "cuatro", "uno tos", "xyz"
    found = measured_translations(pairs, [close, far, right], data="f.tsv").mistakes
    assert [one.where for one in found] == ["f.tsv:5", "f.tsv:3"]
    assert [one.score for one in found] == sorted(one.score for one in found)
    assert found[0].score < found[1].score
    assert [(passage.name, passage.text) for passage in found[1].passages] == [
        ("source", "a b"),
        ("reference", "uno dos"),
        ("translation", close),
    ]


def test_no_more_mistakes_are_kept_than_a_page_can_show() -> None:
    pairs = [SentencePair("a", "uno", line) for line in range(MAX_MISTAKES + 20)]
    assert MAX_MISTAKES == 50
    assert len(measured_translations(pairs, ["dos"] * len(pairs), data="f").mistakes) == MAX_MISTAKES


def test_the_rules_of_bleu_can_be_chosen() -> None:
    pairs = [SentencePair("a", "uno dos", 1)]
    report = measured_translations(pairs, ["uno"], data="f", tokenizer="char").report
    assert isinstance(report, TranslationReport)
    assert "tok:char" in report.bleu_signature


def test_a_translation_equal_to_its_reference_is_no_mistake(
    translator: Translator, evaluated: Evaluate
) -> None:
    settings = translator.usual_settings(method="greedy", max_length=8)
    sources = [source for source, _ in PAIRS]
    perfect = [
        (source, one.text)
        for source, one in zip(sources, translator.translate(sources, settings), strict=True)
    ]
    assert evaluated(perfect).mistakes == ()


def test_rows_left_out_and_texts_cut_are_noted(evaluated: Evaluate, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(f"only one side\n{'a b c ' * 40}\tx\n")
    lines: list[str] = []
    evaluation = evaluated(path, skip_bad=1, log=lines.append)
    assert list(evaluation.notes) == lines
    assert lines[0].startswith(f"left out {path}:1: 1 columns")
    assert lines[1] == "1 of 1 texts were longer than 64 tokens and were cut"
    assert evaluation.truncated == 1


def test_translations_without_an_end_are_counted_and_the_search_is_named(
    translator: Translator, evaluated: Evaluate
) -> None:
    settings = translator.usual_settings(beam_size=3, max_length=2)
    evaluation = evaluated(PAIRS, settings=settings)
    found = translator.translate([source for source, _ in PAIRS], settings)
    num_unfinished = sum(not one.finished for one in found)
    assert isinstance(evaluation.report, TranslationReport)
    assert evaluation.report.num_unfinished == num_unfinished > 0
    assert evaluation.notes == (f"{num_unfinished} of 12 translations reached 2 tokens without an end",)
    assert evaluation.settings == {"search": "beam", "beam size": "3"}


def test_a_bad_row_is_refused_unless_it_may_be_left_out(evaluated: Evaluate, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("only one side\na\tb\n")
    with pytest.raises(DataError, match="1 columns"):
        evaluated(path)

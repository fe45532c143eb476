from collections.abc import Callable
from pathlib import Path

import pytest

from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.translation import evaluate_pairs
from glassbert.inference.loading import load
from glassbert.inference.translator import Translator
from glassbert.metrics.translation import sentence_chrf, translation
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


def test_the_translations_least_like_their_references_come_first(evaluated: Evaluate) -> None:
    found = evaluated(PAIRS).mistakes
    texts = [{passage.name: passage.text for passage in one.passages} for one in found]
    scores = sentence_chrf([one["reference"] for one in texts], [one["translation"] for one in texts])
    assert [one.score for one in found] == scores == sorted(scores)
    assert {(one["source"], one["reference"]) for one in texts} <= set(PAIRS)
    assert found[0].where == f"12 pairs:{1 + PAIRS.index((texts[0]['source'], texts[0]['reference']))}"


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

import builtins
from typing import Any

import pytest

from glassbert.errors import UserError
from glassbert.metrics.translation import translation

GOLD = ["The cat sat on the mat.", "Hello, how are you today?", "It is raining again."]
GUESS = ["The cat sat on a mat.", "Hello, how are you today?", "It rains again."]


def test_scores_are_those_of_sacrebleu() -> None:
    import sacrebleu

    report = translation(GOLD, GUESS)
    assert report.bleu == pytest.approx(sacrebleu.corpus_bleu(GUESS, [GOLD]).score)
    assert report.chrf == pytest.approx(sacrebleu.corpus_chrf(GUESS, [GOLD]).score)
    assert 40 < report.bleu < 80
    assert report.metrics() == {"bleu": report.bleu, "chrf": report.chrf}


def test_the_same_text_has_a_hundred_points() -> None:
    report = translation(GOLD, GOLD)
    assert report.bleu == pytest.approx(100)
    assert report.chrf == pytest.approx(100)


def test_the_signature_tells_the_rules() -> None:
    report = translation(GOLD, GUESS)
    assert "tok:13a" in report.bleu_signature
    assert "version:" in report.bleu_signature
    assert "nc:6" in report.chrf_signature
    assert "tok:char" in translation(GOLD, GUESS, tokenizer="char").bleu_signature


def test_chinese_is_cut_into_characters() -> None:
    gold, guess = (
        ["\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002"],
        ["\u4eca\u5929\u5929\u6c14\u5f88\u574f\u3002"],
    )
    report = translation(gold, guess)
    assert "tok:zh" in report.bleu_signature
    assert 30 < report.bleu < 90, "one word that differs would give 0"


def test_scores_by_length_hold_each_sentence_once() -> None:
    sources = ["a b c", "a b c d e f", "a " * 31]
    report = translation(GOLD, GUESS, sources)
    assert [(part.words, part.sentences) for part in report.by_length] == [
        ("1-5", 1),
        ("6-10", 1),
        ("31+", 1),
    ]
    assert report.by_length[1].bleu == pytest.approx(100)
    assert report.to_json()["by_length"][0]["words"] == "1-5"


def test_no_sentence_has_no_points() -> None:
    assert translation([], []).metrics() == {"bleu": 0.0, "chrf": 0.0}


def test_rules_that_sacrebleu_does_not_know_are_named_with_those_it_does() -> None:
    with pytest.raises(UserError, match="bleu_tokenizer='chinese'; expected one of .*zh, 13a"):
        translation(GOLD, GUESS, tokenizer="chinese")


def test_without_sacrebleu_it_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **keywords: Any) -> Any:
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return real(name, *args, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'glassbert\[translate\]'"):
        translation(GOLD, GUESS)


def test_chinese_sources_are_as_long_as_they_have_characters() -> None:
    sources = ["\u4eca\u5929" * 2, "\u4eca\u5929 GPU " * 2, "\u4eca" * 31]
    report = translation(GOLD, GUESS, sources)
    assert [part.words for part in report.by_length] == ["1-5", "6-10", "31+"]

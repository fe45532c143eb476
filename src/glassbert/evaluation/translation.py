"""Evaluate a translator on sentence pairs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from glassbert.data.sentence_pairs import ParallelFiles, SentencePair
from glassbert.errors import UserError
from glassbert.evaluation.result import Evaluation
from glassbert.inference.decode import DecodeSettings
from glassbert.inference.translator import Translator, length_warnings
from glassbert.messages import Log
from glassbert.metrics.mistakes import Mistake, Passage
from glassbert.metrics.translation import TranslationReport, sentence_chrf, translation
from glassbert.typed import shown

MAX_MISTAKES = 50


def evaluate_pairs(
    translator: Translator,
    data: str | Path | Sequence[tuple[str, str]],
    *,
    name: str,
    skip_bad: int = 0,
    settings: DecodeSettings | None = None,
    log: Log,
) -> Evaluation:
    """Translate the sources and compare the translations with the targets.

    Args:
        data: FILE or FILE,FILE; or pairs of a source and its translation.
        name: What the result calls the translator.
        settings: How to search; the usual search when not given.
    """
    settings = settings or translator.usual_settings()
    notes: list[str] = []
    if isinstance(data, str | Path):
        files = ParallelFiles.of(data, skip_bad=skip_bad)
        pairs, label = list(files.pairs()), str(data)
        notes += [f"left out {bad.where}: {bad.reason}" for bad in files.bad]
    else:
        pairs = [_pair(item, number) for number, item in enumerate(data, start=1)]
        label = f"{len(pairs)} pairs"
    found = translator.translate([pair.source for pair in pairs], settings)
    num_truncated, num_unfinished = (
        sum(one.truncated for one in found),
        sum(not one.finished for one in found),
    )
    notes += length_warnings(len(pairs), num_truncated, num_unfinished, translator, settings)
    for note in notes:
        log(note)
    evaluation = measured_translations(pairs, [one.text for one in found], data=label)
    report = evaluation.report
    assert isinstance(report, TranslationReport)
    return replace(
        evaluation,
        model=name,
        report=replace(report, num_truncated=num_truncated, num_unfinished=num_unfinished),
        truncated=num_truncated,
        tokens=sum(one.tokens for one in found),
        settings={"search": settings.method, "beam size": str(settings.beam_size)},
        notes=tuple(notes),
    )


def _pair(item: Any, number: int) -> SentencePair:
    """Return an item of Python code as a pair."""
    if not isinstance(item, list | tuple) or [type(side) for side in item[:2]] != [str, str]:
        raise UserError(f"pair {number}: expected a text and its translation, got {shown(item)}")
    return SentencePair(item[0], item[1], line=number)


def measured_translations(
    pairs: Sequence[SentencePair], guess: Sequence[str], *, data: str, tokenizer: str | None = None
) -> Evaluation:
    """Compare a translation of each source with its target.

    Args:
        data: What the result calls the pairs.
        tokenizer: How sacrebleu splits text into words; see `translation`.
    """
    targets = [pair.target for pair in pairs]
    return Evaluation(
        task="translate",
        model="",
        data=data,
        examples=len(pairs),
        report=translation(targets, guess, [pair.source for pair in pairs], tokenizer=tokenizer),
        mistakes=_worst(pairs, guess, data),
    )


def _worst(pairs: Sequence[SentencePair], guess: Sequence[str], label: str) -> tuple[Mistake, ...]:
    """Return the translations least like their targets by chrF, worst first; equal ones are not mistakes."""
    scores = sentence_chrf([pair.target for pair in pairs], guess)
    wrong = [index for index, pair in enumerate(pairs) if guess[index] != pair.target]
    wrong.sort(key=lambda index: scores[index])
    return tuple(
        Mistake(
            f"{label}:{pairs[index].line}",
            (
                Passage("source", pairs[index].source),
                Passage("reference", pairs[index].target),
                Passage("translation", guess[index]),
            ),
            gold="",
            guess="",
            score=scores[index],
            score_name="chrF",
        )
        for index in wrong[:MAX_MISTAKES]
    )

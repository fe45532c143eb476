"""Evaluate a translator on sentence pairs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from glassbert.data.sentence_pairs import ParallelFiles, SentencePair
from glassbert.evaluation.result import Evaluation
from glassbert.inference.decode import DecodeSettings
from glassbert.inference.translator import Translation, Translator, length_warnings
from glassbert.messages import Log
from glassbert.metrics.mistakes import Mistake, Passage
from glassbert.metrics.translation import sentence_chrf, translation

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
        pairs = [SentencePair(*pair[:2], line=number) for number, pair in enumerate(data, start=1)]
        label = f"{len(pairs)} pairs"
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    found = translator.translate(sources, settings)
    report = replace(
        translation(targets, [one.text for one in found], sources),
        num_truncated=sum(one.truncated for one in found),
        num_unfinished=sum(not one.finished for one in found),
    )
    counts = (len(pairs), report.num_truncated or 0, report.num_unfinished or 0)
    notes += length_warnings(*counts, translator, settings)
    for note in notes:
        log(note)
    return Evaluation(
        task="translate",
        model=name,
        data=label,
        examples=len(pairs),
        report=report,
        mistakes=_worst(pairs, found, label),
        truncated=report.num_truncated,
        tokens=sum(one.tokens for one in found),
        settings={"search": settings.method, "beam size": str(settings.beam_size)},
        notes=tuple(notes),
    )


def _worst(pairs: Sequence[SentencePair], found: Sequence[Translation], label: str) -> tuple[Mistake, ...]:
    """Return the translations least like their targets by chrF, worst first; equal ones are no mistakes."""
    scores = sentence_chrf([pair.target for pair in pairs], [one.text for one in found])
    wrong = [index for index, pair in enumerate(pairs) if found[index].text != pair.target]
    wrong.sort(key=lambda index: scores[index])
    return tuple(
        Mistake(
            f"{label}:{pairs[index].line}",
            (
                Passage("source", pairs[index].source),
                Passage("reference", pairs[index].target),
                Passage("translation", found[index].text),
            ),
            gold="",
            guess="",
            score=scores[index],
            score_name="chrF",
        )
        for index in wrong[:MAX_MISTAKES]
    )

"""BLEU and chrF by sacrebleu, the standard of the field: scores from 0 to 100, with signatures."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from glassbert.errors import UserError

# Upper bounds, in words of the source, of the groups by length; longer sources form the last group.
LENGTH_BORDERS = (5, 10, 15, 20, 30)

_FIRST_IDEOGRAPH, _LAST_IDEOGRAPH = "\u4e00", "\u9fff"
# Chinese has no spaces between words; there each character counts.
_WORD = re.compile(f"[{_FIRST_IDEOGRAPH}-{_LAST_IDEOGRAPH}]|[^\\s{_FIRST_IDEOGRAPH}-{_LAST_IDEOGRAPH}]+")


@dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences of some lengths."""

    words: str
    """How long their sources are, such as `6-10`."""
    sentences: int
    bleu: float


@dataclass(frozen=True)
class TranslationReport:
    """How close translations are to human ones."""

    bleu: float
    chrf: float
    bleu_signature: str
    """The rules of counting; only scores with the same signature can be compared."""
    chrf_signature: str
    by_length: tuple[LengthScore, ...]
    num_truncated: int | None = None
    """Sources longer than the model takes, whose ends were not translated; None if not counted."""
    num_unfinished: int | None = None
    """Translations that reached the maximum length without an end; None if not counted."""

    def metrics(self) -> dict[str, float]:
        """Return the scores by the names that gates use."""
        return {"bleu": self.bleu, "chrf": self.chrf}

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def translation(
    gold: Sequence[str],
    guess: Sequence[str],
    sources: Sequence[str] | None = None,
    *,
    tokenizer: str | None = None,
) -> TranslationReport:
    """Score one translation of each sentence against one reference.

    Args:
        sources: The sentences, for scores by length.
        tokenizer: How sacrebleu splits text into words; `zh` for Chinese, otherwise `13a`, when not given.
    """
    assert len(gold) == len(guess)
    metrics = _sacrebleu()
    rules = tokenizer or _tokenizer_for(gold)
    if rules not in metrics.BLEU.TOKENIZERS:
        raise UserError(f"bleu_tokenizer={rules!r}; expected one of {', '.join(metrics.BLEU.TOKENIZERS)}")
    bleu, chrf = metrics.BLEU(tokenize=rules), metrics.CHRF()
    # sacrebleu fails without a sentence.
    scores = [
        metric.corpus_score(list(guess), [list(gold)]).score if gold else 0.0 for metric in (bleu, chrf)
    ]
    return TranslationReport(
        bleu=scores[0],
        chrf=scores[1],
        bleu_signature=str(bleu.get_signature()) if gold else "",
        chrf_signature=str(chrf.get_signature()) if gold else "",
        by_length=_by_length(bleu, gold, guess, sources) if sources else (),
    )


def sentence_chrf(gold: Sequence[str], guess: Sequence[str]) -> list[float]:
    """Return the chrF of each translation."""
    chrf = _sacrebleu().CHRF()
    return [
        chrf.sentence_score(translated, [right]).score for right, translated in zip(gold, guess, strict=True)
    ]


def _sacrebleu() -> Any:
    """Return the module with sacrebleu's metrics."""
    try:
        from sacrebleu import metrics
    except ImportError:
        raise UserError(
            "BLEU and chrF are counted by sacrebleu; install it with `pip install 'glassbert[translate]'`"
        ) from None
    return metrics


def _by_length(
    bleu: Any, gold: Sequence[str], guess: Sequence[str], sources: Sequence[str]
) -> tuple[LengthScore, ...]:
    num_words = [len(_WORD.findall(source)) for source in sources]
    scores = []
    for first, last in zip(
        (1, *(border + 1 for border in LENGTH_BORDERS)), (*LENGTH_BORDERS, None), strict=True
    ):
        chosen = [
            index
            for index in range(len(sources))
            if num_words[index] >= first and (last is None or num_words[index] <= last)
        ]
        if chosen:
            score = bleu.corpus_score([guess[i] for i in chosen], [[gold[i] for i in chosen]]).score
            scores.append(LengthScore(f"{first}-{last}" if last else f"{first}+", len(chosen), score))
    return tuple(scores)


def _tokenizer_for(gold: Sequence[str]) -> str:
    """Return the rules for most of the text; Chinese has no spaces to split at."""
    text = "".join(gold)
    num_ideographs = sum(_FIRST_IDEOGRAPH <= character <= _LAST_IDEOGRAPH for character in text)
    return "zh" if num_ideographs * 4 > len(text) else "13a"

"""The published definitions of the scores, as slow and plain as they can be written: the oracles."""

import re
import string
from collections.abc import Callable, Mapping, Sequence

from glassbert.data.examples import Span

Scores = dict[str, float]


def words(text: str) -> list[str]:
    """SQuAD's normalisation: lower case, ASCII punctuation out, articles out, split at spaces."""
    kept = ""
    for character in text.lower():
        if character not in string.punctuation:
            kept += character
    return [word for word in re.sub(r"\b(a|an|the)\b", " ", kept).split()]


def overlap_f1(gold: Sequence[str], guess: Sequence[str]) -> float:
    """Twice the words in common, each used once, over all words."""
    left, common = list(gold), 0
    for word in guess:
        if word in left:
            left.remove(word)
            common += 1
    if common == 0:
        return 0.0
    precision, recall = common / len(guess), common / len(gold)
    return 2 * precision * recall / (precision + recall)


def squad_1(gold: Mapping[str, Sequence[str]], guess: Mapping[str, str]) -> Scores:
    """Version 1.1: the best over the accepted answers, then the mean."""
    exact = f1 = 0.0
    for key, answers in gold.items():
        exact += max(float(words(answer) == words(guess[key])) for answer in answers)
        f1 += max(overlap_f1(words(answer), words(guess[key])) for answer in answers)
    return {"exact_match": exact / len(gold), "f1": f1 / len(gold)}


def squad_2_of_one(answers: Sequence[str], guess: str) -> tuple[float, float]:
    """Version 2.0: answers without words do not count; with none left, only an empty guess is right."""
    accepted = [answer for answer in answers if words(answer)] or [""]
    exact = max(float(words(answer) == words(guess)) for answer in accepted)
    f1 = []
    for answer in accepted:
        if not words(answer) or not words(guess):
            f1.append(float(words(answer) == words(guess)))
        else:
            f1.append(overlap_f1(words(answer), words(guess)))
    return exact, max(f1)


def squad_2(gold: Mapping[str, Sequence[str]], guess: Mapping[str, str]) -> Scores:
    """The means over all questions, over those with and over those without an answer."""
    both = {key: squad_2_of_one(gold[key], guess[key]) for key in gold}
    scores = {}
    for prefix, keys in (
        ("", list(gold)),
        ("has_answer_", [key for key in gold if gold[key]]),
        ("no_answer_", [key for key in gold if not gold[key]]),
    ):
        for index, name in enumerate(("exact_match", "f1")):
            scores[prefix + name] = sum(both[key][index] for key in keys) / len(keys) if keys else 0.0
    return scores


def score_at(
    threshold: float,
    gold: Mapping[str, Sequence[str]],
    no_answer: Mapping[str, float],
    scores: Mapping[str, float],
) -> float:
    """What answering nothing above the threshold would give."""
    total = 0.0
    for key in gold:
        total += float(not gold[key]) if no_answer[key] > threshold else scores[key]
    return total / len(gold)


def script_threshold(
    gold: Mapping[str, Sequence[str]],
    guess: Mapping[str, str],
    no_answer: Mapping[str, float],
    scores: Mapping[str, float],
) -> tuple[float, float]:
    """SQuAD 2.0's walk: from answering nothing, answer one more question at a time, the surest first."""
    current = best = float(sum(not answers for answers in gold.values()))
    threshold = 0.0
    for key in sorted(no_answer, key=lambda key: no_answer[key]):
        if gold[key]:
            current += scores[key]
        elif guess[key]:
            current -= 1
        if current > best:
            best, threshold = current, no_answer[key]
    return best / len(gold), threshold


CMRC_MARKS = ["-", ":", "_", "*", "^", "/", "\\", "~", "`", "+", "=", "，", "。", "：", "？", "！", "“", "”"]
CMRC_MARKS += ["；", "’", "《", "》", "……", "·", "、", "「", "」", "（", "）", "－", "～", "『", "』"]


def cmrc_tokens(text: str, english: Callable[[str], list[str]]) -> list[str]:
    """Chinese characters one by one, what stands between them by ``english``, marks skipped."""
    tokens, run = [], ""
    for character in text.lower().strip():
        if character in CMRC_MARKS:
            continue
        if "\u4e00" <= character <= "\u9fa5":
            tokens += english(run) if run else []
            tokens.append(character)
            run = ""
        else:
            run += character
    return tokens + (english(run) if run else [])


def longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Try every pair of starts."""
    best = 0
    for i in range(len(a)):
        for j in range(len(b)):
            size = 0
            while i + size < len(a) and j + size < len(b) and a[i + size] == b[j + size]:
                size += 1
            best = max(best, size)
    return best


def cmrc(
    gold: Mapping[str, Sequence[str]], guess: Mapping[str, str], english: Callable[[str], list[str]]
) -> Scores:
    """The best over the accepted answers, then the mean."""
    exact = f1 = 0.0
    for key, answers in gold.items():
        exacts, f1s = [], []
        for answer in answers:
            plain = [
                "".join(c for c in text.lower().strip() if c not in CMRC_MARKS)
                for text in (answer, guess[key])
            ]
            exacts.append(float(plain[0] == plain[1]))
            of_gold, of_guess = cmrc_tokens(answer, english), cmrc_tokens(guess[key], english)
            common = longest_common(of_gold, of_guess)
            if common == 0:
                f1s.append(0.0)
                continue
            precision, recall = common / len(of_guess), common / len(of_gold)
            f1s.append(2 * precision * recall / (precision + recall))
        exact, f1 = exact + max(exacts), f1 + max(f1s)
    return {"exact_match": exact / len(gold), "f1": f1 / len(gold)}


def bio_tags(spans: Sequence[Span], length: int) -> list[str]:
    """Spans as the column of tags that conlleval reads."""
    tags = ["O"] * length
    for span in spans:
        tags[span.start : span.end] = [f"I-{span.label}"] * (span.end - span.start)
        tags[span.start] = f"B-{span.label}"
    return tags


def conlleval(
    gold: Sequence[Sequence[str]], guess: Sequence[Sequence[str]]
) -> dict[str, tuple[int, int, int]]:
    """Count right, gold and guessed phrases of each type the way conlleval walks down its columns."""
    counts: dict[str, list[int]] = {}
    for gold_tags, guess_tags in zip(gold, guess, strict=True):
        correct = ""  # the type of a phrase that is right so far
        before_gold = before_guess = "O"
        for gold_tag, guess_tag in zip([*gold_tags, "O"], [*guess_tags, "O"], strict=True):
            ended = [
                ends(before, tag) for before, tag in ((before_gold, gold_tag), (before_guess, guess_tag))
            ]
            started = [
                starts(before, tag) for before, tag in ((before_gold, gold_tag), (before_guess, guess_tag))
            ]
            if correct and all(ended) and before_gold[2:] == before_guess[2:]:
                counts[correct][0] += 1
                correct = ""
            elif correct and (ended[0] != ended[1] or gold_tag[2:] != guess_tag[2:]):
                correct = ""
            if all(started) and gold_tag[2:] == guess_tag[2:]:
                correct = gold_tag[2:]
            for index, (is_start, tag) in enumerate(
                zip(started, (gold_tag, guess_tag), strict=True), start=1
            ):
                if is_start:
                    counts.setdefault(tag[2:], [0, 0, 0])[index] += 1
            before_gold, before_guess = gold_tag, guess_tag
    return {name: (right, num_gold, num_guess) for name, (right, num_gold, num_guess) in counts.items()}


def ends(before: str, tag: str) -> bool:
    """Whether a phrase ends between two tags."""
    return before != "O" and (tag == "O" or tag.startswith("B-") or before[2:] != tag[2:])


def starts(before: str, tag: str) -> bool:
    """Whether a phrase starts between two tags."""
    return tag != "O" and (before == "O" or tag.startswith("B-") or before[2:] != tag[2:])

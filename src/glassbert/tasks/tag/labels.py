"""The labels of tag: checked before the first step, and placed on the pieces of their texts."""

from collections import Counter
from collections.abc import Sequence

from glassbert.data.examples import Span, TagExample
from glassbert.errors import DataError
from glassbert.tasks.tag.scheme import Placement, place
from glassbert.text.alignment import as_offsets
from glassbert.text.wordpiece.tokenizer import Tokenizer


def check_labels(train: Sequence[TagExample], dev: Sequence[TagExample]) -> tuple[list[str], list[str]]:
    """Return the labels in the order of their tags, and remarks for the user.

    Raise DataError for examples that nothing can be learned from.
    """
    counts = Counter(span.label for example in train for span in right_spans(example))
    if not counts:
        raise DataError(
            f"none of the {len(train)} training rows has a span; is this the right file or format?"
        )
    seen = set()
    for example in dev:
        for span in right_spans(example):
            if span.label not in counts:
                raise DataError(
                    f"{example.where}: label {span.label!r} is in no training row; the training rows have "
                    f"{', '.join(sorted(counts))}"
                )
            seen.add(span.label)
    notes = [
        f"{len(counts)} labels: " + ", ".join(f"{label} ({counts[label]:,})" for label in sorted(counts))
    ]
    unseen = sorted(set(counts) - seen)
    if dev and unseen:
        notes.append(f"no held-out row has the label {', '.join(unseen)}: how well it is found stays unknown")
    return sorted(counts), notes


def right_spans(example: TagExample) -> tuple[Span, ...]:
    """Return the spans of an example; raise DataError if it is not labelled."""
    if example.spans is None:
        raise DataError(
            f"{example.where}: the row has no spans, not even an empty list; label it or remove it"
        )
    return example.spans


def survey(examples: Sequence[TagExample], tokenizer: Tokenizer) -> Placement:
    """Return how well the spans of all examples fit the pieces of their texts."""
    is_word_start = tokenizer.vocabulary.starts_word
    placement = Placement()
    texts = [example.text for example in examples]
    for example, pieces in zip(examples, tokenizer.stream_pieces(texts), strict=True):
        placement += place(right_spans(example), as_offsets(pieces.offsets), is_word_start[pieces.ids])[1]
    return placement

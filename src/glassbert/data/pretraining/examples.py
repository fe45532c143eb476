"""The examples of an epoch: which tokens are text A and text B, and how the two belong together.

As in BERT, sentences of a document are taken until a target length is reached, and split into A and B at
random. A fair coin then decides whether the pair stays as it is or is flipped: B is replaced by text from
another document (the sentences it replaces are put back and come next), or A and B are swapped. Pairs that
are too long are cut as BERT cuts them.

Two things differ from BERT, so that the coin decides every pair. At least two sentences are taken where there
are two. The last sentence of a document, when it is left alone, makes a pair with what goes before it (BERT
gives it a random B, always). A document of one sentence makes an example without a pair.

Single texts take as many sentences as fit, and nothing is cut.

All documents are walked side by side: the work is done on arrays with one entry per document, or per section
of a long one.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from glassbert.data.pretraining.batches import IGNORED
from glassbert.data.pretraining.outline import Outline
from glassbert.data.random import Draw, below, heads, uniform
from glassbert.errors import DataError, UserError

KEPT, FLIPPED = 0, 1
NO_PAIR = IGNORED
"""The label of an example without a B."""

Integers = NDArray[np.int64]
Partner = Literal["any", "file"]
"""Where a random B may be from: any other document, or another document of the same file."""


@dataclass(frozen=True)
class Drafts:
    """The examples of an epoch as ranges of sentences, before any is cut; one entry per example."""

    firsts: Integers
    """The first sentence that the example uses up: its name within the epoch."""
    nexts: Integers
    """The sentence at which the document continues."""
    a_starts: Integers
    a_stops: Integers
    b_starts: Integers
    b_stops: Integers
    """As `b_starts` where there is no B."""
    pair_labels: Integers
    """`KEPT`, `FLIPPED` or `NO_PAIR`."""

    @staticmethod
    def joined(parts: "list[Drafts]") -> "Drafts":
        """Return all ``parts`` as one, in the order of the corpus."""
        order = np.argsort(np.concatenate([part.firsts for part in parts]))
        names = (field.name for field in fields(Drafts))
        return Drafts(*(np.concatenate([getattr(part, name) for part in parts])[order] for name in names))


@dataclass(frozen=True)
class Examples:
    """The examples of an epoch as ranges of tokens that fit; one entry each, in the order of the corpus."""

    a_starts: Integers
    a_lengths: NDArray[np.int32]
    b_starts: Integers
    b_lengths: NDArray[np.int32]
    """0 where there is no B."""
    pair_labels: NDArray[np.int8]
    """`KEPT`, `FLIPPED` or `NO_PAIR`."""

    def __len__(self) -> int:
        return len(self.pair_labels)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each example, [CLS] and [SEP] included."""
        return self.a_lengths + self.b_lengths + np.where(self.b_lengths > 0, 3, 2).astype(np.int32)


@dataclass(frozen=True)
class Walk:
    """How far each section is used up; only sections that are not finished."""

    firsts: Integers
    """The next sentence."""
    ends: Integers
    """The sentence after the last one of the section."""
    documents: Integers

    def after(self, nexts: Integers) -> "Walk":
        """Return the walk from ``nexts`` on, without the sections that are finished."""
        is_unfinished = nexts < self.ends
        return Walk(nexts[is_unfinished], self.ends[is_unfinished], self.documents[is_unfinished])


@dataclass(frozen=True)
class EpochPlan:
    """What the examples of an epoch are made from. Random choices are keyed by their first sentences."""

    outline: Outline
    room: int
    """Tokens of text that an example holds at most."""
    short_prob: float
    seed: int
    epoch: int

    def targets(self, firsts: Integers) -> Integers:
        """Return how many tokens each example aims at."""
        is_short = self.uniform(Draw.IS_SHORT, firsts) < self.short_prob
        return np.where(is_short, 2 + self.below(self.room - 1, Draw.SHORT_LENGTH, firsts), self.room)

    def uniform(self, draw: Draw, firsts: Integers) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each example."""
        return uniform(self.seed, draw, self.epoch, firsts)

    def below(self, limit: int | Integers, draw: Draw, firsts: Integers) -> Integers:
        """Return a whole number from 0 to before ``limit`` for each example."""
        return below(limit, self.seed, draw, self.epoch, firsts)


class Arrangement(Protocol):
    """How the sentences of documents become the texts of examples."""

    @property
    def num_texts(self) -> int:
        """1 for `[CLS] A [SEP]`, 2 for `[CLS] A [SEP] B [SEP]`."""

    def check(self, outline: Outline) -> None:
        """Refuse a corpus that has no such examples."""

    def next_examples(self, walk: Walk, plan: EpochPlan) -> Drafts:
        """Draw the next example of each section."""


class Singles:
    """Each example is one text."""

    num_texts = 1

    def check(self, outline: Outline) -> None:
        """Accept any corpus."""

    def next_examples(self, walk: Walk, plan: EpochPlan) -> Drafts:
        """Take as many sentences as fit, one at least."""
        fitting = plan.outline.fitting(walk.firsts, plan.targets(walk.firsts))
        stops = np.clip(fitting, walk.firsts + 1, walk.ends)
        return Drafts(walk.firsts, stops, walk.firsts, stops, stops, stops, np.full(len(stops), NO_PAIR))


class Taken(NamedTuple):
    """The sentences that pairs are made of; one entry per example."""

    firsts: Integers
    middles: Integers
    """Where B begins."""
    stops: Integers
    documents: Integers
    targets: Integers
    """How many tokens a pair aims at."""


class Pair(NamedTuple):
    """Text A and text B of each example, as sentences: where they start and stop, (2, examples) each."""

    a: Integers
    b: Integers
    nexts: Integers
    """The sentence at which the document continues, (examples,)."""


class Pairs(ABC):
    """Each example is two texts. Half of the pairs stay as they are in their document, half are flipped."""

    num_texts = 2

    def check(self, outline: Outline) -> None:
        """Refuse documents of which none has two sentences."""
        if int(np.diff(outline.document_borders).max()) == 1:
            raise DataError(
                "every document of the corpus is one sentence, and a pair needs two; give longer documents, "
                "or set objective.name to mlm"
            )

    def next_examples(self, walk: Walk, plan: EpochPlan) -> Drafts:
        """Take sentences until the target is reached, and make a pair of them."""
        outline, firsts, targets = plan.outline, walk.firsts, plan.targets(walk.firsts)
        stops = np.minimum(np.maximum(outline.reaching(firsts, targets), firsts + 2), walk.ends)
        middles = firsts + 1 + plan.below(stops - firsts - 1, Draw.CUT, firsts)
        document_starts = outline.document_borders[walk.documents]
        document_stops = outline.document_borders[walk.documents + 1]
        is_left_alone = (stops - firsts == 1) & (firsts > document_starts)
        has_pair = document_stops - document_starts > 1

        # A sentence that is left alone becomes B; A is what goes before it, which an earlier example used up.
        back = np.clip(outline.reaching_back(stops, targets), document_starts, firsts - 1)
        a = np.where(is_left_alone, (back, firsts), (firsts, middles))
        kept = Pair(a, np.stack((a[1], stops)), stops)
        flipped = self.flipped(kept, Taken(firsts, middles, stops, walk.documents, targets), plan)
        is_flipped = plan.uniform(Draw.FLIP, firsts) < 0.5
        pair = Pair(*(np.where(is_flipped, new, old) for new, old in zip(flipped, kept, strict=True)))
        a = np.where(has_pair, pair.a, (firsts, stops))
        b = np.where(has_pair, pair.b, (stops, stops))
        labels = np.where(has_pair, np.where(is_flipped, FLIPPED, KEPT), NO_PAIR)
        return Drafts(firsts, pair.nexts, a[0], a[1], b[0], b[1], labels)

    @abstractmethod
    def flipped(self, pair: Pair, taken: Taken, plan: EpochPlan) -> Pair:
        """Return what each pair becomes when it is flipped."""


class SwappedPairs(Pairs):
    """In a flipped pair, A and B are swapped."""

    def flipped(self, pair: Pair, taken: Taken, plan: EpochPlan) -> Pair:
        """Swap A and B."""
        return Pair(pair.b, pair.a, pair.nexts)


class RandomPairs(Pairs):
    """In a flipped pair, B is from another document."""

    def __init__(self, partner: Partner = "any") -> None:
        if partner not in get_args(Partner):
            raise UserError(f"partner={partner!r}; expected one of {', '.join(get_args(Partner))}")
        self.partner = partner

    def check(self, outline: Outline) -> None:
        """Refuse a single document too, and files that are not known where they decide."""
        if self.partner == "file" and outline.source_borders is None:
            raise DataError(
                "the corpus does not say which file a document is from, which objective.partner=file needs; "
                "build it again, or set objective.partner to any"
            )
        if outline.num_documents == 1:
            raise DataError(
                "the corpus is one document, so there is no other to take a random text from; put blank "
                "lines between documents and build it again, or set objective.name to mlm or sop"
            )
        super().check(outline)

    def flipped(self, pair: Pair, taken: Taken, plan: EpochPlan) -> Pair:
        """Fill the target up with sentences of another document; those of B are put back."""
        outline, borders = plan.outline, plan.outline.document_borders
        others = self.other_documents(taken, plan)
        sizes = borders[others + 1] - borders[others]
        starts = borders[others] + plan.below(sizes, Draw.OTHER_START, taken.firsts)
        missing = taken.targets - (outline.borders[taken.middles] - outline.borders[taken.firsts])
        stops = np.minimum(outline.reaching(starts, np.maximum(missing, 1)), borders[others + 1])
        return Pair(np.stack((taken.firsts, taken.middles)), np.stack((starts, stops)), taken.middles)

    def other_documents(self, taken: Taken, plan: EpochPlan) -> Integers:
        """Return the document that each random B is taken from: any but its own, where it may be from."""
        starts, counts = self._choices(taken.documents, plan.outline)
        others = starts + plan.below(counts - 1, Draw.OTHER_DOCUMENT, taken.firsts)
        return others + (others >= taken.documents)

    def _choices(self, documents: Integers, outline: Outline) -> tuple[Integers, Integers]:
        """Return the first document that a partner may be, and how many there are, its own included."""
        starts, counts = np.zeros_like(documents), np.full_like(documents, outline.num_documents)
        if self.partner == "any" or outline.source_borders is None:
            return starts, counts
        borders = outline.source_borders
        files = np.searchsorted(borders, documents, side="right") - 1
        in_file = borders[files + 1] - borders[files]
        has_others = in_file > 1  # a file of one document has no partner to give
        return np.where(has_others, borders[files], starts), np.where(has_others, in_file, counts)


def plan_epoch(arrangement: Arrangement, plan: EpochPlan) -> Examples:
    """Return the examples of an epoch."""
    return cut_to_room(draft_epoch(arrangement, plan), plan)


def draft_epoch(arrangement: Arrangement, plan: EpochPlan) -> Drafts:
    """Return the examples of an epoch, before any is cut."""
    borders, documents = plan.outline.sections()
    walk = Walk(borders[:-1], borders[1:], documents)
    parts = []
    while len(walk.firsts):
        parts.append(arrangement.next_examples(walk, plan))
        walk = walk.after(parts[-1].nexts)
    return Drafts.joined(parts)


def cut_to_room(drafts: Drafts, plan: EpochPlan) -> Examples:
    """Turn ranges of sentences into ranges of tokens, and cut those that are too long."""
    borders = plan.outline.borders
    a_starts, b_starts = borders[drafts.a_starts], borders[drafts.b_starts]
    num_a, num_b = borders[drafts.a_stops] - a_starts, borders[drafts.b_stops] - b_starts
    a_lengths, b_lengths = kept_lengths(num_a, num_b, plan.room)
    return Examples(
        a_starts + heads(num_a - a_lengths, plan.seed, Draw.FRONT_OF_A, plan.epoch, drafts.firsts),
        a_lengths.astype(np.int32),
        b_starts + heads(num_b - b_lengths, plan.seed, Draw.FRONT_OF_B, plan.epoch, drafts.firsts),
        b_lengths.astype(np.int32),
        drafts.pair_labels.astype(np.int8),
    )


def kept_lengths(num_a: Integers, num_b: Integers, room: int) -> tuple[Integers, Integers]:
    """Return what BERT leaves of A and B: it takes tokens one by one from the longer, from B if equal."""
    half = room // 2
    return (
        np.minimum(num_a, np.maximum(room - num_b, room - half)),
        np.minimum(num_b, np.maximum(room - num_a, half)),
    )

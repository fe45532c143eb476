"""The examples of an epoch: which runs of tokens are text A and text B, and what is to be said of the pair.

As in BERT, sentences of a document are taken until a target length is reached, and parted into A and B at
random. With `mlm+nsp`, B is as often replaced by text from another document; the sentences it stood for are
then put back and come next. With `sop` the two are as often swapped. Pairs that are too long are cut
as BERT cuts them.

Two things differ from BERT, so that a fair coin decides of every pair. At least two sentences are
taken where there are two. The last sentence of a document, when it is left alone, makes a pair with what goes
before it (BERT gives it a random B, always). A document of one sentence makes an example without a pair.

With `mlm` as many sentences are taken as fit, and nothing is cut.

All documents are walked side by side: the work is done on arrays with one entry per document, or per section
of a long one.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from glassbert.data.pretraining.outline import Outline
from glassbert.data.pretraining.settings import ObjectiveSettings
from glassbert.data.random import Draw, below, heads, uniform

IS_NEXT, NOT_NEXT = 0, 1
IN_ORDER, SWAPPED = 0, 1
NO_PAIR = -100
"""The label of an example without a B, which PyTorch's losses ignore by default."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Runs:
    """The examples of an epoch as runs of sentences, before any is cut; one entry per example."""

    firsts: Integers
    """The first sentence that the example uses up: its name within the epoch."""
    nexts: Integers
    """The sentence at which the document goes on."""
    a_starts: Integers
    a_stops: Integers
    b_starts: Integers
    b_stops: Integers
    """As `b_starts` where there is no B."""
    labels: Integers
    """Of the pair: 0 IsNext or in order, 1 NotNext or swapped, `NO_PAIR`."""

    @staticmethod
    def joined(parts: "list[Runs]") -> "Runs":
        """Return all ``parts`` as one, in the order of the corpus."""
        order = np.argsort(np.concatenate([part.firsts for part in parts]))
        names = (field.name for field in fields(Runs))
        return Runs(*(np.concatenate([getattr(part, name) for part in parts])[order] for name in names))


@dataclass(frozen=True)
class Examples:
    """The examples of an epoch as runs of tokens that fit; one entry each, in the order of the corpus."""

    a_starts: Integers
    a_lengths: NDArray[np.int32]
    b_starts: Integers
    b_lengths: NDArray[np.int32]
    """0 where there is no B."""
    labels: NDArray[np.int8]
    """Of the pair: 0 IsNext or in order, 1 NotNext or swapped, `NO_PAIR`."""

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each example, [CLS] and [SEP] included."""
        return self.a_lengths + self.b_lengths + np.where(self.b_lengths > 0, 3, 2).astype(np.int32)


@dataclass(frozen=True)
class _Walk:
    """Where each section stands that is not yet used up."""

    firsts: Integers
    """The next sentence."""
    ends: Integers
    """The sentence after the last one of the section."""
    documents: Integers

    def after(self, nexts: Integers) -> "_Walk":
        """Return the walk from ``nexts`` on, without the sections that are finished."""
        goes_on = nexts < self.ends
        return _Walk(nexts[goes_on], self.ends[goes_on], self.documents[goes_on])


def plan_epoch(outline: Outline, settings: ObjectiveSettings, epoch: int) -> Examples:
    """Return the examples of an epoch."""
    return cut_to_room(draw_runs(outline, settings, epoch), outline, settings, epoch)


def draw_runs(outline: Outline, settings: ObjectiveSettings, epoch: int) -> Runs:
    """Return the examples of an epoch, before any is cut."""
    drawer = _Drawer(outline, settings, epoch)
    draw: Callable[[_Walk], Runs] = drawer.pairs if settings.has_pairs else drawer.singles
    borders, documents = outline.sections()
    walk = _Walk(borders[:-1], borders[1:], documents)
    parts = []
    while len(walk.firsts):
        parts.append(draw(walk))
        walk = walk.after(parts[-1].nexts)
    return Runs.joined(parts)


class _Drawer:
    """Draws the next example of each section. Its choices are keyed by the example's first sentence."""

    def __init__(self, outline: Outline, settings: ObjectiveSettings, epoch: int) -> None:
        self.outline = outline
        self.settings = settings
        self.epoch = epoch

    def singles(self, walk: _Walk) -> Runs:
        """Take as many sentences as fit, one at least."""
        fitting = self.outline.fitting(walk.firsts, self._targets(walk.firsts))
        stops = np.clip(fitting, walk.firsts + 1, walk.ends)
        return Runs(walk.firsts, stops, walk.firsts, stops, stops, stops, np.full(len(stops), NO_PAIR))

    def pairs(self, walk: _Walk) -> Runs:
        """Take sentences until the target is reached, and make a pair of them."""
        firsts, targets = walk.firsts, self._targets(walk.firsts)
        stops = np.minimum(np.maximum(self.outline.reaching(firsts, targets), firsts + 2), walk.ends)
        middles = firsts + 1 + self._below(stops - firsts - 1, Draw.CUT, firsts)
        is_flipped = self._uniform(Draw.FLIP, firsts) < 0.5
        document_starts = self.outline.document_borders[walk.documents]
        document_stops = self.outline.document_borders[walk.documents + 1]
        is_left_alone = (stops - firsts == 1) & (firsts > document_starts)
        has_pair = document_stops - document_starts > 1

        # A sentence that is left alone becomes B; A is what goes before it, which an earlier example used up.
        back = np.clip(self.outline.reaching_back(stops, targets), document_starts, firsts - 1)
        nexts = stops
        a = np.where(is_left_alone, (back, firsts), (firsts, middles))
        b = np.stack((a[1], stops))
        if self.settings.objective == "sop":
            a, b = np.where(is_flipped, b, a), np.where(is_flipped, a, b)
        else:
            nexts = np.where(is_flipped, middles, stops)
            a = np.where(is_flipped, (firsts, middles), a)
            b = np.where(is_flipped, self._elsewhere(firsts, middles, walk.documents, targets), b)
        a = np.where(has_pair, a, (firsts, stops))
        b = np.where(has_pair, b, (stops, stops))
        labels = np.where(has_pair, is_flipped.astype(np.int64), NO_PAIR)
        return Runs(firsts, nexts, a[0], a[1], b[0], b[1], labels)

    def _elsewhere(
        self, firsts: Integers, middles: Integers, documents: Integers, targets: Integers
    ) -> tuple[Integers, Integers]:
        """Return sentences of another document that fill the target up."""
        borders = self.outline.document_borders
        others = self._below(self.outline.num_documents - 1, Draw.OTHER_DOCUMENT, firsts)
        others += others >= documents
        sizes = borders[others + 1] - borders[others]
        starts = borders[others] + self._below(sizes, Draw.OTHER_START, firsts)
        missing = targets - (self.outline.borders[middles] - self.outline.borders[firsts])
        stops = self.outline.reaching(starts, np.maximum(missing, 1))
        return starts, np.minimum(stops, borders[others + 1])

    def _targets(self, firsts: Integers) -> Integers:
        room = self.settings.room
        is_short = self._uniform(Draw.IS_SHORT, firsts) < self.settings.short_prob
        return np.where(is_short, 2 + self._below(room - 1, Draw.SHORT_LENGTH, firsts), room)

    def _uniform(self, draw: Draw, firsts: Integers) -> NDArray[np.float64]:
        return uniform(self.settings.seed, draw, self.epoch, firsts)

    def _below(self, limit: int | Integers, draw: Draw, firsts: Integers) -> Integers:
        return below(limit, self.settings.seed, draw, self.epoch, firsts)


def cut_to_room(runs: Runs, outline: Outline, settings: ObjectiveSettings, epoch: int) -> Examples:
    """Turn runs of sentences into runs of tokens, and cut those that are too long."""
    a_starts, b_starts = outline.borders[runs.a_starts], outline.borders[runs.b_starts]
    num_a, num_b = outline.borders[runs.a_stops] - a_starts, outline.borders[runs.b_stops] - b_starts
    a_lengths, b_lengths = kept_lengths(num_a, num_b, settings.room)
    return Examples(
        a_starts + heads(num_a - a_lengths, settings.seed, Draw.FRONT_OF_A, epoch, runs.firsts),
        a_lengths.astype(np.int32),
        b_starts + heads(num_b - b_lengths, settings.seed, Draw.FRONT_OF_B, epoch, runs.firsts),
        b_lengths.astype(np.int32),
        runs.labels.astype(np.int8),
    )


def kept_lengths(num_a: Integers, num_b: Integers, room: int) -> tuple[Integers, Integers]:
    """Return what BERT leaves of A and B: it takes tokens one by one from the longer, from B if equal."""
    half = room // 2
    return (
        np.minimum(num_a, np.maximum(room - num_b, room - half)),
        np.minimum(num_b, np.maximum(room - num_a, half)),
    )

"""Which tokens of a batch are to be predicted, and what replaces them.

Legend: T tokens of a packed batch, M tokens to predict.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from glassbert.data.pretraining.batches import Labels
from glassbert.data.pretraining.packing import Moment, Packing
from glassbert.data.random import Draw, below, uniform
from glassbert.errors import UserError
from glassbert.ranges import Share, ShareAboveZero
from glassbert.text.vocabulary import Vocabulary, is_unused
from glassbert.typed import check_fields

NEVER = 2.0
"""Above every roll."""


@dataclass(frozen=True, kw_only=True)
class Masking:
    """How many tokens are hidden, and how."""

    select_prob: ShareAboveZero = 0.15
    """The share of tokens that are to be predicted."""
    mask_prob: Share = 0.8
    """Of those, the share that become [MASK]."""
    random_prob: Share = 0.1
    """Of those, the share that become a random token; the rest stays as it is."""
    whole_words: bool = False
    """Whether all pieces of a word are chosen, and hidden, together."""
    final_select_prob: ShareAboveZero | None = None
    """What `select_prob` becomes, step by step, at the end of the run; without it, it stays as it is."""

    def __post_init__(self) -> None:
        check_fields(self, "mask")
        if self.mask_prob + self.random_prob > 1 + 1e-9:
            raise UserError(
                f"mask_prob={self.mask_prob} and random_prob={self.random_prob}; expected shares that add up "
                "to at most 1, such as 0.8 and 0.1"
            )

    def at(self, moment: Moment) -> "Masking":
        """Return how to mask at this moment of the run."""
        if self.final_select_prob is None:
            return self
        change = self.final_select_prob - self.select_prob
        rate = self.select_prob + change * moment.share_done
        return replace(self, select_prob=rate, final_select_prob=None)

    @property
    def mean_select_prob(self) -> float:
        """The share of tokens that are to be predicted, over the whole run."""
        final = self.select_prob if self.final_select_prob is None else self.final_select_prob
        return (self.select_prob + final) / 2


class Masker:
    """Hides tokens of packed batches, as seed, epoch, example and position decide."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._mask_id = vocabulary.mask_id
        self.is_maskable = maskable(vocabulary)
        is_drawn = self.is_maskable.copy()
        is_drawn[[id_ for id_, piece in enumerate(vocabulary.pieces) if is_unused(piece)]] = False
        self._replacements = np.flatnonzero(is_drawn)
        if not len(self._replacements):
            raise UserError("the vocabulary holds special and unused pieces only; there is no token to draw")

    def __call__(
        self, ids: NDArray[np.int64], packing: Packing, moment: Moment, masking: Masking
    ) -> tuple[NDArray[np.int64], Labels]:
        """Return the ids with some hidden, (T,), and what was there, (M,); ``ids`` are left untouched."""
        dice = self.roll(ids, packing, moment, masking)
        masked = ids.copy()
        is_replaced = dice.fates < masking.mask_prob + masking.random_prob
        masked[dice.places[is_replaced]] = dice.replacements[is_replaced]
        masked[dice.places[dice.fates < masking.mask_prob]] = self._mask_id
        return masked, Labels(ids[dice.places], dice.places)

    def roll(self, ids: NDArray[np.int64], packing: Packing, moment: Moment, masking: Masking) -> "Dice":
        """Return the random numbers that decide what happens to each token."""
        seed, epoch = moment.seed, moment.epoch
        examples, positions = packing.examples[packing.owners], packing.positions()
        heads = packing.word_heads() if masking.whole_words else np.arange(len(ids))
        rolls = uniform(seed, Draw.CHOICE, epoch, examples, positions)[heads]
        rolls[~self.is_maskable[ids]] = NEVER
        # BERT predicts at least one token of each example: here the one with the lowest roll.
        lowest = np.minimum.reduceat(rolls, packing.starts)[packing.owners]
        is_chosen = (rolls < NEVER) & ((rolls < masking.select_prob) | (rolls == lowest))
        places = np.flatnonzero(is_chosen)
        head = heads[places]
        draws = below(
            len(self._replacements), seed, Draw.REPLACEMENT, epoch, examples[places], positions[places]
        )
        return Dice(
            choices=rolls,
            places=places,
            fates=uniform(seed, Draw.FATE, epoch, examples[head], positions[head]),
            replacements=self._replacements[draws],
        )


@dataclass(frozen=True)
class Dice:
    """What was rolled for a batch; whole words share the roll of their first token."""

    choices: NDArray[np.float64]
    """A token is chosen if this is below `select_prob`, (T,); `NEVER` for tokens that cannot be."""
    places: NDArray[np.int64]
    """The tokens that were chosen, ascending, (M,)."""
    fates: NDArray[np.float64]
    """Below `mask_prob`, a chosen token becomes [MASK]; in the next `random_prob`, a random one; (M,)."""
    replacements: NDArray[np.int64]
    """The random id that is ready for each chosen token, (M,)."""


def maskable(vocabulary: Vocabulary) -> NDArray[np.bool_]:
    """Return for each id whether it may be chosen: all but the special tokens, [UNK] among them."""
    is_maskable = np.ones(len(vocabulary), dtype=np.bool_)
    is_maskable[list(vocabulary.special_ids)] = False
    return is_maskable

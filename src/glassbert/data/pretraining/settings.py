"""What an objective can be told."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from glassbert.data.pretraining.masking import Masking
from glassbert.errors import UserError

ObjectiveName = Literal["mlm", "mlm+nsp", "sop"]


@dataclass(frozen=True, kw_only=True)
class ObjectiveSettings:
    """How a corpus becomes examples and batches."""

    objective: ObjectiveName = "mlm+nsp"
    """Masked tokens alone, or with them whether B follows A (mlm+nsp) or which of both came first (sop)."""
    max_length: int = 128
    """Tokens of the longest example, [CLS] and [SEP] included."""
    batch_tokens: int = 8192
    """Tokens that a batch holds at most, [CLS] and [SEP] included."""
    mask: Masking = field(default_factory=Masking)
    """Which tokens are hidden, and how."""
    short_prob: float = 0.1
    """The share of examples that aim at a random shorter length, so that the model meets all lengths."""
    seed: int
    """What all choices depend on."""

    def __post_init__(self) -> None:
        if self.objective not in get_args(ObjectiveName):
            raise UserError(
                f"objective={self.objective!r} is not known; use one of {', '.join(get_args(ObjectiveName))}"
            )
        if self.max_length < self.num_specials + 2:
            raise UserError(
                f"max_length={self.max_length} leaves no room; expected at least {self.num_specials + 2}"
            )
        if self.batch_tokens < self.max_length:
            raise UserError(
                f"batch_tokens={self.batch_tokens} is less than a sequence of max_length={self.max_length}; "
                f"set it to {self.max_length} or more, or shorten max_length"
            )
        if not 0 <= self.short_prob <= 1:
            raise UserError(f"short_prob={self.short_prob}; expected a share from 0 to 1, such as 0.1")

    @property
    def has_pairs(self) -> bool:
        """Whether an example is a pair of texts."""
        return self.objective != "mlm"

    @property
    def num_specials(self) -> int:
        """[CLS] A [SEP], and for a pair B [SEP]."""
        return 3 if self.has_pairs else 2

    @property
    def room(self) -> int:
        """Tokens of text that an example holds at most."""
        return self.max_length - self.num_specials

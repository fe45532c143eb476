"""Decoding: from source ids to the best target ids, or to sampled ones.

One loop serves greedy, beam and sampled decoding: a step of the network for every hypothesis of every
sequence, one search over the vocabulary for all of them; finished sequences leave the batch.

Legend: B sequences still being written, W hypotheses of each, C candidates, t tokens written so far.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

import torch
from torch import Tensor

from glassbert.data.random import Draw, uniform
from glassbert.errors import UserError
from glassbert.inference.devices import Device, PrecisionName
from glassbert.inference.next_tokens import Candidates, likeliest, sampled
from glassbert.inference.prepare import choose_device, prepared
from glassbert.model.layout import Batch
from glassbert.model.lstm import Lstm
from glassbert.model.packed import in_batches
from glassbert.model.seq2seq import SequenceToSequence, Transformer
from glassbert.ranges import LENGTH_PENALTY, TEMPERATURE, Beam, Count, Length, Seed, ShareAboveZero
from glassbert.typed import check_fields

_CPU = torch.device("cpu")

Method = Literal["greedy", "beam", "sample"]

BATCH_TOKENS = 4096
"""Source tokens of a batch: enough rows for efficient products, nearly equal lengths, a small cache.
It is divided by the square root of W: fewer sequences, and still more rows."""


@dataclass(frozen=True, kw_only=True)
class DecodeSettings:
    """How to search for a target."""

    method: Method = "beam"
    """greedy: always the likeliest token; beam: the likeliest of several hypotheses; sample: at random."""
    beam_size: Beam = 4
    """Hypotheses that a beam search follows at once."""
    num_hypotheses: Beam = 1
    """How many targets to return for a source, best first."""
    length_penalty: Annotated[float, LENGTH_PENALTY] = 1.0
    """Exponent a of the score: log P(Y) / |Y|^a, where |Y| counts the end token; 0 favours short targets."""
    max_length: Length = 256
    """Tokens, the end included, after which a target is cut off."""
    temperature: Annotated[float, TEMPERATURE] = 1.0
    """sample: below 1 likely tokens become likelier, above 1 all become more alike."""
    top_k: Count | None = None
    """sample: draw among this many likeliest tokens only."""
    top_p: ShareAboveZero = 1.0
    """sample: draw among the likeliest tokens that together reach this probability."""
    seed: Seed = 0
    """sample: the same seed gives the same targets, whatever else is in the batch."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.method != "sample" and self.num_hypotheses > self.width:
            raise UserError(
                f"num_hypotheses={self.num_hypotheses} exceeds the {self.width} that {self.method} follows; "
                "use the method beam with a larger beam_size, or sample"
            )

    @property
    def width(self) -> int:
        """Hypotheses followed at once for one sequence."""
        return self.beam_size if self.method == "beam" else 1

    def score(self, log_prob: float, num_tokens: int) -> float:
        """Return what hypotheses are ranked by; ``num_tokens`` counts the end token."""
        return log_prob / num_tokens**self.length_penalty


@dataclass(frozen=True)
class Hypothesis:
    """A target that was found."""

    ids: tuple[int, ...]
    """Without the start and the end token."""
    score: float
    """Its rank is by this; see `DecodeSettings.length_penalty`."""
    log_prob: float
    """The natural logarithm of its probability under the model, the end included."""
    is_finished: bool
    """False when the longest length was reached before the end."""


@dataclass(frozen=True)
class BeamStep:
    """What a search did in one step, for one sequence."""

    ids: tuple[int, ...]
    """The token of each candidate, likeliest first."""
    parents: tuple[int, ...]
    """Which of the hypotheses kept by the previous step each would continue."""
    log_probs: tuple[float, ...]
    """Of each candidate as a whole."""
    kept: tuple[int, ...]
    """The candidates that are kept, in the order that `parents` of the next step counts them."""
    ended: tuple[int, ...]
    """The candidates that were set aside as targets."""


OnStep = Callable[[BeamStep], None]


@dataclass
class _Search:
    """The state of one batch."""

    settings: DecodeSettings
    end_id: int
    last_step: int
    places: list[int]
    """Index in the call of the sequence at each place of the batch."""
    tokens: Tensor
    """(B, W, t)"""
    scores: Tensor
    """(B, W)"""
    on_step: OnStep | None = None
    found: dict[int, list[Hypothesis]] = field(default_factory=dict)

    def advance(self, candidates: Candidates, step: int) -> tuple[Tensor, Tensor]:
        """Set ended hypotheses aside; return the tokens and parents to continue with, (B, W) each."""
        width = self.settings.width
        is_end = candidates.ids == self.end_id
        leaves = is_end[:, :width] | (step == self.last_step)
        if leaves.any():
            self._set_aside(leaves, candidates, step)
        if candidates.ids.size(1) == width:
            ids, parents, self.scores = candidates.ids, candidates.parents, candidates.scores
            ranks = torch.arange(width)[None]
        else:
            # The best candidates that do not end. There are enough: each parent can end in one way only.
            kept = candidates.scores.masked_fill(is_end, -math.inf).topk(width, dim=1)
            ids, parents = candidates.ids.gather(1, kept.indices), candidates.parents.gather(1, kept.indices)
            self.scores, ranks = kept.values, kept.indices
        if self.on_step:
            self.on_step(_beam_step(candidates, ranks, leaves))
        history = self.tokens.gather(1, parents[:, :, None].expand(-1, -1, self.tokens.size(2)))
        self.tokens = torch.cat([history, ids[:, :, None]], dim=2)
        return ids, parents

    def is_done(self, step: int) -> list[bool]:
        """Return for each place whether its sequence needs no further step."""
        is_last, width = step == self.last_step, self.settings.width
        return [is_last or len(self.found.get(index, ())) >= width for index in self.places]

    def keep(self, order: Tensor) -> None:
        """Keep the sequences at the places of ``order``."""
        self.places = [self.places[place] for place in order.tolist()]
        self.tokens, self.scores = self.tokens[order], self.scores[order]

    def _set_aside(self, leaves: Tensor, candidates: Candidates, step: int) -> None:
        rows, ranks = leaves.nonzero().unbind(1)
        parents, ids = candidates.parents[rows, ranks], candidates.ids[rows, ranks]
        written = torch.cat([self.tokens[rows, parents], ids[:, None]], dim=1).tolist()
        log_probs = candidates.scores[rows, ranks].tolist()
        for row, target, log_prob in zip(rows.tolist(), written, log_probs, strict=True):
            is_finished = target[-1] == self.end_id
            ids_alone = tuple(target[:-1] if is_finished else target)
            score = self.settings.score(log_prob, step + 1)
            hypothesis = Hypothesis(ids_alone, score, log_prob, is_finished)
            self.found.setdefault(self.places[row], []).append(hypothesis)


def _beam_step(candidates: Candidates, kept: Tensor, ended: Tensor) -> BeamStep:
    """Return what happened to the first sequence of a batch."""
    return BeamStep(
        ids=tuple(candidates.ids[0].tolist()),
        parents=tuple(candidates.parents[0].tolist()),
        log_probs=tuple(candidates.scores[0].tolist()),
        kept=tuple(kept[0].tolist()),
        ended=tuple(ended[0].nonzero()[:, 0].tolist()),
    )


@dataclass(frozen=True)
class Decoder:
    """A network ready to write targets. It holds no state between calls, so threads can share it."""

    network: SequenceToSequence
    batch_tokens: int = BATCH_TOKENS
    device: torch.device = _CPU

    @classmethod
    def of(
        cls,
        network: Transformer | Lstm,
        *,
        device: Device = "auto",
        precision: PrecisionName = "float32",
        batch_tokens: int = BATCH_TOKENS,
    ) -> "Decoder":
        """Return a decoder over a copy of ``network``, whose weights must not change from now on.

        Args:
            device: `auto` is a GPU if there is one.
            precision: Of the weights and of what flows between layers; probabilities are float32.
        """
        place = choose_device(device)
        twin = prepared(network, device=place, precision=precision, has_long_batches=False, also=["output"])
        return cls(twin, batch_tokens, place)

    @torch.inference_mode()
    def decode(
        self, sources: Sequence[Sequence[int]], settings: DecodeSettings, *, first_index: int = 0
    ) -> list[list[Hypothesis]]:
        """Return the targets of each source, best first.

        Args:
            first_index: Index of the first source in a longer stream. Sampling depends on it, so a stream
                gives the same targets wherever it is cut.
        """
        self._check(settings)
        # The sampled targets of one source are independent, so each has a place of its own.
        num_copies = settings.num_hypotheses if settings.method == "sample" else 1
        copies = [source for source in sources for _ in range(num_copies)]
        found = in_batches(
            lambda indices: self._decode_batch(copies, indices, settings, first_index * num_copies),
            [len(source) for source in copies],
            batch_tokens=max(1, int(self.batch_tokens / math.sqrt(settings.width))),
        )
        by_source = [
            [hypothesis for copy in found[first : first + num_copies] for hypothesis in copy]
            for first in range(0, len(found), num_copies)
        ]
        return [sorted(each, key=lambda h: -h.score)[: settings.num_hypotheses] for each in by_source]

    @torch.inference_mode()
    def watch(
        self, source: Sequence[int], settings: DecodeSettings
    ) -> tuple[list[Hypothesis], list[BeamStep]]:
        """Return the targets of one source, best first, and every step of the search."""
        self._check(settings)
        steps: list[BeamStep] = []
        (found,) = self._decode_batch([source], [0], settings, 0, steps.append)
        return sorted(found, key=lambda h: -h.score), steps

    def _decode_batch(
        self,
        sources: Sequence[Sequence[int]],
        indices: list[int],
        settings: DecodeSettings,
        first_index: int,
        on_step: OnStep | None = None,
    ) -> list[list[Hypothesis]]:
        config, device = self.network.config, self.device
        state = self.network.start(Batch.from_lists([sources[index] for index in indices]).to(device))
        ids, parents = torch.full((len(indices), 1), config.decoder_start_token_id, device=device), None
        search = _Search(
            settings=settings,
            end_id=config.eos_token_id,
            last_step=min(settings.max_length, config.max_length) - 1,
            places=indices,
            tokens=torch.empty(len(indices), 1, 0, dtype=torch.int64, device=device),
            scores=torch.zeros(len(indices), 1, dtype=torch.float32, device=device),
            on_step=on_step,
        )
        for step in range(search.last_step + 1):
            hidden = self.network.step(state, ids, parents)
            logits = self.network.output(hidden).float().view(*ids.shape, -1)
            logits[..., config.decoder_start_token_id] = -math.inf  # training never predicts it
            candidates = self._propose(logits, search, step, first_index)
            ids, parents = search.advance(candidates, step)
            is_done = search.is_done(step)
            if all(is_done):
                break
            if any(is_done):
                order = state.leave(is_done)
                search.keep(order)
                ids, parents = ids[order], parents[order]
        return [search.found[index] for index in indices]

    def _propose(self, logits: Tensor, search: _Search, step: int, first_index: int) -> Candidates:
        settings = search.settings
        if settings.method != "sample":
            width = settings.width
            # Up to half of the candidates may end; the other half must be enough.
            return likeliest(logits, search.scores, 1 if width == 1 else 2 * width)
        index = torch.tensor(search.places).numpy() + first_index
        chances = torch.from_numpy(uniform(settings.seed, Draw.SAMPLED_TOKEN, index, step))
        return sampled(
            logits,
            search.scores,
            chances,
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
        )

    def _check(self, settings: DecodeSettings) -> None:
        num_choices = self.network.config.vocab_size - 2  # without the start and the end
        if settings.width > num_choices:
            raise UserError(
                f"beam_size={settings.beam_size} exceeds the {num_choices} tokens of the vocabulary that can "
                "follow the start; choose a smaller beam"
            )

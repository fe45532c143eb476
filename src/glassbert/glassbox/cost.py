"""What a pass costs: operations and memory, as functions of an encoder's shape and of the length.

Legend: B blocks, D hidden size, I inner width, N heads, H head size, L tokens of a sequence, V vocabulary.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from glassbert.config import BertConfig
from glassbert.errors import UserError
from glassbert.glassbox.formula import Formula, formula

DEFAULT_LENGTHS = (128, 512)
BYTES_PER_NUMBER = 4
# The backward pass forms two products, the gradients of input and weight, for each one of the forward pass.
TRAINING_FACTOR = 3


@dataclass(frozen=True)
class Cost:
    """Operations and activation memory at one length.

    Operations are those of matrix products, a multiplication and an addition counted as two. Activations are
    4-byte numbers in a batch of sequences of this length, run by our own network on a CPU.
    """

    length: int
    projections: Formula
    """Operations per token: queries, keys, values and output of all attentions."""
    scores_and_context: Formula
    """Operations per token: the two products of attention that grow with the length."""
    feed_forward: Formula
    """Operations per token."""
    pooler: Formula
    """Operations per sequence."""
    mlm: Formula
    """Operations per token that is predicted."""
    inference: Formula
    """Numbers per token alive at the peak of the fast path, weights not counted."""
    training: Formula
    """Numbers per token that autograd keeps of the encoder until the backward pass."""
    mlm_training: Formula
    """Numbers that autograd keeps of MLM head and loss, per token that is predicted."""

    @property
    def forward_flops_per_token(self) -> int:
        """Operations of all blocks."""
        return self.projections.value + self.scores_and_context.value + self.feed_forward.value

    @property
    def training_flops_per_token(self) -> int:
        """Operations of a forward and a backward pass, by the usual rule."""
        return TRAINING_FACTOR * self.forward_flops_per_token

    @property
    def inference_bytes_per_token(self) -> int:
        """Activations at the peak of the fast path."""
        return BYTES_PER_NUMBER * self.inference.value

    @property
    def training_bytes_per_token(self) -> int:
        """Activations kept for the backward pass."""
        return BYTES_PER_NUMBER * self.training.value


@dataclass(frozen=True)
class WeightMemory:
    """Bytes that the parameters take, by the way they are stored, and what training adds."""

    float32: int
    float16: int
    int8: int
    """One byte a parameter; scales are not counted."""
    gradients: int
    optimiser: int
    """AdamW's two running means, in float32."""


def cost(config: BertConfig, length: int) -> Cost:
    """Return what sequences of ``length`` tokens cost."""
    if not 1 <= length <= config.max_position_embeddings:
        raise UserError(
            f"length={length}; expected 1 to {config.max_position_embeddings}, the longest of this model"
        )
    symbols = {
        "B": config.num_hidden_layers,
        "D": config.hidden_size,
        "I": config.intermediate_size,
        "N": config.num_attention_heads,
        "H": config.head_size,
        "L": length,
        "V": config.vocab_size,
    }
    return Cost(
        length=length,
        projections=formula("8 x B x D x D", symbols),
        scores_and_context=formula("4 x B x L x D", symbols),
        feed_forward=formula(f"{6 if config.gated_mlp else 4} x B x D x I", symbols),
        pooler=formula("2 x D x D", symbols),
        mlm=formula("2 x D x D + 2 x D x V", symbols),
        inference=max((formula(at, symbols) for at in _peaks(config)), key=lambda peak: peak.value),
        training=formula(_kept_by_encoder(config), symbols),
        mlm_training=formula(_kept_by_mlm(config), symbols),
    )


def default_lengths(config: BertConfig) -> tuple[int, ...]:
    """Return the lengths that a table shows: the usual ones, or the longest of a model that is shorter."""
    longest = config.max_position_embeddings
    return tuple(length for length in DEFAULT_LENGTHS if length <= longest) or (longest,)


def weight_memory(num_parameters: int) -> WeightMemory:
    """Return the bytes of this many parameters."""
    return WeightMemory(
        float32=4 * num_parameters,
        float16=2 * num_parameters,
        int8=num_parameters,
        gradients=4 * num_parameters,
        optimiser=2 * 4 * num_parameters,
    )


def _peaks(config: BertConfig) -> Iterable[str]:
    """Yield the numbers alive per token at each moment that can be the peak of a block."""
    # Pre-norm keeps the stream and its normalised copy while a sublayer runs.
    stream = 2 if config.norm_position == "pre" else 1
    yield f"{stream + 4} x D"  # with q, k, v and the context; torch's own log-sums are not counted
    if config.positions == "rotary":
        yield f"{stream + 5} x D + 2 x H"  # with q, k, v, the halves of the turned k, sines and cosines
    # The caller still holds the block's input beside that of the feed-forward.
    yield f"{stream + 2} x D + I"
    if config.gated_mlp:
        yield f"{stream + 1} x D + 3 x I"


def _kept_by_encoder(config: BertConfig) -> str:
    """Return the numbers that one token leaves for the backward pass, from embeddings to the last block."""
    has_dropout = config.hidden_dropout_prob > 0
    # Each block: input, q, k, v, context, two sums and the vector between its halves.
    terms = [f"{8 + 2 * has_dropout} x B x D", f"{_kept_widths(config)} x B x I"]
    if config.attention_probs_dropout_prob > 0:
        # The fused kernel has no dropout on a CPU: probabilities, dropout and their product are kept.
        terms.append("3 x B x N x L")
    else:
        terms.append("B x N")  # one log-sum per head
    if config.positions == "rotary":
        terms.append("2 x B x H")  # sines and cosines, of q and of k
    terms.append("4 x B")  # mean and deviation of two LayerNorms
    is_pre_norm = config.norm_position == "pre"
    terms.append(
        f"{1 + has_dropout + is_pre_norm} x D"
    )  # the embeddings' sum and dropout; the final norm's input
    indices = 3 if config.positions == "learned" else 2  # of 8 bytes: id, segment, position
    terms.append(str(2 + 2 * is_pre_norm + 2 * indices))
    return " + ".join(terms)


def _kept_widths(config: BertConfig) -> int:
    """Return how many vectors of the inner width a feed-forward keeps for each token."""
    # ReLU's gradient needs its output alone, which the next product keeps anyway.
    before_activation = config.hidden_act != "relu"
    return 1 + before_activation + 2 * config.gated_mlp


def _kept_by_mlm(config: BertConfig) -> str:
    """Return the numbers that one predicted token leaves for the backward pass; the loss keeps V of them."""
    # 8-byte indices of its place and of its label; mean and deviation of the LayerNorm.
    return f"{3 + (config.hidden_act != 'relu')} x D + V + 6"

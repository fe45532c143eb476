"""Every dataclass that is saved beside weights. Field names are those of BERT's official config.json."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Literal

from glassbert.arguments import checked
from glassbert.errors import UserError
from glassbert.heads import HEADS, PARTS, Part
from glassbert.heads import Head as Head
from glassbert.ranges import Range, ShareBelowOne, VocabularySize
from glassbert.typed import check_fields, shown

Activation = Literal["gelu", "gelu_new", "relu", "silu"]
NormPosition = Literal["post", "pre"]
Positions = Literal["learned", "sinusoidal", "rotary"]
# Sizes far beyond any model that exists: absurd ones are refused before anything is built.
TokenId = Annotated[int, Range(0, 2**24)]
Width = Annotated[int, Range(1, 2**16)]
Depth = Annotated[int, Range(1, 1000)]
LengthLimit = Annotated[int, Range(1, 2**20)]
ProblemType = Literal["single_label_classification", "multi_label_classification", "regression"]


@dataclass(frozen=True, kw_only=True)
class BertConfig:
    """The shape of an encoder."""

    vocab_size: VocabularySize = 30522
    """Rows of the token embedding."""
    hidden_size: Width = 768
    """Width of a token's vector between blocks."""
    num_hidden_layers: Depth = 12
    """Number of blocks."""
    num_attention_heads: Width = 12
    """Heads per attention; each has hidden_size / num_attention_heads features."""
    intermediate_size: Annotated[int, Range(1, 2**18)] = 3072
    """Width inside the feed-forward network."""
    hidden_act: Activation = "gelu"
    """Activation of the feed-forward network and of the MLM head."""
    hidden_dropout_prob: ShareBelowOne = 0.1
    """Dropout after the embeddings and after each sublayer."""
    attention_probs_dropout_prob: ShareBelowOne = 0.1
    """Dropout on the attention probabilities."""
    max_position_embeddings: LengthLimit = 512
    """Longest sequence in tokens, [CLS] and [SEP] included."""
    type_vocab_size: Width = 2
    """Number of segments."""
    initializer_range: Annotated[float, Range(0, 100)] = 0.02
    """Standard deviation of the initial weights."""
    layer_norm_eps: Annotated[float, Range(0, 1, has_low=False)] = 1e-12
    """Added to the variance inside LayerNorm."""
    pad_token_id: TokenId = 0
    """The id of [PAD]; padded input may hold it, packed batches never do."""
    classifier_dropout: ShareBelowOne | None = None
    """Dropout before a task head; hidden_dropout_prob when absent."""
    tie_word_embeddings: bool = True
    """Use the token embedding's matrix as the MLM decoder."""
    norm_position: NormPosition = "post"
    """post: LayerNorm(x + sublayer(x)) as in BERT; pre: x + sublayer(LayerNorm(x)) with a final LayerNorm."""
    positions: Positions = "learned"
    """learned: BERT's table; sinusoidal: the Transformer's fixed waves; rotary: rotated queries and keys."""
    gated_mlp: bool = False
    """Multiply the activation by a second projection of the input (GeGLU with gelu)."""
    use_bias: bool = True
    """Give the projections inside blocks a bias."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"hidden_size={self.hidden_size} is not divisible by num_attention_heads="
                f"{self.num_attention_heads}; choose a number of heads that divides it"
            )
        if not 0 <= self.pad_token_id < self.vocab_size:
            raise UserError(f"pad_token_id={self.pad_token_id} lies outside vocab_size={self.vocab_size}")
        if self.positions == "rotary" and self.head_size % 2:
            raise UserError(
                f"head size {self.head_size} is odd, but rotary positions rotate pairs of features; "
                "choose another number of heads"
            )

    @property
    def head_size(self) -> int:
        """Features of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def is_plain_bert(self) -> bool:
        """True if BERT as published, and so `transformers`' BertModel, computes the same."""
        return (self.norm_position, self.positions, self.gated_mlp, self.use_bias) == (
            "post",
            "learned",
            False,
            True,
        )


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """An encoder and what sits on top of it."""

    encoder: BertConfig
    """The shape of the encoder."""
    head: Head = "none"
    """What the model predicts."""
    has_pooler: bool = True
    """Whether the [CLS] vector goes through BERT's tanh layer."""
    labels: tuple[str, ...] = ()
    """Names of the classes or tags, in the order of the logits."""
    problem_type: ProblemType | None = None
    """How classification logits are read; single label when absent."""

    def __post_init__(self) -> None:
        check_fields(self, skip=("head",))  # a head may have been added to the table
        if self.head not in HEADS:
            raise UserError(f"head={shown(self.head)}; expected one of {', '.join(HEADS)}")
        if HEADS[self.head].has_labels and not self.labels:
            raise UserError(f"a {self.head} head needs at least one label; none was given")
        if len(set(self.labels)) != len(self.labels):
            raise UserError(f"labels repeat: {', '.join(self.labels)}; each label may appear once only")
        if HEADS[self.head].needs_pooler and not self.has_pooler:
            raise UserError(f"a {self.head} head reads the pooled [CLS] vector; has_pooler must be true")

    @property
    def parts(self) -> tuple[Part, ...]:
        """What sits on the encoder: the pooler, if there is one, and the parts of the head."""
        return tuple(
            part for part in PARTS if (part == "pooler" and self.has_pooler) or part in HEADS[self.head].parts
        )


def _published_transformer() -> BertConfig:
    """Return the published shape of the Transformer's blocks: d_model 512, 8 heads, d_ff 2048."""
    return BertConfig(
        vocab_size=8000,
        hidden_size=512,
        num_hidden_layers=6,
        num_attention_heads=8,
        intermediate_size=2048,
        hidden_act="relu",
        attention_probs_dropout_prob=0.0,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        positions="sinusoidal",
    )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """An encoder-decoder: the shape of its blocks, which both sides share, and the decoder's depth."""

    encoder: BertConfig = field(default_factory=_published_transformer)
    """The encoder, and the width of the decoder; there are no segments and no pooler."""
    num_decoder_layers: Depth = 6
    """Number of the decoder's blocks."""
    decoder_start_token_id: TokenId = 0
    """First id that the decoder reads; by convention the id of [PAD]."""
    eos_token_id: TokenId = 1
    """Id that the decoder writes to end a target."""

    def __post_init__(self) -> None:
        check_fields(self)
        _check_ends(self.decoder_start_token_id, self.eos_token_id, self.encoder.vocab_size)

    @property
    def vocab_size(self) -> int:
        """Rows of the embedding that both sides and the output share."""
        return self.encoder.vocab_size

    @property
    def max_length(self) -> int:
        """Longest source, and longest target, in tokens."""
        return self.encoder.max_position_embeddings


@dataclass(frozen=True, kw_only=True)
class LstmConfig:
    """A recurrent sequence-to-sequence model, the baseline for the Transformer."""

    vocab_size: VocabularySize = 8000
    """Rows of the embedding that both sides and the output share."""
    hidden_size: Width = 512
    """Width of the embeddings and of every layer's state."""
    num_hidden_layers: Depth = 2
    """Layers of the bidirectional encoder, and of the decoder."""
    has_attention: bool = True
    """Let the decoder attend to every source token; otherwise it only gets the encoder's last states."""
    hidden_dropout_prob: ShareBelowOne = 0.2
    """Dropout after the embeddings and after each layer."""
    max_position_embeddings: LengthLimit = 512
    """Longest source, and longest target, in tokens."""
    pad_token_id: TokenId = 0
    """The id of [PAD]; packed batches never hold it."""
    decoder_start_token_id: TokenId = 0
    """First id that the decoder reads."""
    eos_token_id: TokenId = 1
    """Id that the decoder writes to end a target."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.hidden_size % 2:
            raise UserError(
                f"hidden_size={self.hidden_size} is odd; choose an even number, half for each direction"
            )
        _check_ends(self.decoder_start_token_id, self.eos_token_id, self.vocab_size)

    @property
    def max_length(self) -> int:
        """Longest source, and longest target, in tokens."""
        return self.max_position_embeddings


def _check_ends(start: int, end: int, vocab_size: int) -> None:
    for name, value in (("decoder_start_token_id", start), ("eos_token_id", end)):
        if not 0 <= value < vocab_size:
            raise UserError(f"{name}={value} lies outside vocab_size={vocab_size}")
    if start == end:
        raise UserError(f"decoder_start_token_id and eos_token_id are both {end}; give them different ids")


def _transformer(num_layers: int, width: int, num_heads: int) -> TransformerConfig:
    shape = replace(
        _published_transformer(),
        hidden_size=width,
        num_hidden_layers=num_layers,
        num_attention_heads=num_heads,
        intermediate_size=4 * width,
    )
    return TransformerConfig(encoder=shape, num_decoder_layers=num_layers)


TRANSLATOR_PRESETS: dict[str, TransformerConfig | LstmConfig] = {
    "transformer-tiny": _transformer(2, 128, 4),
    "transformer-small": _transformer(3, 256, 4),
    "transformer-base": _transformer(6, 512, 8),
    "transformer-big": _transformer(6, 1024, 16),
    "lstm-small": LstmConfig(hidden_size=256),
    "lstm-small-without-attention": LstmConfig(hidden_size=256, has_attention=False),
}
"""Translators by size; training sets the size of the vocabulary."""

_SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
_VOCAB_SIZES = {"": 30522, "-zh": 21128}


def _preset(layers: int, width: int, heads: int, vocab_size: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )


PRESETS: dict[str, BertConfig] = {
    f"bert-{size}{suffix}": _preset(*shape, vocab_size)
    for suffix, vocab_size in _VOCAB_SIZES.items()
    for size, shape in _SIZES.items()
}


@checked
def preset(name: str, **changes: object) -> BertConfig:
    """Return a published size by name (`bert-base`, or just `base`), with fields changed by keyword."""
    full_name = name if name.startswith("bert-") else f"bert-{name}"
    if full_name not in PRESETS:
        raise UserError(f"no preset {name!r}; expected one of {', '.join(PRESETS)}")
    return replace(PRESETS[full_name], **changes)  # type: ignore[arg-type]

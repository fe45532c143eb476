"""How a run is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from glassbert.errors import UserError
from glassbert.ranges import (
    Count,
    CountOrNone,
    Epochs,
    Range,
    Rate,
    Seed,
    ShareAboveZero,
    ShareBelowOne,
)
from glassbert.typed import check_fields

Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]
Strategy = Literal["ddp", "fsdp"]
Optimizer = Literal["adamw", "muon"]


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The `[train]` table of a recipe. One of steps, epochs and minutes ends the run."""

    steps: Count | None = None
    """Number of updates."""
    epochs: Epochs | None = None
    """Passes over the data."""
    minutes: Annotated[float, Range(0, 10**7, has_low=False)] | None = None
    """Wall-clock budget; the schedule then follows the clock, and the run is not reproducible bit for bit."""
    batch_tokens: Count = 8192
    """Real tokens of one update, over all processes."""
    micro_tokens: Count = 8192
    """Most tokens computed at once; a larger batch is accumulated in parts."""
    learning_rate: Rate = 1e-4
    """The highest learning rate."""
    optimizer: Optimizer = "adamw"
    """adamw, or muon: matrices of the blocks move by an orthogonal momentum, at ten times the rate."""
    schedule: Schedule = "linear"
    """How the rate falls after the warm-up: linear or cosine to zero, constant, or with 1/sqrt(step)."""
    warmup: ShareBelowOne = 0.1
    """Share of the run during which the rate rises from zero."""
    weight_decay: Annotated[float, Range(0, 100)] = 0.01
    """Decay of weight matrices; biases and LayerNorm have none."""
    beta1: ShareBelowOne = 0.9
    """AdamW's memory of the gradient."""
    beta2: ShareBelowOne = 0.999
    """AdamW's memory of the squared gradient."""
    epsilon: ShareAboveZero = 1e-8
    """Added to AdamW's denominator."""
    max_grad_norm: Annotated[float, Range(0, 10**9)] = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    layer_decay: ShareAboveZero = 1.0
    """Learning rate of a block relative to the block above it."""
    ema_decay: ShareBelowOne = 0.0
    """Decay of a running average of the weights, which is then evaluated and saved; 0 keeps none."""
    seed: Seed = 0
    """Of the data order, the masks, the dropout and the fresh weights."""
    save_every: Count = 500
    """Steps between checkpoints; the end of the run is always saved."""
    keep: Count = 2
    """Number of checkpoints kept."""
    evaluate_every: Count = 500
    """Steps between evaluations; the end of the run is always evaluated."""
    patience: CountOrNone = 0
    """Evaluations without improvement after which the run ends early; 0: never."""
    log_every: Count = 10
    """Steps between lines of metrics.jsonl."""
    strategy: Strategy = "ddp"
    """How several processes share the work: copies (ddp) or shards (fsdp) of the model."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the products; the weights stay in float32."""

    def __post_init__(self) -> None:
        given = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"train.{given[0]} and train.{given[1]} are both set; keep one")
        check_fields(self, "train")
        if self.optimizer == "muon" and self.strategy == "fsdp":
            raise UserError(
                "train.optimizer=muon needs whole matrices; train.strategy=fsdp cuts them: use ddp or adamw"
            )

    def num_steps(self, steps_in_epochs: Callable[[float], int]) -> int | None:
        """Return the updates of the whole run; None if the clock ends it."""
        if self.minutes is not None:
            return None
        return self.steps or steps_in_epochs(self.epochs or 1.0)

"""How a run is trained."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from glassbert.errors import UserError

Schedule = Literal["linear", "cosine", "constant", "inverse_sqrt"]
Strategy = Literal["ddp", "fsdp"]
Optimizer = Literal["adamw", "muon"]


@dataclass(frozen=True, kw_only=True)
class TrainSettings:
    """The `[train]` table of a recipe. One of steps, epochs and minutes ends the run."""

    steps: int | None = None
    """Number of updates."""
    epochs: float | None = None
    """Passes over the data."""
    minutes: float | None = None
    """Wall-clock budget; the schedule then follows the clock, and the run is not reproducible bit for bit."""
    batch_tokens: int = 8192
    """Real tokens of one update, over all processes."""
    micro_tokens: int = 8192
    """Most tokens computed at once; a larger batch is accumulated in parts."""
    learning_rate: float = 1e-4
    """The highest learning rate."""
    optimizer: Optimizer = "adamw"
    """adamw, or muon: matrices of the blocks move by an orthogonal momentum, at ten times the rate."""
    schedule: Schedule = "linear"
    """How the rate falls after the warm-up: linear or cosine to zero, constant, or with 1/sqrt(step)."""
    warmup: float = 0.1
    """Share of the run during which the rate rises from zero."""
    weight_decay: float = 0.01
    """Decay of weight matrices; biases and LayerNorm have none."""
    beta1: float = 0.9
    """AdamW's memory of the gradient."""
    beta2: float = 0.999
    """AdamW's memory of the squared gradient."""
    epsilon: float = 1e-8
    """Added to AdamW's denominator."""
    max_grad_norm: float = 1.0
    """Gradients are scaled down to this norm; 0 leaves them as they are."""
    layer_decay: float = 1.0
    """Learning rate of a block relative to the block above it."""
    ema_decay: float = 0.0
    """Decay of a running average of the weights, which is then evaluated and saved; 0 keeps none."""
    seed: int = 0
    """Of the data order, the masks, the dropout and the fresh weights."""
    save_every: int = 500
    """Steps between checkpoints; the end of the run is always saved."""
    keep: int = 2
    """Number of checkpoints kept."""
    evaluate_every: int = 500
    """Steps between evaluations; the end of the run is always evaluated."""
    patience: int = 0
    """Evaluations without improvement after which the run ends early; 0: never."""
    log_every: int = 10
    """Steps between lines of metrics.jsonl."""
    strategy: Strategy = "ddp"
    """How several processes share the work: copies (ddp) or shards (fsdp) of the model."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where to compute."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the products; the weights stay in float32."""

    _positive: ClassVar[tuple[str, ...]] = (
        "batch_tokens",
        "micro_tokens",
        "learning_rate",
        "save_every",
        "keep",
        "evaluate_every",
        "log_every",
    )

    def __post_init__(self) -> None:
        given = [name for name in ("steps", "epochs", "minutes") if getattr(self, name) is not None]
        if len(given) > 1:
            raise UserError(f"train.{given[0]} and train.{given[1]} are both set; keep one")
        for name in (*given, *self._positive):
            if not getattr(self, name) > 0:
                raise UserError(f"train.{name}={getattr(self, name)}; expected more than 0")
        for name in ("warmup", "beta1", "beta2", "ema_decay"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UserError(
                    f"train.{name}={getattr(self, name)}; expected from 0 up to, but not including, 1"
                )
        for name, choices in (
            ("schedule", get_args(Schedule)),
            ("strategy", get_args(Strategy)),
            ("optimizer", get_args(Optimizer)),
        ):
            if getattr(self, name) not in choices:
                raise UserError(f"train.{name}={getattr(self, name)!r}; expected one of {', '.join(choices)}")
        if self.optimizer == "muon" and self.strategy == "fsdp":
            raise UserError(
                "train.optimizer=muon needs whole matrices; train.strategy=fsdp cuts them: use ddp or adamw"
            )
        if not 0.0 < self.layer_decay <= 1.0:
            raise UserError(f"train.layer_decay={self.layer_decay}; expected more than 0 and at most 1")
        for name in ("max_grad_norm", "weight_decay", "patience", "evaluate_every"):
            if getattr(self, name) < 0:
                raise UserError(f"train.{name}={getattr(self, name)}; expected 0 or more")

    def num_steps(self, steps_in_epochs: Callable[[float], int]) -> int | None:
        """Return the updates of the whole run; None if the clock ends it."""
        if self.minutes is not None:
            return None
        return self.steps or steps_in_epochs(self.epochs or 1.0)

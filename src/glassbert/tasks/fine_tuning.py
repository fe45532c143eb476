"""Fine-tuning: what the engine trains for every task of the registry.

Legend: R rows of the vocabulary that the training text uses.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic

from torch import Tensor

from glassbert.config import ModelConfig
from glassbert.data.examples import E
from glassbert.errors import ModelError, UserError
from glassbert.heads import HEADS
from glassbert.interop.companions import TASK_WEIGHTS, Companions, read_companions
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.interop.weights import save_tensors, tensors_in
from glassbert.model.bert import Bert, Output
from glassbert.model.depth import flops_in_blocks
from glassbert.model.init import materialised
from glassbert.model.layout import Batch
from glassbert.model.packed import pack
from glassbert.model.tap import Tap, shown_losses
from glassbert.tasks.encoder_training import EncoderModule, EncoderTraining
from glassbert.tasks.forward import decoded, raw_outputs
from glassbert.tasks.input_order import InputOrder
from glassbert.tasks.partial_embedding import whole_state
from glassbert.tasks.registry import task_class, task_of_head
from glassbert.tasks.task import LOWER_IS_BETTER, Input, P, Task
from glassbert.tasks.teaching import TAUGHT, Teaching, num_taught
from glassbert.text.wordpiece.tokenizer import Tokenizer
from glassbert.typed import record_from, typed


class FineTuneModule(EncoderModule):
    """A BERT with a task's losses: what the engine differentiates."""

    def __init__(
        self, bert: Bert, task: Task[E, P], rows: Tensor | None, teaching: Teaching | None = None
    ) -> None:
        """Freeze what is not trained.

        Args:
            rows: Rows of the token embedding that are trained, (R,); None trains them all.
            teaching: How a teacher's answers, which the inputs then hold, count.
        """
        is_frozen = task.settings.freeze_encoder
        super().__init__(bert, None if is_frozen else rows)
        self.extra = task.extra
        self._task, self._teaching, self._is_encoder_frozen = task, teaching, is_frozen
        if is_frozen:
            bert.encoder.requires_grad_(False)

    def train(self, mode: bool = True) -> "FineTuneModule":
        """Turn dropout on or off; in a frozen encoder it stays off."""
        super().train(mode)
        if self._is_encoder_frozen:
            self.bert.encoder.eval()
        return self

    def forward(self, part: Sequence[Input] | Batch, tap: Tap | None = None) -> dict[str, Tensor] | Output:
        """Return the sums of losses and counts over a part of a batch; for packed input, the output.

        Evaluation calls it too: the weights of a sharded model exist only inside this call.
        """
        if isinstance(part, Batch):
            return self.bert(part, heads_only=True, tap=tap)
        if self._teaching is not None:
            weights = self._teaching.loss_weights(self._task)
            return shown_losses(self._taught(part, self._teaching, tap), weights, tap)
        output = self.bert(pack(part, self.device), heads_only=True, tap=tap)
        return shown_losses(self._task.losses(output, part), self._task.loss_weights, tap)

    def _taught(self, part: Sequence[Input], teaching: Teaching, tap: Tap | None) -> dict[str, Tensor]:
        """Return the sums of a part, of which some inputs may have no label."""
        sums: dict[str, Tensor] = {}
        for are_labelled in (True, False):
            chosen = [one for one in part if (one.target is not None) == are_labelled]
            if not chosen:
                continue
            output = self.bert(pack(chosen, self.device), heads_only=True, tap=tap)
            found = teaching.losses(self._task, output, chosen, are_labelled=are_labelled)
            sums |= {name: value + sums.get(name, 0.0) for name, value in found.items()}
        return sums


class FineTune(EncoderTraining, Generic[E, P]):
    """Fine-tuning for a task; see `Trainable` for what its members mean."""

    def __init__(
        self,
        bert: Bert,
        tokenizer: Tokenizer,
        task: Task[E, P],
        train: Sequence[E],
        dev: Sequence[E],
        *,
        batch_size: int,
        batch_tokens: int,
        seed: int,
        unlabelled: Sequence[E] = (),
        teaching: Teaching | None = None,
    ) -> None:
        """Encode the examples, once for the whole run.

        Args:
            unlabelled: More examples, for which only the teacher's answers are learned.
            teaching: How a teacher's answers count; `order.taught` must hold them before the first step.
        """
        self.tokenizer, self.task, self.train, self.dev = tokenizer, task, train, dev
        self.teaching = teaching
        self.train_inputs = task.inputs(train, with_targets=True)
        self.dev_inputs = task.inputs(dev, with_targets=True) if dev else []
        more = task.inputs(unlabelled, with_targets=False) if unlabelled else []
        order = InputOrder(
            [*self.train_inputs, *more], batch_size=batch_size, batch_tokens=batch_tokens, seed=seed
        )
        super().__init__(bert.config, order)
        self.module = FineTuneModule(bert, task, self._rows, teaching)
        self._alarm: str | None = None

    @property
    def loss_weights(self) -> Mapping[str, float]:
        return self.teaching.loss_weights(self.task) if self.teaching else self.task.loss_weights

    @property
    def best_by(self) -> tuple[str, bool]:
        return self.task.best_by, self.task.best_by not in LOWER_IS_BETTER

    def counts(self, batch: list[Input]) -> dict[str, int]:
        labelled = [one for one in batch if one.target is not None]
        taught = {TAUGHT: num_taught(batch, self.task.contest)} if self.teaching else {}
        return {**self.task.counts(labelled), **taught, "tokens": sum(map(len, batch))}

    def check_metric(self) -> None:
        """Raise UserError for a metric that the task lacks, now rather than after the first epoch."""
        if not self.dev:
            return
        self.module.eval()
        inputs = self.dev_inputs[:1]
        first = decoded(self.task, self.dev[:1], inputs, raw_outputs(self.task, self.module, inputs))
        # Which metrics there are depends on all rows, such as on whether any question has no answer.
        known = ("loss", *self.task.measure(self.dev, first * len(self.dev)).metrics())
        if self.task.best_by not in known:
            raise UserError(f"task.metric={self.task.best_by!r}; expected one of {', '.join(known)}")

    def evaluate(self) -> dict[str, float]:
        if not self.dev:
            return {}
        task = self.task
        sums: dict[str, float] = {}

        def add(output: Output, chosen: Sequence[Input]) -> None:
            for name, value in task.losses(output, chosen).items():
                sums[name] = sums.get(name, 0.0) + value.item()

        raw = raw_outputs(task, self.module, self.dev_inputs, self.module.device, add)
        predictions = decoded(task, self.dev, self.dev_inputs, raw)
        counts = task.counts([one for windows in self.dev_inputs for one in windows])
        self._alarm = task.alarm(self.dev, predictions)
        losses = {name: sums[name] / max(1, counts[name]) for name in task.loss_weights}
        return {**losses, **task.measure(self.dev, predictions).metrics()}

    def verdict(self, metrics: Mapping[str, float]) -> str:
        # Only two or three: the report has them all.
        names = [name for name in dict.fromkeys(("loss", self.task.best_by, "f1")) if name in metrics]
        values = "  ".join(f"{name} {metrics[name]:.4f}" for name in names)
        return f"held out: {values}" + (f"  ({self._alarm})" if self._alarm else "")

    def save(self, folder: Path, weights: Mapping[str, Tensor], run: Mapping[str, Any]) -> None:
        network = materialised(Bert, self.config, state=whole_state(weights, self._rows))
        extra = {name: tensor for name, tensor in weights.items() if name.startswith("extra.")}
        save_finetuned(network, self.tokenizer, self.task, folder, run, extra)

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        network, _ = EncoderFolder.open(folder).build()
        weights = dict(FineTuneModule(network, self.task, self._rows).named_parameters())
        return weights | (_extra_in(read_companions(folder), folder) if self.task.extra is not None else {})

    def flops_per_token(self) -> float:
        length = self._mean_length()
        share_read = 1.0 if HEADS[self.config.head].reads_every_token else 1 / length
        flops = flops_in_blocks(self.module.bert.encoder.blocks, length, share_read)
        return flops / 3 if self.task.settings.freeze_encoder else flops


def load_task(
    folder: Path, run: Mapping[str, Any], tokenizer: Tokenizer, config: ModelConfig, companions: Companions
) -> Task[Any, Any]:
    """Return the task of a model folder, with its extra weights.

    Args:
        folder: Its name, for messages.
        run: The `task` of run.json; empty for a foreign folder.
        companions: Files of the folder, which may hold the extra weights.
    """
    name = run.get("name") or task_of_head(config.head)
    if name is None:
        raise ModelError(
            f"{folder}: a model with a {config.head!r} head has no task; fine-tune it with `glassbert train`"
        )
    limit = min(config.encoder.max_position_embeddings, tokenizer.max_length)
    source = f"{folder / 'run.json'}: task"
    try:
        kind = task_class(typed(name, str, "name"))
        record_from(kind.saved, run, source, error=ModelError)
        task = kind.from_run(name, run, tokenizer, config, max_length=limit)
    except ModelError:
        raise
    except UserError as error:
        raise ModelError(f"{source}: {error}") from None
    if task.extra is not None:
        weights = {
            name.removeprefix("extra."): tensor for name, tensor in _extra_in(companions, folder).items()
        }
        try:
            task.extra.load_state_dict(weights)
        except RuntimeError:
            raise ModelError(
                f"{folder / TASK_WEIGHTS} does not fit the labels in config.json; copy both again"
            ) from None
    return task


def extra_of(task: Task[Any, Any]) -> dict[str, Tensor]:
    """Return the extra weights of a task, named as in the module."""
    if task.extra is None:
        return {}
    return {f"extra.{name}": parameter.detach() for name, parameter in task.extra.named_parameters()}


def _extra_in(companions: Companions, folder: Path) -> dict[str, Tensor]:
    if TASK_WEIGHTS not in companions:
        raise ModelError(f"{folder}: no {TASK_WEIGHTS}, which holds extra weights of the task; copy it too")
    return tensors_in(companions[TASK_WEIGHTS], folder / TASK_WEIGHTS)


def save_finetuned(
    network: Bert,
    tokenizer: Tokenizer,
    task: Task[E, P],
    folder: Path,
    run: Mapping[str, Any],
    extra: Mapping[str, Tensor],
    tuned: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write a model folder that names its task.

    Args:
        tuned: What was fitted after training, beside what `Task.to_run` returns.
    """
    write_model(network, tokenizer, folder, run={**run, "task": {**tuned, **task.to_run()}})
    if extra:
        save_tensors(extra, folder / TASK_WEIGHTS)

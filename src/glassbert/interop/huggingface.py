"""From stored tensors to a model and back: nothing missing, nothing silent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from glassbert.config import Head, ModelConfig, ProblemType
from glassbert.errors import ModelError, UserError
from glassbert.interop.config_json import read_config
from glassbert.interop.names import modernise, nearest, to_ours, to_theirs
from glassbert.interop.stored import StoredModel
from glassbert.model.bert import Bert
from glassbert.model.init import initialise

DECODER = "mlm.decoder.weight"
TOKENS = "encoder.embeddings.token.weight"
# The decoder's bias in files, and the place where some hold a second copy.
BIAS = "cls.predictions.bias"
DECODER_BIAS_COPY = "cls.predictions.decoder.bias"


@dataclass(frozen=True)
class LoadReport:
    """What became of each tensor; names are those of the file."""

    kept: tuple[str, ...]
    new: tuple[str, ...] = ()
    """Freshly initialised, as expected for the head that was asked for."""
    unexpected: tuple[str, ...] = ()
    """In the file but not in this model."""
    dtype: str = "float32"
    """How the file stores its numbers; the model computes in float32."""
    notes: tuple[str, ...] = field(default=())

    def lines(self) -> list[str]:
        """Return the report for people, one finding a line."""
        lines = [f"kept {len(self.kept)} tensors ({self.dtype})", *self.notes]
        if self.new:
            lines.append(f"new {len(self.new)} tensors, to be trained: {', '.join(self.new)}")
        for name in self.unexpected:
            guess = nearest(name, self.kept)
            lines.append(
                f"unexpected tensor {name}, left out" + (f"; nearest known name {guess}" if guess else "")
            )
        return lines


def build(
    source: StoredModel,
    *,
    head: Head | None = None,
    labels: Sequence[str] = (),
    problem_type: ProblemType | None = None,
    seed: int = 0,
) -> tuple[Bert, LoadReport]:
    """Make a model of what was read.

    Args:
        head: Put this head on the encoder instead of the one in the source; its weights start fresh
            unless the source has them.
        labels: The classes of a classify or tag head.
        seed: Of the fresh weights.
    """
    path = source.config_path
    stored, renamed = _modern_names(source.tensors, path)
    notes = [*source.notes, *renamed]
    config = read_config(source.config, str(path), stored)
    if not source.config.get("architectures"):
        notes.append(f"{path.name} names no architecture; the tensors say: head {config.head!r}")
    notes += _settle_decoder_bias(stored, config, path)
    wanted = _with_head(config, head, tuple(labels), problem_type)
    return _fill(wanted, stored, notes, path, may_be_new=wanted != config, seed=seed)


def state_for_file(model: Bert, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Return the model's tensors under their file names; a tied decoder is not written twice."""
    skipped = {DECODER} if model.config.encoder.tie_word_embeddings else set()
    state = {
        to_theirs(name): tensor.to(dtype)
        for name, tensor in model.state_dict().items()
        if name not in skipped
    }
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise UserError(
                f"{name} holds numbers that {dtype} cannot; store the model as float32 or bfloat16"
            )
    if BIAS in state and not skipped:
        state[DECODER_BIAS_COPY] = state[BIAS].clone()
    if model.config.head != "none":
        return state
    return {name.removeprefix("bert."): tensor for name, tensor in state.items()}


def _modern_names(tensors: Mapping[str, Tensor], source: Path) -> tuple[dict[str, Tensor], list[str]]:
    """Return the tensors under present names; copies under two names must agree."""
    stored: dict[str, Tensor] = {}
    renamed = 0
    for old_name, tensor in tensors.items():
        name = modernise(old_name)
        if name is None:
            continue
        renamed += name != old_name and not name.endswith("." + old_name)
        if name in stored and not torch.equal(stored[name], tensor):
            raise ModelError(f"{source.parent}: {name} stands twice in the weights, with different values")
        stored[name] = tensor
    return stored, [f"{renamed} tensors had an older spelling"] if renamed else []


def _settle_decoder_bias(stored: dict[str, Tensor], config: ModelConfig, source: Path) -> list[str]:
    """Leave one decoder bias in ``stored``: files may hold two, and untied ones use the decoder's own."""
    decoders_own = stored.pop(DECODER_BIAS_COPY, None)
    if decoders_own is None:
        return []
    differs = BIAS in stored and not torch.equal(stored[BIAS], decoders_own)
    if differs and config.encoder.tie_word_embeddings:
        raise ModelError(f"{source.parent}: {BIAS} and {DECODER_BIAS_COPY} differ, but tied models have one")
    stored[BIAS] = decoders_own
    return [f"{BIAS} differs from {DECODER_BIAS_COPY}, which is the one in use"] if differs else []


def _with_head(
    config: ModelConfig, head: Head | None, labels: tuple[str, ...], problem_type: ProblemType | None
) -> ModelConfig:
    if head is None:
        return config
    has_pooler = head in ("pretraining", "nsp", "classify") or (head == "none" and config.has_pooler)
    if head in ("classify", "tag") and not labels and head == config.head:
        labels = config.labels
    return replace(config, head=head, has_pooler=has_pooler, labels=labels, problem_type=problem_type)


def _fill(
    config: ModelConfig,
    stored: dict[str, Tensor],
    notes: list[str],
    source: Path,
    *,
    may_be_new: bool,
    seed: int,
) -> tuple[Bert, LoadReport]:
    with torch.device("meta"):
        model = Bert(config)
    expected = {name: tensor.shape for name, tensor in model.state_dict().items()}
    found = {ours: tensor for name, tensor in stored.items() if (ours := to_ours(name)) in expected}
    if config.encoder.tie_word_embeddings and DECODER in expected:
        _check_tie(found, source)
        expected.pop(DECODER)
    if may_be_new:
        # A head of another size than the one asked for starts fresh, like one that is not there.
        found = {name: t for name, t in found.items() if _is_encoder(name) or t.shape == expected[name]}
    missing = [name for name in expected if name not in found and (_is_encoder(name) or not may_be_new)]
    if missing:
        raise ModelError(
            f"{source.parent}: {len(missing)} weights are missing, among them {to_theirs(missing[0])}"
            f"{_nearest_stored(missing[0], stored, found)}; the file does not fit its config.json"
        )
    for name, tensor in found.items():
        check_tensor(to_theirs(name), tensor, expected[name], source)
    new = sorted(set(expected) - set(found))
    _assign(model, found, seed if new else None)
    kept = tuple(sorted(to_theirs(name) for name in found))
    unexpected = tuple(sorted(name for name in stored if name not in kept and to_ours(name) != DECODER))
    report = LoadReport(
        kept=kept,
        new=tuple(to_theirs(name) for name in new),
        unexpected=unexpected,
        dtype=str(next(iter(found.values())).dtype).removeprefix("torch."),
        notes=tuple(notes),
    )
    return model, report


def _is_encoder(name: str) -> bool:
    return name.startswith("encoder.")


def _check_tie(found: dict[str, Tensor], source: Path) -> None:
    decoder = found.pop(DECODER, None)
    if decoder is not None and TOKENS in found and not torch.equal(decoder, found[TOKENS]):
        raise ModelError(
            f"{source}: tie_word_embeddings is true, but cls.predictions.decoder.weight differs from the "
            "token embedding; set it to false to keep both"
        )


def check_tensor(name: str, tensor: Tensor, shape: torch.Size, source: Path) -> None:
    """Refuse a tensor of another shape or kind than the model has, or with numbers that are none."""
    if tensor.shape != shape:
        raise ModelError(
            f"{source.parent}: {name} has shape {tuple(tensor.shape)}; config.json asks for {tuple(shape)}"
        )
    if not tensor.is_floating_point():
        raise ModelError(f"{source.parent}: {name} holds {tensor.dtype}; expected floating-point numbers")
    if not torch.isfinite(tensor).all():
        raise ModelError(f"{source.parent}: {name} holds NaN or infinity; the checkpoint is damaged")


def _assign(model: Bert, found: dict[str, Tensor], seed: int | None) -> None:
    """Give ``model``, built without values, its tensors; with a seed, the rest starts as BERT starts."""
    if seed is not None:
        model.to_empty(device="cpu")
        model.tie_weights()
        initialise(model, model.config.encoder.initializer_range, torch.Generator().manual_seed(seed))
    # A copy: file-backed memory is not aligned, and would change under us if the file were written over.
    values = {name: tensor.to(torch.float32, copy=True) for name, tensor in found.items()}
    model.load_state_dict(values, strict=False, assign=True)
    model.tie_weights()
    assert not any(parameter.is_meta for parameter in model.parameters())
    model.eval()


def _nearest_stored(missing: str, stored: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str:
    spare = [name for name in stored if to_ours(name) not in found]
    guess = nearest(to_theirs(missing), spare)
    return f" (the file has {guess})" if guess else ""

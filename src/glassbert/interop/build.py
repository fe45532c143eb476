"""From the tensors of a file to a network and back; whatever is missing or unused is reported."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassbert.errors import ModelError, UserError
from glassbert.interop.family import Config, Family, NamedTensors
from glassbert.interop.names import nearest
from glassbert.interop.on_demand import OnDemand
from glassbert.model.finite import is_finite
from glassbert.model.init import Network, materialised, tied_names, without_values
from glassbert.sentence import Sentence

Assemble = Callable[..., Network]
"""Makes a network of a class, its config, `state` and `seed`, as `materialised` does."""
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class LoadReport:
    """What was done with each tensor; names are those of the file."""

    kept: tuple[str, ...]
    new: tuple[str, ...] = ()
    """Freshly initialised, as expected for the head that was asked for."""
    unexpected: tuple[str, ...] = ()
    """In the file but not in this model."""
    dtype: str = "float32"
    """How the file stores its numbers; the model computes in float32."""
    notes: tuple[str, ...] = ()
    """What else the user should know."""

    def remarks(self) -> list[str]:
        """Return what a user of the model should know, each on a line: nothing if everything fits."""
        lines = list(self.notes)
        if self.unexpected:
            more = f" and {len(self.unexpected) - 1} more" if len(self.unexpected) > 1 else ""
            lines.append(f"not used, since config.json does not ask for it: {self.unexpected[0]}{more}")
        return lines

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
    family: Family[Any],
    config: Config,
    stored: NamedTensors,
    folder: str | Path,
    *,
    fresh: Collection[str] = (),
    seed: int = 0,
    assemble: Assemble = materialised,
) -> tuple[Network, LoadReport]:
    """Make a network of a file's tensors; each is checked when it is read.

    Args:
        folder: Where they are from, for messages.
        fresh: Parts, such as mlm, that start fresh where the file has no tensor of the right shape for them.
        seed: Of the fresh weights.
        assemble: Reads the tensors and makes the network.
    """
    network_class = family.network_class(config)
    plan = without_values(network_class, config)
    expected = {name: tensor.shape for name, tensor in plan.state_dict().items()}
    spare = [family.to_theirs(name) for name in stored.state if name not in expected]
    spare = sorted([*spare, *stored.unknown])
    for name, other in tied_names(plan).items():
        _check_tie(family, name, other, stored, folder)
        del expected[name]
    optional = {name for name in expected if name.split(".")[0] in fresh}
    found = [
        name
        for name in stored.state
        if name in expected and (name not in optional or stored.state[name].shape == expected[name])
    ]
    new = sorted(expected.keys() - set(found))
    missing = [family.to_theirs(name) for name in expected if name not in found and name not in optional]
    _check_complete(missing, spare, folder, may_hold_more=family.may_hold_more)

    def checked(name: str) -> Tensor:
        tensor = stored.state[name]
        _check_tensor(family.to_theirs(name), tensor, expected[name], folder)
        return tensor.to(torch.float32)

    state = OnDemand(dict.fromkeys(found), checked)
    network = assemble(network_class, config, state=state, seed=seed if new else None)
    report = LoadReport(
        kept=tuple(sorted(map(family.to_theirs, found))),
        new=tuple(map(family.to_theirs, new)),
        unexpected=tuple(spare),
        dtype=str(stored.state[found[0]].dtype).removeprefix("torch."),
        notes=stored.notes,
    )
    return network.eval(), report


def tensors_for_file(family: Family[Any], network: Network, dtype: str = "float32") -> dict[str, Tensor]:
    """Return a network's tensors as a file has them; a tied one is not written twice."""
    if dtype not in DTYPES:
        raise UserError(f"dtype={dtype!r}; expected one of {', '.join(DTYPES)}")
    tied = tied_names(network)
    state = {
        name: tensor.to(DTYPES[dtype]) for name, tensor in network.state_dict().items() if name not in tied
    }
    for name, tensor in state.items():
        if not is_finite(tensor):
            raise UserError(
                f"{family.to_theirs(name)} holds numbers that {dtype} cannot; store the model as float32 or "
                "bfloat16"
            )
    return family.to_file(state, network.config)


def _check_tie(family: Family[Any], name: str, other: str, stored: NamedTensors, folder: str | Path) -> None:
    """Refuse a copy of the token embedding that differs from it."""
    state = stored.state
    if name in state and other in state and not state[name].equal(state[other]):
        raise ModelError(
            f"{folder}: config.json ties {family.to_theirs(name)} to the token embedding, but they differ; "
            "set tie_word_embeddings to false to keep both"
        )


def _check_complete(missing: list[str], spare: list[str], folder: str | Path, *, may_hold_more: bool) -> None:
    """Refuse a file that lacks weights, or that holds others where the family has no such files."""
    advice = "the weights do not fit config.json; copy both again"
    if missing:
        guess = nearest(missing[0], spare)
        raise ModelError(
            f"{folder}: {missing[0]} is missing"
            + (f" (the file has {guess})" if guess else "")
            + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
            + f"; {advice}"
        )
    if spare and not may_hold_more:
        raise ModelError(f"{folder}: unexpected tensor {spare[0]}; {advice}")


def _check_tensor(name: str, tensor: Tensor, shape: torch.Size, folder: str | Path) -> None:
    """Refuse a tensor of another shape or type than the model has, or with NaN or infinity."""
    if tensor.shape != shape:
        raise ModelError(
            Sentence(
                "{folder}: {name} has shape {found}; config.json asks for {wanted}",
                folder=folder,
                name=name,
                found=tuple(tensor.shape),
                wanted=tuple(shape),
            )
        )
    if tensor.dtype not in (*DTYPES.values(), torch.float64):
        raise ModelError(f"{folder}: {name} holds {tensor.dtype}; expected one of {', '.join(DTYPES)}")
    if not is_finite(tensor):
        raise ModelError(
            Sentence(
                "{folder}: {name} holds NaN or infinity; the checkpoint is damaged", folder=folder, name=name
            )
        )

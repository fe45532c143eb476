"""One process, or many that `torchrun` starts: which one this is, and what they do together.

torch's parts for shards are imported where there are several processes: that takes a second.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]
from torch.nn.parallel import DistributedDataParallel

from glassbert.errors import UserError
from glassbert.training.settings import Strategy, TrainSettings
from glassbert.typed import shown


def is_main_process() -> bool:
    """Return whether this process writes files and logs; works before the processes have joined."""
    return _number("RANK", 0) == 0


def world_size() -> int:
    """Return how many processes torchrun started; 1 without it."""
    return _number("WORLD_SIZE", 1)


def _number(variable: str, default: int) -> int:
    """Return what torchrun tells a process."""
    text = os.environ.get(variable, "")
    if text and not (text.isdecimal() and text.isascii() and len(text) < 10):
        raise UserError(f"{variable}={shown(text)}; expected a whole number, as torchrun sets it")
    return int(text or default)


@dataclass(frozen=True)
class Processes:
    """This process among its peers."""

    rank: int
    size: int
    device: torch.device

    @classmethod
    def join(cls, settings: TrainSettings) -> "Processes":
        """Join the processes that torchrun started, if any."""
        size, rank = world_size(), _number("RANK", 0)
        device = choose_device(settings.device)
        if size > 1 and not dist.is_initialized():
            backend = "nccl" if device.type == "cuda" else "gloo"
            try:
                dist.init_process_group(backend, store=_own_store(), rank=rank, world_size=size)
            except ValueError as error:
                raise UserError(f"WORLD_SIZE={size}, but {error}; start processes with torchrun") from None
        return cls(rank, size, device)

    def leave(self) -> None:
        """Leave the group of processes."""
        if dist.is_initialized():
            dist.destroy_process_group()

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and logs."""
        return self.rank == 0

    def wrap(self, module: nn.Module, strategy: Strategy, blocks: Iterable[nn.Module]) -> nn.Module:
        """Return ``module`` wrapped for the processes: copies that exchange gradients, or shards."""
        module.to(self.device)
        if self.size == 1:
            return module
        if strategy == "ddp":
            return DistributedDataParallel(module)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(self.device.type, (self.size,))
        for block in blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(module, mesh=mesh)
        return module

    def sum(self, values: dict[str, float]) -> dict[str, float]:
        """Return the sum of each value over the processes."""
        if self.size == 1:
            return values
        total = torch.tensor(list(values.values()), dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return dict(zip(values, total.tolist(), strict=True))

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any process."""
        return self.size > 1 and self.sum({"flag": float(flag)})["flag"] > 0 or flag

    def run_on_main(self, work: Callable[[], Any]) -> None:
        """Run ``work`` on the main process while the others wait; if it fails, all of them fail."""
        error: BaseException | None = None
        if self.is_main:
            try:
                work()
            except Exception as caught:
                error = caught
        if self.any(error is not None):
            raise error or UserError("the main process failed; its message says why")


def reshard(module: nn.Module) -> None:
    """Free weights that a forward pass without a backward pass left gathered: they may be stale."""
    if not dist.is_initialized():
        return
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def like(tensor: Tensor, parameter: Tensor) -> Tensor:
    """Return a copy of ``tensor`` placed, and sharded, as ``parameter`` is."""
    tensor = tensor.to(parameter.device, copy=True)
    if not dist.is_initialized():
        return tensor
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(parameter, DTensor):
        return tensor
    return distribute_tensor(tensor, parameter.device_mesh, parameter.placements)


def _own_store() -> PrefixStore | None:
    """Return a store in which the processes of this attempt find each other.

    torch 2.13 assumes that each attempt has its own store. With torchrun's agent that is not so: restarted
    processes looked for their dead predecessors.
    """
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if attempt is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return PrefixStore(f"attempt-{attempt}", TCPStore(address, port, is_master=False, wait_for_workers=False))


def choose_device(wanted: str) -> torch.device:
    """Return the device of this process; refuse a GPU that does not exist."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise UserError("train.device is 'cuda', but torch sees no GPU; use 'cpu' or 'auto'")
    if wanted == "cpu" or not torch.cuda.is_available():
        return torch.device("cpu")
    return torch.device("cuda", _number("LOCAL_RANK", 0))

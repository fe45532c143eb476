"""Make results independent of what a caller has set in torch, and leave it as it was.

The default dtype does not matter: all of our tensors name theirs.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def with_own_torch_state(function: Callable[P, R]) -> Callable[P, R]:
    """Run ``function`` without the autocast, default device, inference mode and grad mode of its caller."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with ExitStack() as stack:
            # Each costs little, but a default device slows every call of torch down: only where it is needed.
            if torch.get_default_device().type != "cpu":
                stack.enter_context(torch.device("cpu"))
            for device in ("cpu", "cuda"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            if not torch.is_grad_enabled():
                stack.enter_context(torch.enable_grad())
            return function(*args, **kwargs)

    return call


@contextmanager
def own_generator() -> Iterator[None]:
    """Draw random numbers without taking any from the caller's sequence."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        yield

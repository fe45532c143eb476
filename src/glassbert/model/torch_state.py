"""What others may have set in torch: our results do not depend on it.

The default type of numbers needs no care here: every tensor of ours names its own.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


def in_own_state(function: Callable[P, R]) -> Callable[P, R]:
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

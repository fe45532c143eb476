"""The server on Ray Serve: the same app, with its own queue, in each replica.

    serve run glassbert.serve.on_ray:app model=FOLDER replicas=4

Ray's proxy takes the requests and checks no keys: put it behind a gateway that does.
"""

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from glassbert.errors import UserError
from glassbert.model_names import DEMO
from glassbert.ranges import PROCESSES
from glassbert.typed import check_keys, shown, typed

ONGOING = 256
"""Requests that a replica gets at once; its queue makes batches of them."""
QUEUED = 512
"""Requests that wait for a replica; Ray answers 503 to more."""
DRAIN_S = 30
"""Seconds in which a replica that is stopped may finish its requests."""


def deployment(*models: str | Path, replicas: int = 2, cores: float = 1, **settings: Any) -> Any:
    """Return the server as an application for `ray.serve.run`; each replica loads the models.

    Args:
        models: Folders, or NAME=FOLDER, that every machine of the cluster can read.
        replicas: Copies of the server; Ray replaces one that dies.
        cores: Of each replica; it computes on as many threads.
        settings: Fields of `ServeSettings`, such as on_long="window".
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray_serve = importlib.import_module("ray.serve")
    except ImportError:
        raise UserError("Ray Serve is not installed; install it: pip install 'glassbert[scale]'") from None
    typed(replicas, Annotated[int, PROCESSES], "replicas")
    settings.setdefault("threads", max(1, int(cores)))
    folders = [_absolute(str(model)) for model in models]

    def build() -> Any:
        from glassbert.serve import build_app

        return build_app(*folders, **settings)

    replica = ray_serve.deployment(
        ray_serve.ingress(build)(),
        name="glassbert",
        num_replicas=replicas,
        max_ongoing_requests=ONGOING,
        max_queued_requests=QUEUED,
        graceful_shutdown_timeout_s=DRAIN_S,
        ray_actor_options={"num_cpus": cores},
    )
    return replica.bind()


def app(arguments: Mapping[str, str]) -> Any:
    """Return the server for `serve run`: model=FOLDER, perhaps replicas=N."""
    check_keys(arguments, ("model", "replicas"), "serve run")
    replicas = arguments.get("replicas", "2")
    try:
        number = int(replicas)
    except ValueError:
        raise UserError(f"serve run: replicas: expected a number, got {shown(replicas)}") from None
    return deployment(arguments.get("model", DEMO), replicas=number)


def _absolute(model: str) -> str:
    """Return the folder of a model as a replica finds it, which runs in another folder."""
    name, is_named, folder = model.rpartition("=")
    return model if folder == DEMO else f"{name}{is_named}{Path(folder).absolute()}"

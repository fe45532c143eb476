"""`serve`: every task of a model over HTTP."""

import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from cyclopts.config import Env

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.output import print_json, remark
from glassbert.errors import UserError
from glassbert.model_names import model_folder
from glassbert.ranges import PORT, PROCESSES, SECONDS
from glassbert.serve.settings import ServeSettings

if TYPE_CHECKING:
    from glassbert.serve.front import Front
    from glassbert.serve.http.keys import Keys

LOOPBACK = ("127.0.0.1", "localhost", "::1")


app = App(name="serve", config=Env("GLASSBERT_", command=False))
"""Each option has a twin in the environment, such as GLASSBERT_ON_LONG."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """Where the server listens, who may use it, how it ends."""

    host: str = "127.0.0.1"
    """Address to listen on; another than this machine's own needs keys."""
    port: Annotated[int, Parameter(env_var=("GLASSBERT_PORT", "PORT", "AIP_HTTP_PORT"), validator=PORT)] = (
        8080
    )
    """Port to listen on; 0 takes a free one."""
    api_key_file: Path | None = None
    """File of API keys, one per line; the variable API_KEY may hold one instead."""
    no_auth: bool = False
    """Answer everybody who can reach the server."""
    allowed_hosts: list[str] | None = None
    """Names in the Host header that are answered, beside those of this machine."""
    open_metrics: bool = False
    """Show /metrics without a key."""
    processes: Annotated[int, Parameter(validator=PROCESSES)] = 1
    """Processes that share the port and the weights, for machines of more than 8 cores or for isolation."""
    drain_delay: Annotated[float, Parameter(validator=SECONDS)] = 0.0
    """Seconds to keep accepting after SIGTERM, until load balancers have noticed."""
    drain_timeout: Annotated[float, Parameter(validator=SECONDS)] = 25.0
    """Seconds that accepted requests have to be answered."""


@app.default
def serve(
    *models: str,
    network: NetworkOptions | None = None,
    settings: Annotated[ServeSettings | None, Parameter(name="*")] = None,
    where: DeviceOptions | None = None,
    check: bool = False,
    json: bool = False,
) -> int:
    """Answer requests over HTTP: embed, classify, pair, tag, answer, fill, translate.

    Speaks the dialects of text-embeddings-inference, OpenAI, Cohere, Jina and the pipelines of Hugging Face;
    /openapi.json lists the routes. SIGTERM lets accepted requests end, SIGHUP loads the models again.
    Each option has a twin in the environment, such as GLASSBERT_ON_LONG for --on-long; PORT, API_KEY and
    MODEL_ID are read too.

    Args:
        models: Model folders, each a FOLDER or NAME=FOLDER; the first answers requests that name none.
        check: Load and measure the models, print what they do and how fast, and end.
        json: With --check: print JSON.
    """
    from glassbert.serve.installed import check_installed

    check_installed()
    network = network or NetworkOptions()
    given = models or tuple(filter(None, [os.environ.get("MODEL_ID", "")]))
    # Before torch is loaded: each compute thread works on one core, and tokenising has a thread of its own.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    front = _front(given, network, _shared_out(settings or ServeSettings(), network.processes), where)
    if check:
        _check(front, json)
        return 0
    from glassbert.serve.http.server import Binding, Server

    binding = Binding(
        host=network.host,
        port=network.port,
        drain_delay=network.drain_delay,
        drain_timeout=network.drain_timeout,
    )

    def on_bound(address: str) -> None:
        print(address, flush=True)

    if network.processes == 1:
        return Server(front, front, binding, front.log, on_bound=on_bound).run()
    from glassbert.serve.processes import Processes

    return Processes(front, binding, network.processes, on_bound).run()


def _shared_out(settings: ServeSettings, num_processes: int) -> ServeSettings:
    """Return the settings of each process: together they have one compute thread for each core."""
    from glassbert.serve.cores import num_cores

    return replace(settings, threads=settings.threads or max(1, num_cores() // num_processes))


def _front(
    models: tuple[str, ...], network: NetworkOptions, settings: ServeSettings, where: DeviceOptions | None
) -> "Front":
    from glassbert.interop.stored import find_stored
    from glassbert.serve.front import Front
    from glassbert.serve.http.keys import Hosts
    from glassbert.serve.names import named_models

    named = named_models(models)
    for folder in named.values():
        find_stored(model_folder(folder))  # a folder without a model is refused before there is an address
    keys = _keys(network)
    if not keys and network.host not in LOOPBACK and not network.no_auth:
        raise UserError(
            f"--host {network.host} is open to other machines, and no key is set; "
            "give --api-key-file FILE, or say --no-auth"
        )
    return Front(
        named,
        settings,
        place=place_of(where),
        read_keys=lambda: _keys(network),
        hosts=Hosts.allowed(network.host, network.allowed_hosts or ()),
        has_open_metrics=network.open_metrics,
    )


def _keys(network: NetworkOptions) -> "Keys":
    from glassbert.serve.http.keys import Keys

    if network.no_auth:
        return Keys()
    if network.api_key_file:
        return Keys.read(network.api_key_file)
    return Keys.of([os.environ["API_KEY"]], "API_KEY") if os.environ.get("API_KEY") else Keys()


def _check(front: "Front", json: bool) -> None:
    """Load, measure, and print what each model does."""
    front.start()
    try:
        _print_models(front, json)
    finally:
        front.stop()  # its threads would keep the program alive
    if not json:
        limits = [f"{field.name} {getattr(front.settings, field.name)}" for field in fields(front.settings)]
        remark(f"limits: {', '.join(limits)}")


def _print_models(front: "Front", json: bool) -> None:
    assert front.service
    service = front.service
    for name, served in service.models.items():
        found = {
            "model": name,
            "tasks": list(served.tasks),
            "max_length": served.max_length,
            "threads": service.num_threads,
            "tokens_per_second": round(served.speed * service.num_threads),
            "batch_tokens": served.budget,
        }
        if json:
            print_json(found)
        else:
            print(", ".join(f"{key} {_shown(value)}" for key, value in found.items()))
    sys.stdout.flush()


def _shown(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)

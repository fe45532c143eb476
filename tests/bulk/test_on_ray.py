"""A Ray cluster of two machines, one of which is lost: files by Ray Data, the server by Ray Serve."""

import json
import os
import signal
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassbert as gb
from glassbert.bulk.api import FilesProgress
from glassbert.bulk.on_ray import run_on_ray
from helpers.dying_job import GIVEN_UP, errors_of
from helpers.many_files import outputs, write_many
from helpers.oracles import make_oracle, save_oracle

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'glassbert[scale]'")
pytestmark = pytest.mark.slow

NUM_FILES, NUM_ROWS = 24, 2000
TEXTS = ["a b", "c d e"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_oracle(make_oracle("BertForPreTraining"), tmp_path_factory.mktemp("bert"))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A head that does no work, and two machines with a core each."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # for the helpers of these tests
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def test_a_machine_that_is_lost_costs_no_row(bert: Path, cluster: Any, tmp_path: Path) -> None:
    folder, out = write_many(tmp_path / "in", NUM_FILES, NUM_ROWS), tmp_path / "out"
    lost: list[int] = []

    def lose_one(progress: FilesProgress) -> None:
        if progress.files_done >= 3 and not lost:
            lost.append(progress.files_done)
            cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)

    result = gb.embed_files(bert, folder, out, processes=2, engine="ray", on_progress=lose_one)
    assert lost
    assert lost[0] < NUM_FILES, "the machine was lost too late to show anything"
    assert (result.rows, result.failed) == (NUM_FILES * NUM_ROWS, ())
    gb.embed_files(bert, folder, tmp_path / "without")
    assert outputs(out) == outputs(tmp_path / "without")
    again = gb.embed_files(bert, folder, out, processes=2, engine="ray")
    assert again.num_before == NUM_FILES


def ask(url: str, texts: list[str]) -> np.ndarray[Any, Any]:
    body = json.dumps({"inputs": texts, "normalize": False}).encode()
    request = urllib.request.Request(f"{url}/embed", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return np.array(json.load(answer))


def test_the_server_answers_on_while_a_replica_is_killed(bert: Path, cluster: Any) -> None:
    from ray import serve

    from glassbert.serve.on_ray import deployment

    expected = gb.load(bert).embed(TEXTS)
    port = 18_123
    serve.start(http_options={"port": port, "host": "127.0.0.1"})
    serve.run(deployment(bert, replicas=2, cores=0.5))
    url = f"http://127.0.0.1:{port}"
    victim, _ = pids_at_work()
    num_good = failures = 0
    ends_at = time.monotonic() + 240
    while num_good < 20 or len(pids_at_work() - {victim}) < 2:
        assert time.monotonic() < ends_at, (
            f"{num_good} answers, replicas {pids_at_work()} after {victim} died"
        )
        try:
            np.testing.assert_allclose(ask(url, TEXTS), expected, atol=1e-5)
            num_good += 1
        except OSError:
            failures += 1  # what the replica was working on when it died is lost
        if num_good == 5 and victim in pids_at_work():
            os.kill(victim, signal.SIGKILL)
            num_good += 1
    assert failures <= 1
    serve.shutdown()


def pids_at_work() -> set[int]:
    """Return the processes of the replicas that take requests."""
    from ray.serve.context import _get_global_client

    details = _get_global_client().get_serve_details()
    replicas = details["applications"]["default"]["deployments"]["glassbert"]["replicas"]
    return {int(one["pid"]) for one in replicas if one["state"] == "RUNNING"}


def test_a_file_that_ends_every_process_is_given_up(bert: Path, cluster: Any, tmp_path: Path) -> None:
    assert errors_of(run_on_ray, bert, tmp_path) == GIVEN_UP


def test_serve_run_takes_a_model_and_a_number_of_replicas(bert: Path) -> None:
    from glassbert.serve.on_ray import app

    found = app({"model": str(bert), "replicas": "3"})._bound_deployment
    assert (found.name, found.num_replicas, found.max_ongoing_requests) == ("glassbert", 3, 256)

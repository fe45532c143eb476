"""What lies in deploy/ fits the server: every option, route and port that it names exists.

hadolint and kubernetes-validate come with the extra `dev`; systemd-analyze runs where it is installed.
"""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from glassbert.cli import serve
from glassbert.serve.routes import all_routes
from glassbert.version import __version__
from helpers.serve_process import ServeProcess
from helpers.small_served import write_small

DEPLOY = Path(__file__).parent.parent / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
UNIT = (DEPLOY / "glassbert.service").read_text()
OBJECTS = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
CONTAINER = OBJECTS[0]["spec"]["template"]["spec"]["containers"][0]


def parsed(words: list[str]) -> dict[str, Any]:
    """Return what `serve` understands of some words; an unknown option raises."""
    _, bound, _ = serve.app.parse_args(words, exit_on_error=False, print_error=False)
    return bound.arguments


def image_environment() -> dict[str, str]:
    (block,) = re.findall(r"^ENV ((?:.*\\\n)*.*)", DOCKERFILE, re.MULTILINE)
    return dict(word.split("=", 1) for word in shlex.split(block.replace("\\\n", " ")))


def image_words(instruction: str) -> list[str]:
    """Return the list of words of the last instruction of this name."""
    return json.loads(re.findall(rf"^ *{instruction} (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])


def test_the_unit_starts_the_server_with_options_that_it_has() -> None:
    (command,) = re.findall("^ExecStart=(.*)$", UNIT, re.MULTILINE)
    program, verb, *words = shlex.split(command)
    assert (Path(program).name, verb) == ("glassbert", "serve")
    network = parsed(words)["network"]
    assert str(network.api_key_file) == "${CREDENTIALS_DIRECTORY}/keys"
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert int(seconds) > network.drain_delay + network.drain_timeout


def test_the_pods_ask_routes_that_exist_and_may_drain_before_they_are_killed() -> None:
    routes = {route.path: route for route in all_routes()}
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert routes[CONTAINER[name]["httpGet"]["path"]].is_free
    annotations = OBJECTS[0]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] in routes
    network = parsed(CONTAINER["args"])["network"]
    grace = OBJECTS[0]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > network.drain_delay + network.drain_timeout
    assert network.open_metrics


def test_every_port_and_version_is_the_same() -> None:
    port = image_environment()["GLASSBERT_PORT"]
    assert f"EXPOSE {port}\n" in DOCKERFILE
    assert f"--port {port} " in UNIT
    assert CONTAINER["ports"][0]["containerPort"] == int(port)
    assert CONTAINER["image"] == f"glassbert:{__version__}"
    torch_of = re.compile(r"torch==(\S+)")
    (pinned,) = torch_of.findall((DEPLOY.parent / "constraints.txt").read_text())
    assert torch_of.findall(DOCKERFILE) == [pinned]


def test_variables_of_the_image_are_twins_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**image_environment(), **{one["name"]: one["value"] for one in CONTAINER["env"]}}
    twins = {name: value for name, value in given.items() if name.startswith("GLASSBERT_")}
    assert len(twins) == 3
    for name, value in twins.items():
        monkeypatch.setenv(name, value)
    arguments = parsed(["/model"])
    assert (arguments["network"].host, arguments["network"].port) == ("0.0.0.0", 8080)
    assert arguments["settings"].on_long == "truncate"


def test_what_the_image_runs_refuses_to_start_without_a_key_and_is_healthy_with_one(tmp_path: Path) -> None:
    folder = str(write_small("fill", tmp_path / "model"))
    assert image_words("ENTRYPOINT") == ["glassbert", "serve"]
    assert image_words("CMD") == ["/model"]
    environment = {**image_environment(), "PATH": os.environ["PATH"]}
    refused = subprocess.run(
        [sys.executable, "-m", "glassbert", "serve", folder],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2
    assert "--api-key-file" in refused.stderr
    server = ServeProcess(folder, **environment, API_KEY="open-sesame")
    try:
        server.wait_for("ready")
        (check,) = re.findall(r'CMD (\["python", "-c".*\])$', DOCKERFILE, re.MULTILINE)
        command = [sys.executable, *json.loads(check)[1:]]
        healthy = subprocess.run(command, env={**os.environ, "GLASSBERT_PORT": str(server.port)})
        assert healthy.returncode == 0
        assert server.ask("/info")[0] == 401
    finally:
        assert server.stop() == 0
    unhealthy = subprocess.run(
        command, env={**os.environ, "GLASSBERT_PORT": str(server.port)}, capture_output=True
    )
    assert unhealthy.returncode == 1


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self.path, self.socket = path, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(1)

    def hears(self, *wanted: str, within_s: float = 60) -> str:
        """Wait until each wanted line has come; return all that came meanwhile."""
        heard, ends_at = "", time.monotonic() + within_s
        while not set(wanted) <= set(heard.split()):
            assert time.monotonic() < ends_at, f"heard only {heard.split()}"
            with contextlib.suppress(TimeoutError):
                heard += self.socket.recv(4096).decode() + "\n"
        return heard


@pytest.mark.parametrize("processes", ["1", "2"])
def test_systemd_hears_of_the_start_the_life_and_the_end(processes: str, tmp_path: Path) -> None:
    folder = str(write_small("fill", tmp_path / "model"))
    systemd = Systemd(tmp_path / "notify")
    with systemd.socket:
        server = ServeProcess(
            folder, "--processes", processes, NOTIFY_SOCKET=str(systemd.path), WATCHDOG_USEC="400000"
        )
        try:
            systemd.hears("READY=1")
            server.signal(signal.SIGHUP)
            assert "MONOTONIC_USEC=" in systemd.hears("RELOADING=1")
            systemd.hears("READY=1", "WATCHDOG=1")
        finally:
            assert server.stop() == 0
        systemd.hears("STOPPING=1")


def linted(program: str, *words: str) -> None:
    beside_python = str(Path(sys.executable).parent)
    found = shutil.which(program, path=f"{beside_python}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{program} is not installed")
    done = subprocess.run([found, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hadolint_finds_nothing() -> None:
    linted("hadolint", str(DEPLOY / "Dockerfile"))


def test_the_objects_fit_the_schemas_of_kubernetes() -> None:
    linted("kubernetes-validate", "--strict", str(DEPLOY / "kubernetes.yaml"))


def test_systemd_reads_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "glassbert.service"
    # It looks for the program, which is elsewhere here.
    unit.write_text(UNIT.replace("/opt/glassbert/bin/glassbert", sys.executable))
    linted("systemd-analyze", "verify", str(unit))

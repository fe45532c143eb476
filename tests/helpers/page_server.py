"""A server that a page of the handbook starts in the background, and curl to ask it."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

SHOWN = "127.0.0.1:8080"
"""The address in the pages; the server of a test takes a free port instead."""
_START_S = 120.0


class PageServer:
    """The server of a page, once it has started one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._address = SHOWN

    def start(self, arguments: list[str]) -> list[str]:
        """Start `glassbert serve` and wait until it is ready; return what it prints, as the page shows it."""
        assert self._process is None, "one server at a time"
        command = [sys.executable, "-m", "glassbert", *arguments, "--port", "0"]
        with Path("server.log").open("w") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line.startswith("http://"), Path("server.log").read_text()
        self._address = line.removeprefix("http://")
        deadline = time.monotonic() + _START_S
        while True:
            assert self._process.poll() is None, Path("server.log").read_text()
            assert time.monotonic() < deadline
            try:
                with urlopen(f"{line}/readyz", timeout=5):
                    return [f"http://{SHOWN}"]
            except URLError:
                time.sleep(0.05)

    def actual(self, text: str) -> str:
        """Return a command or a program with the address at which the server really is."""
        return text.replace(SHOWN, self._address)

    def shown(self, text: str) -> str:
        """Return an output with the address that pages show."""
        return text.replace(self._address, SHOWN)

    def stop(self) -> int:
        """Ask the server to end; return its exit code."""
        if self._process is None:
            return 0
        self._process.terminate()
        code = self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._process, self._address = None, SHOWN
        return code


def curl(arguments: list[str]) -> str:
    """Return what curl prints; where there is no curl, do what it does with -s, -H, -d and an address."""
    if shutil.which("curl"):
        run = subprocess.run(["curl", *arguments], capture_output=True, text=True, timeout=60, check=False)
        return run.stdout + run.stderr
    given = iter(word for word in arguments if word != "-s")
    headers, data, url = {}, None, ""
    for word in given:
        if word == "-H":
            name, _, value = next(given).partition(":")
            headers[name] = value.strip()
        elif word == "-d":
            data = next(given).encode()
        else:
            url = word
    try:
        with urlopen(Request(url, data, headers), timeout=60) as answer:
            return str(answer.read(), "utf-8")
    except HTTPError as error:
        return str(error.read(), "utf-8")

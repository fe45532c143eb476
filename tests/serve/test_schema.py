"""schemathesis over the whole description of the routes, once for each model.

It is no part of any extra, since its pins come and go: `pip install schemathesis` somewhere, put its folder
on the PATH, and run `pytest -m slow tests/serve/test_schema.py`.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.serve_process import ServeProcess
from helpers.small_served import TASKS

SECONDS = 30
KEY = "open-sesame"
# A schema cannot say which model does what, or which ids are in its vocabulary: refusals that are documented
# are right answers to requests that fit the schema. And a model of another task refuses first of all.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", 400, 401, 404, 413, 422, 424]

[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 413, 415, 422, 424, 429]
"""


@pytest.fixture(scope="module")
def server(folders: dict[str, str]) -> Iterator[ServeProcess]:
    patient = ("--timeout", "60", "--max-wait", "60", "--threads", "1")
    one = ServeProcess(*folders.values(), *patient, API_KEY=KEY)
    one.wait_for("ready")
    yield one
    assert one.stop() == 0
    assert "Traceback" not in "".join(one.lines)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["", *TASKS, "translate"])
def test_every_answer_is_one_that_the_description_names(
    model: str, server: ServeProcess, tmp_path: Path
) -> None:
    program = shutil.which("schemathesis")
    if program is None:
        pytest.skip("schemathesis is not installed")
    (tmp_path / "config.toml").write_text(CONFIG)
    address = f"http://127.0.0.1:{server.port}"
    words = [program, "--config-file", str(tmp_path / "config.toml"), "run", f"{address}/openapi.json"]
    words += ["--url", f"{address}/models/{model}" if model else address, "--checks", "all"]
    words += ["--phases", "examples,coverage,fuzzing", "--max-time", str(SECONDS)]
    words += ["--header", f"Authorization: Bearer {KEY}"]
    found = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode == 0, found.stdout[-6000:]
    assert "No issues found" in found.stdout or "passed" in found.stdout
    assert server.process.poll() is None

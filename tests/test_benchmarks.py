"""`make bench` runs scripts that need no arguments."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
COMPARED = re.findall(r"^BENCHMARKS := (.*)$", MAKEFILE, re.MULTILINE)[0].split()


@pytest.mark.parametrize("name", COMPARED)
def test_a_script_of_make_bench_needs_no_argument(name: str) -> None:
    script = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(script) if isinstance(node, ast.Call)]
    added = [call for call in calls if ast.unparse(call.func).endswith(".add_argument")]
    assert added
    for call in added:
        options = {option.arg for option in call.keywords}
        is_named = ast.literal_eval(call.args[0]).startswith("-")
        assert ("required" not in options) if is_named else ("nargs" in options), ast.unparse(call)

"""What do taps cost when they are off? The network against a copy with every tap cut out of its code.

The copy is made from the source: each test of a tap, each call of one and each argument that passes one on is
removed. Ours and two such copies run in one process, in turns that rotate, on the same packed batch. Each
turn gives a ratio, which other work on the machine hardly moves. The median of ours to a copy must be within
1%; that of the two copies shows what the machine can resolve. Close other programs first; two minutes.

    python benchmarks/trace.py [--seconds 40] [--threads 2]
"""

import argparse
import ast
import importlib
import math
import random
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import glassbert

SOURCE = Path(glassbert.__file__).parent
COPY = "untapped"
LIMIT = 1.01
LEAST_TURNS = 30
SHAPES = {"4x256, 8 short texts": ("mini", [16] * 8), "6x384, 24 texts": ("6x384", list(range(10, 106, 4)))}


class WithoutTaps(ast.NodeTransformer):
    """Replaces every tap by None and folds what then never happens."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_read = isinstance(node.ctx, ast.Load)
        return ast.Constant(None) if is_read and node.id in ("tap", "head_tap") else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return ast.Constant(None) if node.attr == "tap" and isinstance(node.ctx, ast.Load) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name == "within":
            return ast.Constant(None)
        if name == "shown":
            return node.args[0]
        node.keywords = [one for one in node.keywords if one.arg != "tap"]
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.And):
            return ast.Constant(None) if any(map(is_none, node.values)) else node
        node.values = [value for value in node.values if not is_none(value)] or [ast.Constant(None)]
        return node if len(node.values) > 1 else node.values[0]

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        self.generic_visit(node)
        found = outcome(node.test)
        return node if found is None else node.body if found else node.orelse

    def visit_If(self, node: ast.If) -> Any:
        self.generic_visit(node)
        found = outcome(node.test)
        if found is None:
            node.body = node.body or [ast.Pass()]
            return node
        return node.body if found else node.orelse


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def outcome(test: ast.expr) -> bool | None:
    """Return what a test of a tap always says; None for any other test."""
    if is_none(test):
        return False
    if isinstance(test, ast.Compare) and is_none(test.left) and is_none(test.comparators[0]):
        return isinstance(test.ops[0], ast.Is)
    return None


def write_copy(folder: Path) -> None:
    """Write the model's package, and what it imports, without taps."""
    for path in (*SOURCE.glob("*.py"), *(SOURCE / "model").glob("*.py")):
        text = path.read_text(encoding="utf-8").replace("glassbert", COPY)
        if path.parent.name == "model" and path.name != "tap.py":
            tree = ast.fix_missing_locations(WithoutTaps().visit(ast.parse(text)))
            text = ast.unparse(tree)
            assert "tap(" not in text, f"{path.name} still calls a tap"
        target = folder / COPY / path.relative_to(SOURCE)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def network_of(package: str, shape: str) -> Any:
    """Return a network of a package; the same seed gives both packages the same weights."""
    config = importlib.import_module(f"{package}.config")
    changes = {"num_hidden_layers": 6, "hidden_size": 384, "intermediate_size": 1536}
    encoder = config.preset("mini") if shape == "mini" else config.preset("base", **changes)
    model = config.ModelConfig(encoder=encoder)
    return importlib.import_module(f"{package}.model.init").new_bert(model, seed=0).eval()


def measure(shape: str, lengths: list[int], seconds: float) -> list[list[float]]:
    """Return the time of each pass, by turns: with taps that are off, and of two copies without taps."""
    import torch

    generator = random.Random(0)
    ids = [[generator.randrange(5, 30000) for _ in range(length)] for length in lengths]
    runs: list[tuple[Any, Any]] = []
    for package in ("glassbert", COPY, COPY):
        batch = importlib.import_module(f"{package}.model.layout").Batch.from_lists(ids)
        runs.append((network_of(package, shape), batch))
    times: list[list[float]] = [[] for _ in runs]
    with torch.inference_mode():
        first, *others = (network(batch).hidden for network, batch in runs)
        assert all(torch.equal(first, other) for other in others), "all must give the same numbers"
        end, turn = time.perf_counter() + seconds, 0
        while time.perf_counter() < end or turn < LEAST_TURNS:
            for index in range(len(runs)):
                network, batch = runs[(index + turn) % len(runs)]
                started_at = time.perf_counter()
                network(batch)
                times[(index + turn) % len(runs)].append(time.perf_counter() - started_at)
            turn += 1
    return times


def ratio_of(first: list[float], second: list[float]) -> tuple[float, float, float]:
    """Return the median of the ratios of all turns, and its 95% interval by their ranks."""
    ratios = sorted(a / b for a, b in zip(first, second, strict=True))
    reach = math.ceil(0.98 * math.sqrt(len(ratios)))
    middle = len(ratios) // 2
    return statistics.median(ratios), ratios[middle - reach], ratios[min(middle + reach, len(ratios) - 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    # What is behind a cut `if` calls None and is never reached.
    warnings.simplefilter("ignore", SyntaxWarning)
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        write_copy(Path(name))
        sys.path.insert(0, name)
        for title, (shape, lengths) in SHAPES.items():
            ours, copy, other = measure(shape, lengths, arguments.seconds)
            ratio, low, high = ratio_of(ours, copy)
            worst = max(worst, ratio)
            print(
                f"{title}: {statistics.median(ours) * 1e3:.2f} ms with taps off, {ratio:.4f} [{low:.4f}, "
                f"{high:.4f}] times that without taps; two copies without taps "
                f"{ratio_of(copy, other)[0]:.4f}; {len(ours)} turns"
            )
    print(f"within {LIMIT - 1:.0%}: {'yes' if worst <= LIMIT else 'no'}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())

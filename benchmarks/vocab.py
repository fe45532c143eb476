"""Learn a vocabulary with glassbert and with `tokenizers` from the same text, twice each.

Claims measured: the size asked for is met exactly; two runs, on one process and on two, give the same bytes;
time and memory stay small. Every twentieth line is held out, to count pieces per word on unseen text.

    python benchmarks/vocab.py [CORPUS] [--size N]
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

import glassbert
from glassbert.text.documents import read_documents
from glassbert.text.files import read_lines
from glassbert.text.inspection import inspect_text, inspect_vocabulary
from glassbert.text.sources import find_sources
from glassbert.text.vocabulary import SPECIALS, Vocabulary
from glassbert.text.wordpiece.learn import LearnSettings, learn_vocabulary
from glassbert.text.wordpiece.tokenizer import Tokenizer

DEFAULT_CORPUS = Path(__file__).parents[2] / "shared/data/corpus/enwiki.jsonl.gz"
HELD_OUT_EVERY = 20
SAMPLE_EVERY_S = 0.05
RUNS = {
    "glassbert, 1 process": ("glassbert", 1),
    "glassbert, 2 processes": ("glassbert", 2),
    "tokenizers": ("tokenizers", 1),
    "tokenizers again": ("tokenizers", 2),
}


def main() -> None:
    """Run each learner twice, each time in a process of its own, and print one table."""
    parser = argparse.ArgumentParser(description="Compare vocabulary learners.")
    parser.add_argument("corpus", nargs="?", type=Path, default=DEFAULT_CORPUS)
    parser.add_argument("--size", type=int, default=16384)
    parser.add_argument("--worker", choices=["glassbert", "tokenizers"], help=argparse.SUPPRESS)
    parser.add_argument("--processes", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is None:
        compare(arguments.corpus, arguments.size)
    elif arguments.worker == "glassbert":
        result = learn_ours(arguments.corpus, arguments.size, arguments.processes)
        arguments.result.write_text(json.dumps(result), encoding="utf-8")
    else:
        result = learn_theirs(arguments.corpus, arguments.size)
        arguments.result.write_text(json.dumps(result), encoding="utf-8")


def compare(corpus: Path, size: int) -> None:
    """Print versions, one line a run, and the ratios."""
    print(
        f"glassbert {glassbert.__version__}, tokenizers {tokenizers.__version__}, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores"
    )
    with tempfile.TemporaryDirectory() as folder:
        train, held_out = split(corpus, Path(folder))
        print(f"{corpus.name}: {train.stat().st_size / 1e6:.1f} MB to learn {size:,} pieces from")
        print(f"{'':<24}{'s':>7}{'MB':>7}{'size':>8}{'dead':>6}{'pieces/word':>13}{'[UNK]':>9}  sha256")
        found = {name: run(name, train, held_out, size) for name in RUNS}
    ours, ours_again, theirs, theirs_again = found.values()
    print(f"same bytes twice: glassbert {ours['sha256'] == ours_again['sha256']}, ", end="")
    print(f"tokenizers {theirs['sha256'] == theirs_again['sha256']}")
    print(f"same set of pieces twice: tokenizers {set(theirs['pieces']) == set(theirs_again['pieces'])}")
    print(f"time, glassbert (2 processes) / tokenizers: {ours_again['seconds'] / theirs['seconds']:.2f}")
    print(f"memory, glassbert (2 processes) / tokenizers: {ours_again['peak_mb'] / theirs['peak_mb']:.2f}")
    print(f"pieces per held-out word, glassbert / tokenizers: {ours['per_word'] / theirs['per_word']:.4f}")


def split(corpus: Path, folder: Path) -> tuple[Path, Path]:
    """Write the lines to learn from and the held-out ones into two files of the same kind."""
    is_json = ".jsonl" in corpus.name
    train, held_out = (folder / f"{name}{'.jsonl' if is_json else '.txt'}" for name in ("train", "held_out"))
    with train.open("wb") as train_file, held_out.open("wb") as held_out_file:
        for number, line in enumerate(read_lines(corpus), start=1):
            (train_file if number % HELD_OUT_EVERY else held_out_file).write(f"{line}\n".encode())
    return train, held_out


def run(name: str, train: Path, held_out: Path, size: int) -> dict[str, Any]:
    """Learn in a fresh process, watch its memory, measure the result and print a line."""
    worker, processes = RUNS[name]
    result_file = train.with_name("result.json")
    command = [sys.executable, __file__, str(train), "--size", str(size), "--result", str(result_file)]
    command += ["--worker", worker, "--processes", str(processes)]
    child = subprocess.Popen(command, env=os.environ | {"PYTHONHASHSEED": str(processes)})
    peak = 0
    while child.poll() is None:
        peak = max(peak, resident_bytes(child.pid))
        time.sleep(SAMPLE_EVERY_S)
    if child.returncode:
        raise SystemExit(f"{name} ended with code {child.returncode}")
    result: dict[str, Any] = json.loads(result_file.read_text(encoding="utf-8"))
    vocabulary = Vocabulary(tuple(result["pieces"]))
    tokenizer = Tokenizer(vocabulary)
    text = inspect_text(tokenizer, [held_out])
    result |= {"peak_mb": peak / 1e6, "per_word": text.pieces_per_word, "sha256": vocabulary.sha256}
    print(
        f"{name:<24}{result['seconds']:>7.1f}{result['peak_mb']:>7.0f}{len(vocabulary):>8,}"
        f"{inspect_vocabulary(tokenizer).num_dead:>6,}{text.pieces_per_word:>13.4f}{text.unknown_rate:>9.4%}"
        f"  {vocabulary.sha256}",
        flush=True,
    )
    return result


def learn_ours(train: Path, size: int, processes: int) -> dict[str, Any]:
    """Learn with glassbert."""
    started_at = time.perf_counter()
    learned = learn_vocabulary([train], LearnSettings(size=size, processes=processes))
    return {"seconds": time.perf_counter() - started_at, "pieces": learned.vocabulary.pieces}


def learn_theirs(train: Path, size: int) -> dict[str, Any]:
    """Learn with the trainer of `tokenizers`, on all cores, with its defaults."""
    started_at = time.perf_counter()
    engine = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer = normalizers.BertNormalizer()
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=list(SPECIALS), show_progress=False)
    engine.train_from_iterator(texts(train), trainer)
    seconds = time.perf_counter() - started_at
    ids = engine.get_vocab()
    return {"seconds": seconds, "pieces": sorted(ids, key=lambda piece: ids[piece])}


def texts(path: Path) -> Iterator[str]:
    """Yield the texts of a file."""
    for part in read_documents(find_sources(path).texts):
        yield "\n".join(part.lines)


def resident_bytes(pid: int) -> int:
    """Return the memory that a process and those it started hold now (Linux); shared pages count for each."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0  # it has ended
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident_bytes(int(child)) for child in children)


if __name__ == "__main__":
    main()

"""Packed encoding against transformers, onnxruntime, openvino, ctranslate2: same texts and weights.

Every engine runs in a process of its own, which sleeps while another is measured; rounds are interleaved and
medians compared. Each peer gets the texts sorted by length and may choose its best batch size. The limit is
what the machine's matrix product alone would take for the linear layers, measured in the same rounds.

With --precision int8, our int8 is compared with our fp32 and the int8 of onnxruntime and ctranslate2. The
peers quantise their inputs as they come, as we do; onnxruntime may choose its graph with or without fusion.

    python benchmarks/encode.py [CORPUS.jsonl.gz] [--precision int8] [--rounds 7] [--only 6x384]
"""

import argparse
import gzip
import importlib.metadata
import json
import os
import random
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from worker import Run, Worker

CORPUS = Path(__file__).parent.parent.parent / "shared" / "data" / "corpus" / "enwiki.jsonl.gz"
THREADS = os.cpu_count() or 1
BATCH_SIZES = (8, 16, 32, 64)
SEED = 0


@dataclass(frozen=True)
class Case:
    """A size of encoder and the number of texts it is measured on."""

    num_layers: int
    width: int
    num_heads: int
    num_texts: int
    target: float
    """How many times the best peer's speed is wanted."""

    @property
    def name(self) -> str:
        return f"{self.num_layers}x{self.width}"

    def flops(self, num_tokens: int) -> int:
        """Multiplications and additions of the linear layers."""
        return 2 * num_tokens * self.num_layers * 12 * self.width**2


# Wanted of int8, by what the CPU has: times our fp32, times the best int8 of a peer.
INT8_TARGETS = {"AVX2": (1.6, 1.0), "AVX512": (2.0, 1.25)}
CASES = (Case(6, 384, 12, 512, target=1.1), Case(12, 768, 12, 96, target=1.0))


def read_sentences(corpus: Path, count: int) -> list[str]:
    """Return ``count`` sentences of the corpus, chosen by a fixed seed."""
    sentences: list[str] = []
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        for _, line in zip(range(300), lines, strict=False):
            paragraphs = json.loads(line)["text"].split("\n")
            sentences += [s.strip() for p in paragraphs for s in p.split(". ") if len(s) > 40]
    return random.Random(SEED).sample(sentences, count)


def prepare(case: Case, texts: list[str], folder: Path, precision: str) -> list[list[int]]:
    """Write one random model in every engine's form; return the token ids of the texts, shortest first."""
    import torch
    import transformers

    from glassbert.config import ModelConfig, preset
    from glassbert.interop.folder import write_model
    from glassbert.model.init import new_bert
    from glassbert.text.wordpiece.learn import LearnSettings, learn_vocabulary
    from glassbert.text.wordpiece.tokenizer import Tokenizer

    corpus = folder / "texts.txt"
    corpus.write_text("\n".join(texts), encoding="utf-8")
    vocabulary = learn_vocabulary([corpus], LearnSettings(size=2000)).vocabulary
    shape = preset(
        "base",
        num_hidden_layers=case.num_layers,
        hidden_size=case.width,
        intermediate_size=4 * case.width,
        num_attention_heads=case.num_heads,
        vocab_size=len(vocabulary),
    )
    tokenizer = Tokenizer(vocabulary, max_length=256)
    write_model(new_bert(ModelConfig(encoder=shape, has_pooler=True), seed=SEED), tokenizer, folder, run={})
    oracle = transformers.BertModel.from_pretrained(folder).eval()
    export_onnx(oracle, folder / "model.onnx")
    if precision == "int8":
        quantise_onnx(case, folder)
    # ctranslate2's converter asks for a key that transformers 5 no longer keeps; our config.json has it.
    transformers.BertConfig.position_embedding_type = "absolute"
    import ctranslate2.converters

    kind = "int8" if precision == "int8" else None
    ctranslate2.converters.TransformersConverter(str(folder)).convert(
        str(folder / "ctranslate2"), quantization=kind
    )
    torch.set_num_threads(THREADS)
    return sorted((encoding.ids for encoding in tokenizer.encode_batch(texts)), key=len)


def export_onnx(oracle: Any, path: Path) -> None:
    import torch

    class LastHidden(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = oracle

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    example = torch.ones(2, 16, dtype=torch.long)
    axes = {0: torch.export.Dim("batch", min=1, max=4096), 1: torch.export.Dim("length", min=2, max=512)}
    shapes = {"input_ids": axes, "attention_mask": axes}
    with torch.no_grad():
        torch.onnx.export(
            LastHidden().eval(),
            (example, example),
            str(path),
            input_names=list(shapes),
            output_names=["hidden"],
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )


def quantise_onnx(case: Case, folder: Path) -> None:
    """Write onnxruntime's own int8 form of the graph, as exported and with its fusions for BERT."""
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    fused = optimizer.optimize_model(
        str(folder / "model.onnx"), "bert", case.num_heads, case.width, FusionOptions("bert")
    )
    fused.save_model_to_file(str(folder / "fused.onnx"))
    for name in ("model", "fused"):
        source, target = folder / f"{name}.onnx", folder / f"{name}.int8.onnx"
        quantize_dynamic(source, target, per_channel=True, weight_type=QuantType.QInt8)


def padded_batches(ids: list[list[int]], size: int) -> Iterator[tuple[Any, Any]]:
    """Yield (ids, mask) of ``size`` sequences each, padded to the longest of them."""
    import numpy as np

    for start in range(0, len(ids), size):
        chosen = ids[start : start + size]
        padded = np.zeros((len(chosen), max(map(len, chosen))), dtype=np.int64)
        mask = np.zeros_like(padded)
        for row, sequence in enumerate(chosen):
            padded[row, : len(sequence)] = sequence
            mask[row, : len(sequence)] = 1
        yield padded, mask


def glassbert_runs(folder: Path, ids: list[list[int]], precision: Any = "float32") -> dict[str, Run]:
    import torch

    from glassbert.inference.loading import load
    from glassbert.text.wordpiece.tokenizer import Encoding

    torch.set_num_threads(THREADS)
    engine = load(folder, precision=precision).engine
    encodings = [Encoding(list(s), [0] * len(s), [(0, 0)] * len(s), [], (), 0) for s in ids]
    random.Random(SEED).shuffle(encodings)  # ours sorts by itself
    return {"packed": lambda: engine.map(encodings, lambda out, batch, _: batch.layout.split(out.hidden))}


def transformers_runs(folder: Path, ids: list[list[int]]) -> dict[str, Run]:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    model = transformers.BertModel.from_pretrained(folder).eval()

    def run(size: int) -> None:
        with torch.inference_mode():
            for batch, mask in padded_batches(ids, size):
                model(input_ids=torch.from_numpy(batch), attention_mask=torch.from_numpy(mask))

    return {str(size): lambda size=size: run(size) for size in BATCH_SIZES}


def onnxruntime_runs(
    folder: Path, ids: list[list[int]], files: tuple[str, ...] = ("model.onnx",)
) -> dict[str, Run]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS

    def runs(file: str) -> Callable[[int], None]:
        session = onnxruntime.InferenceSession(folder / file, options, providers=["CPUExecutionProvider"])

        def run(size: int) -> None:
            for batch, mask in padded_batches(ids, size):
                session.run(None, {"input_ids": batch, "attention_mask": mask})

        return run

    found: dict[str, Run] = {}
    for file in files:
        run = runs(file)
        prefix = "" if len(files) == 1 else f"{file.split('.')[0]} "
        found |= {f"{prefix}{size}": lambda size=size, run=run: run(size) for size in BATCH_SIZES}
    return found


def openvino_runs(folder: Path, ids: list[list[int]]) -> dict[str, Run]:
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": THREADS,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = core.compile_model(folder / "model.onnx", "CPU", settings).create_infer_request()

    def run(size: int) -> None:
        for batch, mask in padded_batches(ids, size):
            request.infer({"input_ids": batch, "attention_mask": mask})

    return {str(size): lambda size=size: run(size) for size in BATCH_SIZES}


def ctranslate2_runs(folder: Path, ids: list[list[int]], kind: str = "float32") -> dict[str, Run]:
    import ctranslate2

    encoder = ctranslate2.Encoder(str(folder / "ctranslate2"), device="cpu", intra_threads=THREADS,
                                  inter_threads=1, compute_type=kind)  # fmt: skip

    def run(size: int) -> None:
        for start in range(0, len(ids), size):
            encoder.forward_batch(ids[start : start + size])

    return {str(size): lambda size=size: run(size) for size in BATCH_SIZES}


def gemm_runs(case: Case, num_tokens: int) -> dict[str, Run]:
    """Only the matrix products of the linear layers, in the batch size that suits them."""
    import torch

    torch.set_num_threads(THREADS)
    rows = 2048
    narrow, wide = torch.randn(rows, case.width), torch.randn(rows, 4 * case.width)
    square = torch.randn(case.width, case.width)
    up, down = torch.randn(case.width, 4 * case.width), torch.randn(4 * case.width, case.width)

    def run() -> None:
        for _ in range(max(1, round(num_tokens / rows)) * case.num_layers):
            for _ in range(4):
                torch.mm(narrow, square)
            torch.mm(narrow, up)
            torch.mm(wide, down)

    return {"gemm": run}


FP32 = "glassbert fp32"
INT8_GRAPHS = ("model.int8.onnx", "fused.int8.onnx")
ENGINES: dict[str, dict[str, Callable[..., dict[str, Run]]]] = {
    "float32": {
        "glassbert": glassbert_runs,
        "transformers": transformers_runs,
        "onnxruntime": onnxruntime_runs,
        "openvino": openvino_runs,
        "ctranslate2": ctranslate2_runs,
    },
    "int8": {
        "glassbert": partial(glassbert_runs, precision="int8"),
        FP32: glassbert_runs,
        "onnxruntime": partial(onnxruntime_runs, files=INT8_GRAPHS),
        "ctranslate2": partial(ctranslate2_runs, kind="int8"),
    },
}


def measure(case: Case, texts: list[str], num_rounds: int, precision: str) -> bool:
    """Print the table of one case; return whether its targets were met."""
    folder = Path(tempfile.mkdtemp())
    try:
        ids = prepare(case, texts, folder, precision)
        num_tokens = sum(map(len, ids))
        workers = {name: Worker(make, folder, ids) for name, make in ENGINES[precision].items()}
        workers["limit"] = Worker(gemm_runs, case, num_tokens)
        for worker in workers.values():
            worker.keep_best_variant()
        times: dict[str, list[float]] = {name: [] for name in workers}
        for _ in range(num_rounds):
            for name, worker in workers.items():
                times[name].append(worker.measure(worker.variants[0]))
        memory = {name: worker.close() for name, worker in workers.items()}
    finally:
        shutil.rmtree(folder)
    # The limit's products cover a whole number of batches; scale to the tokens of the texts.
    done = max(1, round(num_tokens / 2048)) * 2048
    seconds = {name: statistics.median(values) for name, values in times.items()}
    seconds["limit"] *= num_tokens / done
    median = statistics.median(map(len, ids))
    print(f"\n{case.name}: {len(ids)} texts, {num_tokens:,} tokens, median {median:.0f}")
    print(f"GEMM limit {case.flops(num_tokens) / seconds['limit'] / 1e9:.0f} GFLOP/s\n")
    print(f"{'engine':<16}{'version':<10}{'batch':>9}{'seconds':>9}{'tokens/s':>10}{'of limit':>9}{'MB':>7}")
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        version = "" if name == "limit" else importlib.metadata.version(name.split()[0])
        batch = workers[name].variants[0]
        share = seconds["limit"] / value
        line = f"{name:<16}{version:<10}{batch:>9}{value:>9.3f}{num_tokens / value:>10,.0f}{share:>9.2f}"
        print(f"{line}{memory[name]:>7,.0f}")
    peers = {name: value for name, value in seconds.items() if name not in ("glassbert", FP32, "limit")}
    best = min(peers, key=lambda name: peers[name])
    wanted = {best: case.target}
    if precision == "int8":
        of_fp32, of_peer = INT8_TARGETS[capability()]
        wanted = {FP32: of_fp32, best: of_peer}
    is_met = True
    print()
    for name, target in wanted.items():
        ratio = statistics.median(b / a for a, b in zip(times["glassbert"], times[name], strict=True))
        print(
            f"glassbert / {'best peer, ' if name == best else ''}{name}: {ratio:.2f}x (wanted {target:.2f}x)"
        )
        is_met &= ratio >= target
    return is_met


def capability() -> str:
    """Return the widest vectors that torch uses here: AVX2 or AVX512."""
    import torch

    return torch.backends.cpu.get_cpu_capability()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--precision", choices=list(ENGINES), default="float32")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=[case.name for case in CASES])
    arguments = parser.parse_args()
    import torch

    print(f"{THREADS} threads, torch {torch.__version__}, {capability()}, {arguments.precision}")
    texts = read_sentences(arguments.corpus, max(case.num_texts for case in CASES))
    cases = [case for case in CASES if arguments.only in (None, case.name)]
    met = [measure(case, texts[: case.num_texts], arguments.rounds, arguments.precision) for case in cases]
    print("\nall targets met" if all(met) else "\na target was missed")


if __name__ == "__main__":
    main()

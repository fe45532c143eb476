"""Translation against torch.nn.Transformer, transformers and ctranslate2: same pairs and shape, fp32.

Training: one update after the other over the same pairs, in target tokens a second. The peers pad; they sort
their pairs by length, and each has the batch size that suits it best. Decoding: the same weights in every
engine, in sentences a second, lines drawn at random and not sorted; how many translations agree is counted.
We and ctranslate2 sort them by length; `generate` does not, so it is measured twice, the second time with
lines that were sorted before. Give a trained translator with --model, since random weights do not end their
sentences: without one, every engine writes a fixed number of tokens.

Every engine runs in a process of its own, which sleeps while another is measured; rounds are interleaved and
medians compared.

    python benchmarks/translate.py [PAIRS.tsv.gz] [--model FOLDER] [--pairs 4000] [--rounds 5] [--only PART]
"""

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from worker import Run, Worker

PAIRS = Path(__file__).parent.parent.parent / "shared" / "data" / "translate" / "en-es.train.tsv.gz"
THREADS = os.cpu_count() or 1
SEED = 0
BATCH_TOKENS = 8192
TRAIN_SIZES = (32, 64, 128, 256)
DECODE_SIZES = (16, 32, 64, 128)
FIXED_LENGTH = 20
BEAM = 4


@dataclass(frozen=True)
class Shape:
    """The size of all networks."""

    num_layers: int = 3
    width: int = 256
    num_heads: int = 4
    vocab_size: int = 8000

    def recipe_model(self) -> dict[str, Any]:
        return {
            "preset": "transformer-small",
            "num_hidden_layers": self.num_layers,
            "hidden_size": self.width,
            "num_attention_heads": self.num_heads,
            "hidden_dropout_prob": 0.1,
        }


@dataclass(frozen=True)
class Work:
    """What every engine is given."""

    folder: Path
    """A translator: its weights are decoded with, its shape is trained."""
    pairs: list[tuple[list[int], list[int]]]
    """Source and target ids, each with its end."""
    sources: list[list[int]]
    """To be decoded, as they come."""
    max_length: int
    """Tokens after which a translation is cut off."""

    @property
    def num_target_tokens(self) -> int:
        return sum(len(target) for _, target in self.pairs)


def prepare(arguments: argparse.Namespace, shape: Shape, folder: Path) -> Work:
    """Make or take a translator, and encode the pairs that are measured."""
    from glassbert.data.random import Draw, permutation
    from glassbert.data.sentence_pairs import ParallelFiles
    from glassbert.interop.folder import TranslatorFolder, write_model
    from glassbert.model.init import new_transformer
    from glassbert.runs.translate import TranslateRecipe
    from glassbert.text.bpe.learn import SubwordSettings, learn_subwords

    rows = list(ParallelFiles.of(arguments.pairs_file).pairs())
    if arguments.model is None:
        texts = (text for row in rows for text in row[:2])
        tokenizer = learn_subwords(texts, SubwordSettings(size=shape.vocab_size)).tokenizer
        tables = {"data": {"train": "-"}, "model": shape.recipe_model()}
        config = TranslateRecipe.of(tables).config(len(tokenizer))
        write_model(new_transformer(config, seed=SEED), tokenizer, folder / "model", run={})  # type: ignore[arg-type]
    else:
        shutil.copytree(arguments.model, folder / "model")
    found = TranslatorFolder.open(folder / "model")
    network, tokenizer = found.build()[0], found.tokenizer()
    export(network, tokenizer, folder)
    chosen = [rows[index] for index in permutation(len(rows), SEED, Draw.ORDER)[: arguments.pairs]]
    end = tokenizer.end_id
    pairs = [([*tokenizer.ids_of(row.source), end], [*tokenizer.ids_of(row.target), end]) for row in chosen]
    sources = [source for source, _ in pairs[: arguments.sentences]]
    return Work(folder, pairs, sources, FIXED_LENGTH if arguments.model is None else 128)


def export(network: Any, tokenizer: Any, folder: Path) -> None:
    from glassbert.interop.ctranslate2 import export_ctranslate2

    export_ctranslate2(network, tokenizer.pieces, folder / "ctranslate2", unknown_piece="<unk>")


def glassbert_training(work: Work) -> dict[str, Run]:
    import numpy as np
    import torch

    from glassbert.data.pair_batches import EncodedPairs, Sentences, TranslateObjective
    from glassbert.interop.folder import TranslatorFolder
    from glassbert.tasks.translation import Translate
    from glassbert.training.optimizer import make_optimizer
    from glassbert.training.settings import TrainSettings
    from glassbert.training.step import train_step

    torch.set_num_threads(THREADS)
    found = TranslatorFolder.open(work.folder / "model")
    network, tokenizer = found.build()[0], found.tokenizer()

    def sentences(side: int) -> Sentences:
        ids = [pair[side][:-1] for pair in work.pairs]
        flat = np.array([id_ for each in ids for id_ in each], dtype=np.int32)
        return Sentences(flat, np.cumsum([len(each) for each in ids]))

    pairs = EncodedPairs(sentences(0), sentences(1), tokenizer.pad_id, tokenizer.end_id)
    objective = TranslateObjective(pairs, batch_tokens=BATCH_TOKENS, seed=SEED)
    task = Translate(network, tokenizer, objective)
    task.module.train()
    optimizer = make_optimizer(task.module, task.depth_of, TrainSettings())

    def run() -> None:
        for step in range(task.steps_in_epochs(1.0)):
            batch = task.batch(step)
            train_step(
                task.module, [batch], task.counts(batch), task.loss_weights, optimizer, max_grad_norm=1.0
            )

    return {"packed": run}


def padded_batches(work: Work, size: int) -> Iterator[tuple[Any, Any]]:
    """Yield sources and targets, (B, L) each, padded with 0; pairs of one length are together."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    pairs = sorted(work.pairs, key=lambda pair: (len(pair[1]), len(pair[0])))
    for start in range(0, len(pairs), size):
        chosen = pairs[start : start + size]
        source, target = (
            pad_sequence([torch.tensor(pair[side]) for pair in chosen], batch_first=True) for side in (0, 1)
        )
        yield source, target


def padded_variants(run: Callable[[int], None]) -> dict[str, Run]:
    return {f"sorted {size}": partial(run, size) for size in TRAIN_SIZES}


def torch_training(work: Work) -> dict[str, Run]:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn

    from glassbert.interop.folder import TranslatorFolder
    from glassbert.model.positions import sinusoids

    torch.set_num_threads(THREADS)
    shape = TranslatorFolder.open(work.folder / "model").build()[0].config.encoder  # type: ignore[union-attr]
    width = shape.hidden_size

    class Plain(nn.Module):
        """As one would write it from the documentation of torch."""

        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(shape.vocab_size, width)
            layers = shape.num_hidden_layers
            self.core = nn.Transformer(
                width, shape.num_attention_heads, layers, layers, shape.intermediate_size, batch_first=True
            )
            self.output = nn.Linear(width, shape.vocab_size)
            self.output.weight = self.embedding.weight

        def embed(self, ids: Tensor) -> Tensor:
            table = sinusoids(512, width)[: ids.size(1)]
            return F.dropout(self.embedding(ids) * width**0.5 + table, 0.1, self.training)

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(target.size(1), dtype=torch.bool)
            hidden = self.core(
                self.embed(source),
                self.embed(target),
                tgt_mask=mask,
                src_key_padding_mask=source == 0,
                memory_key_padding_mask=source == 0,
                tgt_is_causal=True,
            )
            return self.output(hidden)

    model = Plain().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run(size: int) -> None:
        for source, labels in padded_batches(work, size):
            target = F.pad(labels[:, :-1], (1, 0))
            logits = model(source, target)
            loss = F.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1
            )
            update(model, optimizer, loss)

    return padded_variants(run)


def marian_training(work: Work) -> dict[str, Run]:
    import torch
    import torch.nn.functional as F
    from transformers import MarianMTModel

    torch.set_num_threads(THREADS)
    model: Any = MarianMTModel.from_pretrained(work.folder / "model").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run(size: int) -> None:
        for source, labels in padded_batches(work, size):
            target = F.pad(labels[:, :-1], (1, 0))
            logits = model(input_ids=source, attention_mask=source != 0, decoder_input_ids=target).logits
            loss = F.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1
            )
            update(model, optimizer, loss)

    return padded_variants(run)


def update(model: Any, optimizer: Any, loss: Any) -> None:
    import torch

    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def glassbert_decoding(work: Work, beam: int) -> dict[str, Run]:
    import torch

    from glassbert.inference.decode import Decoder, DecodeSettings
    from glassbert.interop.folder import TranslatorFolder

    torch.set_num_threads(THREADS)
    decoder = Decoder.of(TranslatorFolder.open(work.folder / "model").build()[0])
    settings = DecodeSettings(
        method="greedy" if beam == 1 else "beam", beam_size=beam, max_length=work.max_length
    )

    def run() -> None:
        found = decoder.decode(work.sources, settings)
        note(work, f"glassbert-{beam}", [list(one[0].ids) for one in found])

    return {"packed": run}


def marian_decoding(work: Work, beam: int, is_sorted: bool = False) -> dict[str, Run]:
    """`generate` takes a batch as it is given: the lines as they come, or sorted by length before."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import MarianMTModel

    torch.set_num_threads(THREADS)
    model: Any = MarianMTModel.from_pretrained(work.folder / "model").eval()

    order = list(range(len(work.sources)))
    if is_sorted:
        order.sort(key=lambda index: len(work.sources[index]))

    def run(size: int) -> None:
        found: dict[int, list[int]] = {}
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            batch = pad_sequence([torch.tensor(work.sources[index]) for index in chosen], batch_first=True)
            with torch.inference_mode():
                written = model.generate(
                    input_ids=batch,
                    attention_mask=batch != 0,
                    num_beams=beam,
                    do_sample=False,
                    max_new_tokens=work.max_length,
                    bad_words_ids=[[0]],
                    forced_eos_token_id=None,
                )
            targets = [[id_ for id_ in ids if id_ > 1] for ids in written.tolist()]
            found |= zip(chosen, targets, strict=True)
        note(work, f"transformers-{beam}", [found[index] for index in range(len(order))])

    return {str(size): partial(run, size) for size in DECODE_SIZES}


def ctranslate2_decoding(work: Work, beam: int) -> dict[str, Run]:
    import ctranslate2

    from glassbert.text.bpe.tokenizer import SubwordTokenizer

    pieces = SubwordTokenizer.load(work.folder / "model").pieces
    ids = {piece: id_ for id_, piece in enumerate(pieces)}
    translator = ctranslate2.Translator(
        str(work.folder / "ctranslate2"),
        device="cpu",
        intra_threads=THREADS,
        inter_threads=1,
        compute_type="float32",
    )
    texts = [[pieces[id_] for id_ in source[:-1]] for source in work.sources]

    def run(size: int) -> None:
        results = translator.translate_batch(
            texts, beam_size=beam, max_batch_size=size, max_decoding_length=work.max_length
        )
        found = [[ids[piece] for piece in one.hypotheses[0]] for one in results]
        note(work, f"ctranslate2-{beam}", found)

    return {str(size): partial(run, size) for size in DECODE_SIZES}


def note(work: Work, name: str, found: list[list[int]]) -> None:
    """Leave the translations where the comparison finds them."""
    lines = [" ".join(map(str, ids)) for ids in found]
    (work.folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")


def keep_fastest(worker: Worker) -> None:
    """Continue with the variant that takes the least time, after a warm-up pass."""
    worker.measure(worker.variants[0])
    if len(worker.variants) > 1:
        times = {variant: worker.measure(variant) for variant in worker.variants}
        worker.variants = [min(times, key=lambda variant: times[variant])]


def measured(
    engines: dict[str, Callable[..., dict[str, Run]]], arguments: tuple[Any, ...], num_rounds: int
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Return the seconds of each engine in each round, and the variant that suited it best."""
    workers = {name: Worker(make, *arguments) for name, make in engines.items()}
    for worker in workers.values():
        keep_fastest(worker)
    times: dict[str, list[float]] = {name: [] for name in workers}
    for _ in range(num_rounds):
        for name, worker in workers.items():
            times[name].append(worker.measure(worker.variants[0]))
    chosen = {name: worker.variants[0] for name, worker in workers.items()}
    for worker in workers.values():
        worker.close()
    return times, chosen


def table(
    title: str, times: dict[str, list[float]], chosen: dict[str, str], amount: int, unit: str
) -> dict[str, float]:
    """Print the speeds; return how many times as fast as each peer we are."""
    print(f"\n{title}\n{'engine':<14}{'batches':>14}{'seconds':>9}{unit:>18}{'glassbert is':>14}")
    ratios = {}
    for name, seconds in times.items():
        ratios[name] = statistics.median(b / a for a, b in zip(times["glassbert"], seconds, strict=True))
        median = statistics.median(seconds)
        print(f"{name:<14}{chosen[name]:>14}{median:>9.2f}{amount / median:>18,.0f}{ratios[name]:>13.2f}x")
    return ratios


def agreement(work: Work, beam: int) -> str:
    """Print how many translations of the peers equal ours."""
    ours = (work.folder / f"glassbert-{beam}.txt").read_text(encoding="utf-8").split("\n")
    counts = []
    for peer in ("transformers", "ctranslate2"):
        theirs = (work.folder / f"{peer}-{beam}.txt").read_text(encoding="utf-8").split("\n")
        counts.append(f"{sum(a == b for a, b in zip(ours, theirs, strict=True))} with {peer}")
    return f"of {len(ours)} translations these are the same: {', '.join(counts)}"


def compare_training(work: Work, num_rounds: int) -> bool:
    """Print the speeds of training; return whether ours is as wanted."""
    engines = {"glassbert": glassbert_training, "torch": torch_training, "transformers": marian_training}
    times, chosen = measured(engines, (work,), num_rounds)
    title = f"training on {len(work.pairs):,} pairs, {work.num_target_tokens:,} target tokens"
    is_met = table(title, times, chosen, work.num_target_tokens, "target tokens/s")["torch"] >= 2.0
    print(f"wanted: 2x torch.nn.Transformer ({'met' if is_met else 'missed'})", flush=True)
    return is_met


def compare_decoding(work: Work, beam: int, num_rounds: int) -> bool:
    """Print the speeds of decoding; return whether ours is as wanted."""
    engines = {
        "glassbert": glassbert_decoding,
        "transformers": marian_decoding,
        "sorted before": partial(marian_decoding, is_sorted=True),
        "ctranslate2": ctranslate2_decoding,
    }
    times, chosen = measured(engines, (work, beam), num_rounds)
    ratios = table(f"decoding with beam {beam}", times, chosen, len(work.sources), "sentences/s")
    print(agreement(work, beam))
    verdicts = {
        "3x transformers": ratios["transformers"] >= 3.0,
        "and with lines sorted before": ratios["sorted before"] >= 3.0,
        "0.8x ctranslate2": ratios["ctranslate2"] >= 0.8,
    }
    shown = ", ".join(f"{name} ({'met' if is_met else 'missed'})" for name, is_met in verdicts.items())
    print(f"wanted: {shown}", flush=True)
    return all(verdicts.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs_file", nargs="?", type=Path, default=PAIRS)
    parser.add_argument("--model", type=Path, help="a trained translator")
    parser.add_argument("--pairs", type=int, default=4000, help="pairs to train on")
    parser.add_argument("--sentences", type=int, default=500, help="sentences to translate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=Shape.num_layers)
    parser.add_argument("--width", type=int, default=Shape.width)
    parser.add_argument("--vocabulary", type=int, default=Shape.vocab_size)
    parser.add_argument("--only", choices=("training", "decoding"))
    arguments = parser.parse_args()
    names = ("glassbert", "torch", "transformers", "ctranslate2")
    print(f"{', '.join(f'{name} {version(name)}' for name in names)}; {THREADS} threads")
    shape = Shape(num_layers=arguments.layers, width=arguments.width, vocab_size=arguments.vocabulary)
    folder = Path(tempfile.mkdtemp())
    (folder / "model").mkdir() if arguments.model is None else None
    try:
        work = prepare(arguments, shape, folder)
        met = [] if arguments.only == "decoding" else [compare_training(work, arguments.rounds)]
        if arguments.only != "training":
            met += [compare_decoding(work, beam, arguments.rounds) for beam in (1, BEAM)]
    finally:
        shutil.rmtree(folder)
    print("\nall targets met" if all(met) else "\na target was missed")


if __name__ == "__main__":
    main()

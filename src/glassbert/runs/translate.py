"""From parallel text to a translator."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, Protocol, TypeVar

import torch

from glassbert.config import LstmConfig
from glassbert.data.pair_batches import EncodedPairs, TranslateObjective, encode_pairs
from glassbert.data.sentence_pairs import ParallelFiles
from glassbert.errors import ModelError, UserError
from glassbert.interop.seq2seq import Network, build_network
from glassbert.interop.stored import read_stored
from glassbert.interop.translator import read_translator, write_translator
from glassbert.metrics.translation import translation
from glassbert.model.init import new_lstm, new_transformer
from glassbert.runs.folder import Tables, check_data, lock_run, open_run
from glassbert.runs.translate_recipe import TranslateRecipe
from glassbert.storage import new_folder, read_json, sha256_of
from glassbert.tasks.translation import HeldOut, Translate, held_out_batches
from glassbert.text.bpe.learn import learn_subwords
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.training.checkpoint import checkpoints, forget_stops, step_of
from glassbert.training.log import SPEED
from glassbert.training.loop import train as run_training
from glassbert.training.processes import is_main_process, say_nothing
from glassbert.training.status import Status

Row = TypeVar("Row")
Log = Callable[[str], None]
OnStatus = Callable[[Status], None]


class Decode(Protocol):
    """Searches for targets; it is given, since training knows nothing of inference."""

    def __call__(
        self, network: Network, sources: Sequence[Sequence[int]], *, beam: int
    ) -> Sequence[Sequence[int]]:
        """Return the best target of each source, in order; a beam of 1 is greedy."""


VOCABULARY = "vocabulary"
"""Folder of the run that keeps what was learned before the first step."""
_NUM_SAMPLES = 3


@dataclass(frozen=True)
class TranslateResult:
    """How a translation run, or this session of it, ended."""

    out: Path
    step: int
    is_finished: bool
    """False when a signal asked to stop; the same command goes on."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Of the model, on the dev pairs."""
    best_step: int | None = None
    best_by: str = "bleu"

    @property
    def model(self) -> Path:
        """The folder of the model to use."""
        return self.out / ("best" if (self.out / "best").is_dir() else "last")


def train_translator(
    recipe: TranslateRecipe, out: Path, decode: Decode, log: Log, on_status: OnStatus | None = None
) -> TranslateResult:
    """Do one run in the folder ``out``; a folder that holds this very run is gone on with.

    Args:
        decode: Translates the dev sources; `inference.translator.best_targets`.
        log: Receives remarks for the user.
        on_status: Draws how the run stands after each step; without it, lines are told.
    """
    is_main = is_main_process()
    if not is_main:
        log = say_nothing  # torchrun starts this once per process
    if recipe.data.dev is not None:
        # Says now, not after the first hours, that sacrebleu is missing or does not know its rules.
        translation([], [], tokenizer=recipe.task.bleu_tokenizer)
    files = recipe.data.files(recipe.data.train)
    about: dict[str, Any] = {"recipe": recipe.tables(), "data": _about(recipe)}
    tokenizer = _vocabulary(recipe, files, out, log)
    task = make_task(recipe, files, tokenizer, decode, log)
    open_run(out, recipe.tables(), partial(_completed, out, recipe))
    check_data(out, about["data"])
    metrics: Mapping[str, float] = {}
    with lock_run(out):
        if is_main:
            with new_folder(out / VOCABULARY, may_replace=True) as folder:
                tokenizer.save(folder)
            if recipe.task.average_last > 1:
                forget_stops(out, recipe.train.save_every)
        result = run_training(task, recipe.train, out, about=about, log=log, on_status=on_status)
        if not result.is_finished:
            return TranslateResult(out, result.step, False)
        if is_main:
            if recipe.task.average_last > 1:
                _average(recipe, task, out, about, result.best, log)
            metrics = _settle(recipe, out, decode, log) if task.held_out else {}
    return TranslateResult(out, result.step, True, metrics, result.best_step)


def make_task(
    recipe: TranslateRecipe, files: ParallelFiles, tokenizer: SubwordTokenizer, decode: Decode, log: Log
) -> Translate:
    """Encode the pairs and make the model that training starts from."""
    settings = recipe.train
    network = _start_network(recipe, len(tokenizer))
    limit = min(recipe.data.max_length, network.config.max_length)
    pairs = encode_pairs(files.pairs(), tokenizer, max_length=limit)
    _describe("train", files, pairs, limit, log)
    held_out = None
    if recipe.data.dev is not None:
        dev = recipe.data.files(recipe.data.dev)
        rows = _spread(list(dev.pairs()), recipe.task.dev_sentences)
        dev_pairs = encode_pairs(rows, tokenizer, max_length=network.config.max_length)
        _describe("dev", dev, dev_pairs, network.config.max_length, log)
        held_out = HeldOut(
            sources=[row.source for row in rows],
            targets=[row.target for row in rows],
            batches=held_out_batches(dev_pairs, max(settings.micro_tokens, 2 * network.config.max_length)),
            write=partial(decode, beam=recipe.task.dev_beam),
            bleu_tokenizer=recipe.task.bleu_tokenizer,
        )
    else:
        log("no --dev file: nothing will be known of the model's quality")
    return Translate(
        network,
        tokenizer,
        TranslateObjective(pairs, batch_tokens=settings.batch_tokens, seed=settings.seed),
        label_smoothing=recipe.task.label_smoothing,
        held_out=held_out,
    )


@torch.no_grad()
def average_networks(folders: Sequence[Path]) -> Network:
    """Return a network whose weights are the means of those in ``folders``."""
    networks = [build_network(read_stored(folder)) for folder in folders]
    if any(network.config != networks[0].config for network in networks):
        raise ModelError(f"{folders[0].parent}: models of different shapes cannot be averaged")
    for parameters in zip(*(network.parameters() for network in networks), strict=True):
        parameters[0].copy_(torch.stack([parameter.double() for parameter in parameters]).mean(dim=0))
    return networks[0]


def _average(
    recipe: TranslateRecipe,
    task: Translate,
    out: Path,
    about: Mapping[str, Any],
    best: float | None,
    log: Log,
) -> None:
    """Write the average of the last checkpoints, if there are several; if best on dev, also as that."""
    *before, last = checkpoints(out)
    # What a stop has left is no part of it: a run ends with the same bits whether it was stopped or not.
    # Nor does it push out a part: `keep` has room for one more, and each session forgets earlier stops.
    regular = [folder for folder in before if step_of(folder) % recipe.train.save_every == 0]
    folders = [*regular, last][-recipe.task.average_last :]
    if len(folders) < 2:
        return  # the model of one checkpoint has been measured already
    names = [folder.name for folder in folders]
    done = out / "averaged"
    if done.is_dir() and read_json(done / "run.json").get("average_of") == names:
        return
    network = average_networks(folders)
    averaged = Translate(network, task.tokenizer, task.objective, held_out=task.held_out)
    averaged.module.eval()
    with torch.no_grad():
        metrics = averaged.evaluate()
    log(f"average of {', '.join(names)}: {averaged.verdict(metrics)}")
    is_best = best is None or metrics.get("bleu", 0.0) > best
    # This folder last: it tells that all is done.
    for path in ([out / "best"] if is_best else []) + [done]:
        with new_folder(path, may_replace=True) as folder:
            write_translator(network, task.tokenizer, folder, run={**about, "average_of": names})


def _settle(recipe: TranslateRecipe, out: Path, decode: Decode, log: Log) -> Mapping[str, float]:
    """Measure the best model on all dev pairs as it will be used, and write that down; once."""
    folder = out / "best"
    run = read_json(folder / "run.json")
    if "metrics" in run:
        return run["metrics"]
    assert recipe.data.dev is not None
    rows = list(recipe.data.files(recipe.data.dev).pairs())
    network, tokenizer = read_translator(folder)
    limit = network.config.max_length - 1
    sources = [[*ids[:limit], tokenizer.end_id] for ids in tokenizer.ids_of_batch([r.source for r in rows])]
    guess = [tokenizer.decode(ids) for ids in decode(network, sources, beam=recipe.task.final_beam)]
    report = translation(
        [row.target for row in rows], guess, [r.source for r in rows], tokenizer=recipe.task.bleu_tokenizer
    )
    samples = [
        {"source": row.source, "target": row.target, "translation": text}
        for row, text in _spread(list(zip(rows, guess, strict=True)), _NUM_SAMPLES)
    ]
    about = {key: value for key, value in run.items() if key not in ("glassbert", "torch")}
    about |= {"metrics": report.metrics(), "beam": recipe.task.final_beam, "dev": report.to_json()}
    targets = [[*ids, tokenizer.end_id] for ids in tokenizer.ids_of_batch([r.target for r in rows])]
    effort = _effort(out, network, sources, targets)
    with new_folder(folder, may_replace=True) as new:
        write_translator(network, tokenizer, new, run={**about, "training": effort, "samples": samples})
    log(
        f"dev with beam {recipe.task.final_beam}: BLEU {report.bleu:.2f} ({report.bleu_signature}), "
        f"chrF {report.chrf:.2f}"
    )
    log(f"{effort['tokens_per_s']:,.0f} tokens/s, {effort['dependent_steps']} dependent steps a pair")
    return report.metrics()


def _effort(
    out: Path, network: Network, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return what networks of different kinds are compared by, besides their scores."""
    speeds = [json.loads(line)["tokens_per_s"] for line in (out / SPEED).read_text("utf-8").splitlines()]
    source_length, target_length = (round(fmean(map(len, side))) for side in (sources, targets))
    return {
        "tokens_per_s": median(speeds),
        "source_tokens": source_length,
        "target_tokens": target_length,
        "dependent_steps": network.dependent_steps(source_length, target_length),
    }


def _vocabulary(recipe: TranslateRecipe, files: ParallelFiles, out: Path, log: Log) -> SubwordTokenizer:
    """Return the vocabulary of the run: of the model to go on with, learned before, or learned now."""
    if recipe.start_folder is not None:
        return SubwordTokenizer.load(recipe.start_folder)
    if (out / VOCABULARY).is_dir():
        return SubwordTokenizer.load(out / VOCABULARY)
    learned = learn_subwords((text for pair in files.pairs() for text in pair[:2]), recipe.vocabulary)
    report = learned.report
    log(
        f"vocabulary: {len(learned.tokenizer):,} pieces of {report.num_words:,} words; "
        f"{report.alphabet_size:,} characters, others go by bytes {report.num_characters_by_bytes:,} times; "
        f"the rarest piece was made of a pair that occurs {report.last_count:,} times"
    )
    return learned.tokenizer


def _start_network(recipe: TranslateRecipe, vocab_size: int) -> Network:
    if recipe.start_folder is not None:
        changes = [key for key in recipe.model if key != "folder"]
        if changes:
            raise UserError(f"{recipe.start_folder} brings its own shape; remove model.{changes[0]}")
        return read_translator(recipe.start_folder)[0]
    config = recipe.config(vocab_size)
    if isinstance(config, LstmConfig):
        return new_lstm(config, seed=recipe.train.seed)
    return new_transformer(config, seed=recipe.train.seed)


def _describe(what: str, files: ParallelFiles, pairs: EncodedPairs, limit: int, log: Log) -> None:
    """Say how much there is, how long it is, and what was left out."""
    sources, targets = pairs.source_lengths, pairs.target_lengths
    log(
        f"{what}: {len(pairs):,} pairs, {sources.mean():.1f} and {targets.mean():.1f} tokens on average, "
        f"{max(sources.max(), targets.max())} at most"
    )
    if pairs.num_too_long:
        fate = "left out" if what == "train" else "not in the loss; to be translated, long sources are cut"
        log(f"{what}: {pairs.num_too_long:,} pairs with a side of more than {limit} tokens are {fate}")
    for row in files.bad[:3]:
        log(f"{what}: left out {row.where}: {row.reason}")
    if len(files.bad) > 3:
        log(f"{what}: {len(files.bad) - 3:,} more rows are left out")


def _spread(rows: list[Row], count: int | None) -> list[Row]:
    """Return so many rows from all over a file: it may be sorted by length."""
    if count is None or count >= len(rows):
        return rows
    return [rows[index * len(rows) // count] for index in range(count)]


def _about(recipe: TranslateRecipe) -> dict[str, Any]:
    """Return by what the text of a run is known again."""
    named = {"train": recipe.data.train, "dev": recipe.data.dev}
    paths = {what: recipe.data.files(name).paths for what, name in named.items() if name is not None}
    return {
        what: {"files": [path.name for path in of_it], "sha256": [sha256_of(path) for path in of_it]}
        for what, of_it in paths.items()
    }


def _completed(out: Path, recipe: TranslateRecipe, before: Tables) -> Tables:
    """Return the tables that the run was begun with, and what they do not say."""
    if before["model"]["folder"] != recipe.model["folder"]:
        return before  # another run; what it began with may be gone
    begun = TranslateRecipe.of(before)
    was, now = begun.train.save_every, recipe.train.save_every
    # Free to change elsewhere; here it decides which weights are averaged.
    if recipe.task.average_last > 1 and was != now:
        raise UserError(
            f"{out} holds a run with another train.save_every ({was}, now {now}), which decides what "
            "task.average_last averages; name another folder with --out"
        )
    return begun.tables()

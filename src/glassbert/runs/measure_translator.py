"""The end of a translation run: measure the model as it will be used, and write that into its folder."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from glassbert.data.sentence_pairs import SentencePair
from glassbert.evaluation.result import Evaluation
from glassbert.evaluation.rows import run_settings
from glassbert.evaluation.translation import measured_translations
from glassbert.inference.translator import best_targets
from glassbert.interop.folder import TranslatorFolder, write_model
from glassbert.interop.folder import TranslatorNetwork as Network
from glassbert.metrics.translation import TranslationReport
from glassbert.runs.run import Finish, Session
from glassbert.runs.translate_tables import TranslateSettings, spread
from glassbert.storage import new_folder, read_json, read_log
from glassbert.text.bpe.tokenizer import SubwordTokenizer
from glassbert.training.log import SPEED

_NUM_SAMPLES = 3


def measure_best(
    session: Session, rows: Sequence[SentencePair], settings: TranslateSettings, *, data: str
) -> Finish:
    """Measure the best model on all dev pairs and record the metrics in its run.json; only once.

    Args:
        data: What the report calls the pairs.
    """
    folder = session.out / "best"
    run = read_json(folder / "run.json")
    if "metrics" in run:
        return Finish(run["metrics"])
    found = TranslatorFolder.open(folder)
    network, tokenizer = found.build()[0], found.tokenizer()
    sources = _sources(rows, network, tokenizer)
    guess = _translations(network, tokenizer, sources, settings)
    evaluation = _evaluated(rows, guess, run, settings, data)
    report = evaluation.report
    assert isinstance(report, TranslationReport)
    samples = [
        {"source": row.source, "target": row.target, "translation": text}
        for row, text in spread(list(zip(rows, guess, strict=True)), _NUM_SAMPLES)
    ]
    about = {key: value for key, value in run.items() if key not in ("glassbert", "torch")}
    about |= {"metrics": report.metrics(), "beam": settings.final_beam, "dev": report.to_json()}
    targets = [[*ids, tokenizer.end_id] for ids in tokenizer.ids_of_batch([row.target for row in rows])]
    effort = _effort(session.out, network, sources, targets)
    with new_folder(folder, overwrite=True) as new:
        write_model(network, tokenizer, new, run={**about, "training": effort, "samples": samples})
    session.log(
        f"dev with beam {settings.final_beam}: BLEU {report.bleu:.2f} ({report.bleu_signature}), "
        f"chrF {report.chrf:.2f}"
    )
    speed = f"{effort['tokens_per_s']:,.0f} tokens/s, " if "tokens_per_s" in effort else ""
    session.log(f"{speed}{effort['dependent_steps']} dependent steps a pair")
    return Finish(report.metrics(), evaluation)


def evaluate_model(
    folder: Path, rows: Sequence[SentencePair], settings: TranslateSettings, *, data: str
) -> Evaluation:
    """Measure the model of a folder as the end of its run does."""
    found = TranslatorFolder.open(folder)
    network, tokenizer = found.build()[0], found.tokenizer()
    guess = _translations(network, tokenizer, _sources(rows, network, tokenizer), settings)
    return _evaluated(rows, guess, found.run, settings, data)


def _sources(rows: Sequence[SentencePair], network: Network, tokenizer: SubwordTokenizer) -> list[list[int]]:
    """Return the ids of the sources, cut to what the model takes, each with its end."""
    limit = network.config.max_length - 1
    texts = [row.source for row in rows]
    return [[*ids[:limit], tokenizer.end_id] for ids in tokenizer.ids_of_batch(texts)]


def _translations(
    network: Network,
    tokenizer: SubwordTokenizer,
    sources: Sequence[Sequence[int]],
    settings: TranslateSettings,
) -> list[str]:
    return [tokenizer.decode(ids) for ids in best_targets(network, sources, beam=settings.final_beam)]


def _evaluated(
    rows: Sequence[SentencePair],
    guess: Sequence[str],
    run: Mapping[str, Any],
    settings: TranslateSettings,
    data: str,
) -> Evaluation:
    found = measured_translations(rows, guess, data=data, tokenizer=settings.bleu_tokenizer)
    return replace(found, settings={**run_settings(run), "beam size": str(settings.final_beam)})


def _effort(
    out: Path, network: Network, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return the figures that compare networks of different kinds, beside their scores."""
    logged = (row.get("tokens_per_s") for _, row in read_log(out / SPEED))
    speeds = [speed for speed in logged if isinstance(speed, int | float)]  # none if somebody removed the log
    source_length, target_length = (round(fmean(map(len, side))) for side in (sources, targets))
    return {
        **({"tokens_per_s": median(speeds)} if speeds else {}),
        "source_tokens": source_length,
        "target_tokens": target_length,
        "dependent_steps": network.dependent_steps(source_length, target_length),
    }

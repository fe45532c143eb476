"""The end of a translation run: measure the model as it will be used, and write that into its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from glassbert.data.sentence_pairs import SentencePair
from glassbert.inference.translator import best_targets
from glassbert.interop.folder import TranslatorFolder, write_model
from glassbert.interop.folder import TranslatorNetwork as Network
from glassbert.metrics.translation import translation
from glassbert.runs.run import Session
from glassbert.runs.translate_tables import TranslateSettings, spread
from glassbert.storage import new_folder, read_json, read_log
from glassbert.training.log import SPEED

_NUM_SAMPLES = 3


def measure_best(
    session: Session, rows: Sequence[SentencePair], settings: TranslateSettings
) -> Mapping[str, float]:
    """Measure the best model on all dev pairs and record the metrics in its run.json; only once."""
    folder = session.out / "best"
    run = read_json(folder / "run.json")
    if "metrics" in run:
        return run["metrics"]
    found = TranslatorFolder.open(folder)
    network, tokenizer = found.build()[0], found.tokenizer()
    limit = network.config.max_length - 1
    texts = [row.source for row in rows]
    sources = [[*ids[:limit], tokenizer.end_id] for ids in tokenizer.ids_of_batch(texts)]
    guess = [tokenizer.decode(ids) for ids in best_targets(network, sources, beam=settings.final_beam)]
    report = translation([row.target for row in rows], guess, texts, tokenizer=settings.bleu_tokenizer)
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
    session.log(f"{effort['tokens_per_s']:,.0f} tokens/s, {effort['dependent_steps']} dependent steps a pair")
    return report.metrics()


def _effort(
    out: Path, network: Network, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Return what networks of different kinds are compared by beside their scores."""
    speeds = [row["tokens_per_s"] for _, row in read_log(out / SPEED) if "tokens_per_s" in row]
    source_length, target_length = (round(fmean(map(len, side))) for side in (sources, targets))
    return {
        "tokens_per_s": median(speeds),
        "source_tokens": source_length,
        "target_tokens": target_length,
        "dependent_steps": network.dependent_steps(source_length, target_length),
    }

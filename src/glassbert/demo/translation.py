"""The last part of the demo: a small Transformer learns to translate and shows where it looks."""

from pathlib import Path
from typing import TYPE_CHECKING

import glassbert as gb
from glassbert.demo.sentences import sentences
from glassbert.demo.story import SEED, Story, finished

if TYPE_CHECKING:
    from glassbert.inference.translator import Alignment

NUM_PAIRS = 3000
NUM_HELD_OUT = 200
VOCAB_SIZE = 600
STEPS = 180
NUM_SHOWN = 3
BEAM = 4
# From no attention to all of it.
SHADES = " \u2591\u2592\u2593\u2588"


def show_translation(story: Story, folder: Path) -> None:
    """Train a translator, translate with it and draw where it looked."""
    pairs = sentences(NUM_HELD_OUT, is_held_out=True, seed=SEED)
    with story.step(
        "Train the Transformer that BERT came from: English to Spanish",
        "glassbert train translate --model transformer-tiny --train pairs.tsv",
    ):
        model = _train(story, folder)
    translator = gb.load(model, gb.Translator)
    with story.step(
        "Translate sentences it has never read: no thing had that adjective before",
        f"glassbert translate translate/last --beam {BEAM}",
    ):
        _translate(story, translator, pairs)
    with story.step(
        "See where it looked as it wrote each piece",
        "glassbert translate translate/last --json --alignment",
    ):
        _align(story, translator, pairs[0][0])


def _train(story: Story, folder: Path) -> Path:
    """Train and return the folder of the model."""
    pairs = sentences(NUM_PAIRS, is_held_out=False, seed=SEED)
    path = folder / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    story.log(f"{len(pairs):,} pairs, such as {pairs[0][0]}  ->  {pairs[0][1]}")

    def log(line: str) -> None:
        # The next step measures exact matches; a dev file would need sacrebleu, which may not be installed.
        if not line.startswith("no --dev file"):
            story.log(line)

    result = finished(
        gb.train(
            "translate",
            model="transformer-tiny",
            train=path,
            out=folder / "translate",
            log=log,
            hidden_dropout_prob=0.0,
            vocabulary_size=VOCAB_SIZE,
            steps=STEPS,
            batch_tokens=2048,
            schedule="linear",
            log_every=max(1, STEPS // 3),
            seed=SEED,
        )
    )
    story.numbers["translate"] = {"pairs": len(pairs), "steps": result.step}
    return result.model


def _translate(story: Story, translator: "gb.Translator", pairs: list[tuple[str, str]]) -> None:
    """Compare greedy and beam search; sentences made by rule have exactly one translation."""
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    searches = {
        "greedy": translator.usual_settings(method="greedy"),
        f"beam {BEAM}": translator.usual_settings(beam_size=BEAM),
    }
    found = {name: translator.translate(sources, settings) for name, settings in searches.items()}
    for place in range(NUM_SHOWN):
        story.log(f"{'':<8}{sources[place]}")
        for name, translations in found.items():
            one = translations[place]
            verdict = "" if one.text == targets[place] else f"   (expected: {targets[place]})"
            story.log(f"{name:<8}{one.text}  {one.score:.3f}{verdict}")
    right = {
        name: sum(one.text == target for one, target in zip(translations, targets, strict=True))
        for name, translations in found.items()
    }
    shown = ", ".join(f"{name} {count}" for name, count in right.items())
    story.log(f"exactly right, of {len(pairs)} sentences: {shown}")
    story.numbers["translate"] |= {"held_out": len(pairs), "right": right}


def _align(story: Story, translator: "gb.Translator", source: str) -> None:
    translation = translator.translate([source], with_alignment=True)[0]
    assert translation.alignment is not None
    story.log_all(picture(translation.alignment))
    story.log("a row for each piece it wrote, a column for each it read; the darker, the more attention")
    story.numbers["translate"]["alignment"] = vars(translation.alignment)


def picture(alignment: "Alignment") -> list[str]:
    """Draw an alignment: a row for each piece of the target, a column for each of the source."""
    margin = max(map(len, alignment.target))
    lines = [" ".join([" " * margin, *alignment.source])]
    for piece, weights in zip(alignment.target, alignment.weights, strict=True):
        cells = [
            shade(weight) * len(column) for column, weight in zip(alignment.source, weights, strict=True)
        ]
        lines.append(" ".join([piece.ljust(margin), *cells]).rstrip())
    return lines


def shade(weight: float) -> str:
    """Return the character for a share of attention: the larger, the darker."""
    return SHADES[min(int(weight * len(SHADES)), len(SHADES) - 1)]

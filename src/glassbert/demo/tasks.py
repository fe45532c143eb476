"""The second part of the demo: the model of the package, as it is and fine-tuned for a task."""

from pathlib import Path

import glassbert as gb
from glassbert.demo.masked import CHINESE, ENGLISH, known_sentences
from glassbert.demo.story import SEED, Story, finished
from glassbert.demo.topics import SPLITS, Split, notes
from glassbert.model_names import DEMO
from glassbert.parsing import json_text

NUM_MASKED = 2
"""Sentences of each language to fill."""
NUM_NOTES: dict[Split, int] = {"train": 640, "dev": 120, "test": 200}
EPOCHS = 4
TEXTS = (
    "The singer and the orchestra rehearsed until midnight.",
    "Two goals in the last minute decided the match.",
    "我们坐火车去机场。",
    "晚饭有汤、米饭和水果。",
)


def show_tasks(story: Story, folder: Path, *, is_kept: bool) -> None:
    """Fill masks, fine-tune, evaluate and predict."""
    with story.step("Fill masks with the model that comes with the package", f"glassbert fill {DEMO} ..."):
        _fill(story)
    with story.step(
        "Teach it a task: what is a sentence about?",
        f"glassbert train classify --model {DEMO} --train notes/train.jsonl --dev notes/dev.jsonl",
    ):
        _fine_tune(story, folder)
    model = gb.load(folder / "classify")
    with story.step(
        "Measure it on sentences phrased in new ways, with some new words",
        "glassbert evaluate classify notes/test.jsonl --report report.html",
    ):
        _evaluate(story, folder, model, is_kept=is_kept)
    with story.step("Ask it: a text alone and in a batch gets the same answer", "glassbert predict classify"):
        _predict(story, model)


def _fill(story: Story) -> None:
    model = gb.load(DEMO)
    num_pieces = len(model.tokenizer.vocabulary)
    filled = []
    chosen = (one for texts in (ENGLISH, CHINESE) for one in known_sentences(model, texts, NUM_MASKED))
    for one in chosen:
        best = [vars(guess) for guess in model.fill(one.text, top=3)[0]]
        shown = ", ".join(f"{guess['token']} {guess['score']:.3f}" for guess in best)
        place = "not a piece" if one.rank is None else f"guess {one.rank:,} of {num_pieces:,}"
        story.log(f"{one.text}  {shown}; the original, {one.piece}, is {place}")
        filled.append({"text": one.text, "candidates": best, "piece": one.piece, "rank": one.rank})
    story.numbers["fill"] = filled


def _fine_tune(story: Story, folder: Path) -> None:
    (folder / "notes").mkdir()
    for split in SPLITS:
        rows = notes(split, NUM_NOTES[split], seed=SEED)
        story.log(f"{split:<5} {len(rows):>4} rows, such as {rows[0].text} ({rows[0].label})")
        lines = (json_text(row.to_json()) + "\n" for row in rows)
        (folder / "notes" / f"{split}.jsonl").write_text("".join(lines), encoding="utf-8")
    result = finished(
        gb.train(
            "classify",
            model=DEMO,
            train=folder / "notes" / "train.jsonl",
            dev=folder / "notes" / "dev.jsonl",
            out=folder / "classify",
            log=story.log,
            epochs=EPOCHS,
            log_every=20,
            seed=SEED,
        )
    )
    story.numbers["fine_tune"] = {
        "rows": NUM_NOTES,
        "steps": result.step,
        "best_step": result.best_step,
        "metrics": dict(result.metrics),
    }


def _evaluate(story: Story, folder: Path, model: "gb.Model", *, is_kept: bool) -> None:
    from glassbert.reports.terminal import render

    test, page = folder / "notes" / "test.jsonl", folder / "report.html"
    evaluation = gb.evaluate(model, test, name="classify", log=story.log)
    story.log_all(render(evaluation).splitlines())
    gb.write_report(page, evaluation, run=folder / "classify")
    story.log(
        f"The same with plots: {page}" if is_kept else "The same with plots: report.html with --out DIR"
    )
    story.numbers["evaluate"] = evaluation.to_json()


def _predict(story: Story, model: "gb.Model") -> None:
    together = model.predict(TEXTS)
    alone = [model.predict([text])[0] for text in TEXTS]
    for text, one in zip(TEXTS, together, strict=True):
        story.log(f"{one.label:<8} {one.score:.3f}  {text}")
    difference = max(
        abs(one.scores[label] - other.scores[label])
        for one, other in zip(together, alone, strict=True)
        for label in one.scores
    )
    story.log(f"largest difference between alone and in a batch: {difference:.1e}")
    story.numbers["predict"] = {
        "rows": [{"text": text, **one.to_json()} for text, one in zip(TEXTS, together, strict=True)],
        "largest_difference": difference,
    }

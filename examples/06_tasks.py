"""Fine-tune the model that comes with the package, measure it, ask it, and hand it on.

Purpose:   chapter 6 of the handbook as one script.
Data:      none; reviews of hotels, in English and Chinese, in a temporary folder.
Prints:    what training reports, the confusion matrix, predictions, what a batch changes.
Run time:  some ten seconds.
"""

import json
import tempfile
from itertools import product
from pathlib import Path

import glassbert as gb

THINGS = {"room": "房间", "bed": "床铺", "breakfast": "早餐", "view": "景色", "lobby": "大堂", "bar": "酒吧"}
WORDS = {
    "good": {"lovely": "可爱", "great": "很好", "beautiful": "漂亮", "excellent": "优秀"},
    "bad": {"awful": "可怕", "poor": "很差", "dirty": "肮脏", "terrible": "糟糕"},
}


def write_rows(folder: Path) -> None:
    """Write a review for each thing and word in both languages; every fifth is held out."""
    rows = []
    for label, words in WORDS.items():
        for thing, word in product(THINGS, words):
            rows.append({"text": f"The {thing} was {word}.", "label": label})
            rows.append({"text": f"{THINGS[thing]}{words[word]}。", "label": label})
    for name, part in (
        ("dev", rows[::5]),
        ("train", [row for place, row in enumerate(rows) if place % 5]),
    ):
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in part]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    """Run the chapter."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_rows(folder)
        result = gb.train(
            "classify",
            model="demo",
            train=folder / "train.jsonl",
            dev=folder / "dev.jsonl",
            out=folder / "run",
            log=print,
            epochs=8,
            batch_size=16,
        )
        print(f"accuracy {result.metrics['accuracy']:.2f} on the dev rows")

        model = gb.load(folder / "run", gb.Model)
        counts = model.evaluate(folder / "dev.jsonl").to_json()["report"]["confusion"]
        print(f"{counts['labels']}, a row for each gold label: {counts['counts']}")

        texts = ["The lobby was lovely.", "The view was terrible.", "早餐很好。", "大堂肮脏。"]
        together = model.predict(texts, gb.ClassPrediction)
        for text, one in zip(texts, together, strict=True):
            print(f"{one.label:<4}  {text}")
        alone = [model.predict([text], gb.ClassPrediction)[0] for text in texts]
        is_same = all(abs(a.score - b.score) < 1e-5 for a, b in zip(alone, together, strict=True))
        print(f"alone and in a batch, the same answer: {is_same}")
        print("the folder:", *sorted(path.name for path in (folder / "run" / "best").iterdir()))


if __name__ == "__main__":
    main()

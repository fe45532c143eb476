"""Make a model small: a student, a trimmed vocabulary, words, and a new character.

Purpose:   chapter 12 as one script.
Data:      a few sentences in this file; the demo model that comes with the package.
Prints:    what a student and a trimmed vocabulary save, the words of a text, a character that was unknown.
Run time:  some seconds.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import glassbert as gb

NOUNS = ("river", "bridge", "train", "market", "boat", "storm")
VERBS = ("is near the sea", "was old", "came late", "has a name")


def main() -> None:
    """Make everything in a folder that is deleted afterwards."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "text.txt"
        text.write_text("".join(f"The {noun} {verb}.\n" for noun in NOUNS for verb in VERBS))
        run = gb.distil("demo", text=text, out=folder / "student", blocks=2, held_out=6, epochs=1, log=quiet)
        student, teacher = gb.load(run.model, gb.Model), gb.load("demo", gb.Model)
        print(f"student: {student.num_parameters / teacher.num_parameters:.0%} of the parameters")
        trimmed = gb.trim_vocabulary(run.model, text, folder / "trimmed", log=quiet)
        print(f"trimmed: {trimmed.rows_before:,} rows, now {trimmed.rows_after}")
        words = teacher.words("北京是首都。", segmenter=["北京", "首都"])
        print("words:", " ".join(f"{word.text}[{word.start}:{word.end}]" for word in words))
        text.write_text("".join(f"The 鲵 {verb} and {noun}.\n" for noun in NOUNS for verb in VERBS), "utf-8")
        grown = gb.extend_from_text("demo", text, out=folder / "grown", steps=2, min_pieces=9, log=quiet)
        print("new:", " ".join(gb.load(grown.model, gb.Model).tokenize(["鲵"])[0].pieces))


def quiet(line: str) -> None:
    """Print nothing of a run."""


if __name__ == "__main__":
    main()

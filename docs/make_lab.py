"""Save results of the lab with the package, and write what they say of each claim into chapter 9.

`python docs/make_lab.py NAME...` runs the small form of some experiments, `--large` the large one, which
takes minutes each; without names, only the chapters are written.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import glassbert as gb
from glassbert.glassbox.accounting_notes import Language
from glassbert.glassbox.lab import experiment
from glassbert.glassbox.lab.claims import claims_as_text

HANDBOOK = Path(__file__).resolve().parent / "handbook"
CHAPTERS: dict[Language, Path] = {
    "en": HANDBOOK / "09-experiments.md",
    "zh": HANDBOOK / "zh" / "09-experiments.md",
}
_SHOWN = re.compile(r"(\$ glassbert lab --claims[^\n]*\n)(.*?)(^```$)", re.MULTILINE | re.DOTALL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what was asked for; write the chapters after each result, so that none is lost on the way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.names:
        result = gb.lab(name, size="large" if options.large else "small")
        result.save(experiment.SAVED / f"{name}.json", overwrite=True)
        print(repr(result), file=sys.stderr)
        write_chapters()
    write_chapters()


def write_chapters() -> None:
    """Write the verdict on each claim into both chapters."""
    found = gb.saved_claims()
    for language, path in CHAPTERS.items():
        shown = claims_as_text(found, language)
        page = path.read_text(encoding="utf-8")
        path.write_text(
            _SHOWN.sub(lambda match, shown=shown: f"{match[1]}{shown}\n{match[3]}", page), encoding="utf-8"
        )


if __name__ == "__main__":
    main()

"""Hold out the last documents of each file: the split that the demo model was trained and measured with.

    python recipes/split.py en.jsonl.gz zh.jsonl.gz --train train --held held

Each file has a document in each line, plain or packed with gzip. Its first lines go to TRAIN, the last 2% to
HELD, under the file's name without .gz.
"""

import argparse
import gzip
from pathlib import Path


def main() -> None:
    """Split the files that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--train", type=Path, required=True, help="folder for what is learned from")
    parser.add_argument("--held", type=Path, required=True, help="folder for what is held out")
    parser.add_argument("--share", type=float, default=0.02, help="of the documents of each file, held out")
    options = parser.parse_args()
    for path in options.files:
        split(path, options.train, options.held, options.share)


def split(path: Path, train: Path, held: Path, share: float) -> None:
    """Write the first documents of a file to one folder and the last ones to another."""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        lines = file.readlines()
    num_train = len(lines) - round(share * len(lines))
    for folder, part in ((train, lines[:num_train]), (held, lines[num_train:])):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / path.name.removesuffix(".gz")).write_bytes(b"".join(part))
        print(f"{folder / path.name.removesuffix('.gz')}: {len(part):,} documents")


if __name__ == "__main__":
    main()

"""Folders of small text files, and what a job wrote for them."""

from pathlib import Path

from glassbert.bulk.plan import MANIFEST, RECORDS

LETTERS = "abcdefghij"


def texts(number: int, seed: int = 0) -> list[str]:
    """Return texts that are all different."""
    return [
        " ".join(LETTERS[int(digit)] for digit in f"{seed}{place}") + " a" * (place % 7)
        for place in range(number)
    ]


def write_text(path: Path, rows: list[str]) -> Path:
    """Write a line for each row."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def write_many(folder: Path, number: int, rows: int) -> Path:
    """Write files of texts, no two of which are the same."""
    for seed in range(number):
        write_text(folder / f"part-{seed:02}.txt", texts(rows, seed))
    return folder


def outputs(out: Path) -> dict[str, bytes]:
    """Return the content of each file of a folder but for records and manifest: a half-written one shows."""
    found = (path for path in out.rglob("*") if path.is_file() and path.name != MANIFEST)
    names = {path.relative_to(out).as_posix(): path for path in found}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(RECORDS)}

"""The labelled files of ../shared/data that several benchmarks train on, and rows from all over them."""

import gzip
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
MAX_BAD_ROWS = 1000


@dataclass(frozen=True)
class LabelledSet:
    """A data set and what is measured on it."""

    task: str
    path: str
    """With {} for train or dev."""
    metric: str
    is_english: bool = True
    has_header: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    """What is in which column, where that cannot be detected."""

    def file(self, part: str) -> Path:
        """Return the file of a part, train or dev."""
        return DATA / self.path.format(part)

    def reading(self) -> dict[str, Any]:
        """Return the settings to read it with, of a recipe's table `data`."""
        return {"skip_bad": MAX_BAD_ROWS, "columns": self.columns}

    def sample(self, num_rows: int, folder: Path) -> Path:
        """Write rows from all over the training file, whose neighbours are often about the same thing."""
        source = self.file("train")
        heading, *rows = self._rows(source) if self.has_header else ("", *self._rows(source))
        number = min(num_rows, len(rows))
        target = folder / f"{number}-{source.name.removesuffix('.gz')}"
        chosen = (rows[index * len(rows) // number] for index in range(number))
        target.write_text(heading + "".join(chosen), encoding="utf-8")
        return target

    def _rows(self, path: Path) -> Iterator[str]:
        """Yield lines; of a file with a word in each line, sentences."""
        has_words = self.task == "tag" and ".jsonl" not in path.name
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            row = ""
            for line in lines:
                row += line
                if not has_words or not line.strip():
                    yield row
                    row = ""
            if row:
                yield row


def _classify(name: str, metric: str = "accuracy", **options: Any) -> LabelledSet:
    return LabelledSet("classify", f"classify/{name}.{{}}.tsv.gz", metric, **options)


def _pair(name: str, metric: str = "accuracy", **options: Any) -> LabelledSet:
    return LabelledSet("pair", f"pair/{name}.{{}}.tsv.gz", metric, **options)


SETS = {
    "SST-2": _classify("SST-2", has_header=True),
    "CoLA": _classify("CoLA", "mcc", columns={"text": "3", "label": "1"}),
    "ChnSentiCorp": _classify("ChnSentiCorp", is_english=False, has_header=True),
    "MRPC": _pair("MRPC", has_header=True),
    "RTE": _pair("RTE", has_header=True),
    "AFQMC": _pair("AFQMC", is_english=False),
    "STS-B": _pair("STS-B", "spearman", has_header=True),
    "WikiANN": LabelledSet("tag", "tag/wikiann_en.{}.tsv.gz", "f1"),
    "CLUENER": LabelledSet("tag", "tag/cluener.{}.jsonl.gz", "f1", is_english=False),
    "WNUT17": LabelledSet("tag", "tag/wnut17.{}.conll.gz", "f1"),
}
ANSWERS = {
    "cmrc2018": LabelledSet("answer", "answer/cmrc2018.{}.json.gz", "f1", is_english=False),
    "squad1": LabelledSet("answer", "answer/squad1.{}.json.gz", "f1"),
}

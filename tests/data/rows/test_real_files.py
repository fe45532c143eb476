"""The readers on whole data sets, which lie beside the repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from glassbert.data.examples import ReadOptions
from glassbert.data.rows.read import read_examples, stream_examples
from glassbert.tasks.answer.rows import ANSWER
from glassbert.tasks.classify.rows import PAIR
from glassbert.tasks.registry import schema_of
from glassbert.text.files import read_lines

pytestmark = pytest.mark.slow

COLA = ReadOptions(columns={"text": "3", "label": "1"})


def files() -> Iterator[tuple[str, str, str, int, int]]:
    """Yield task, name, format, the number of rows and the number of labels (or spans, or answers)."""
    for name, num_rows in [
        ("SST-2.train", 67_349),
        ("SST-2.dev", 872),
        ("CoLA.train", 8_551),
        ("CoLA.dev", 1_043),
    ]:
        yield "classify", f"classify/{name}.tsv.gz", "tsv", num_rows, num_rows
    for name, num_rows in [("train", 9_600), ("dev", 1_200), ("test", 1_200)]:
        yield "classify", f"classify/ChnSentiCorp.{name}.tsv.gz", "tsv", num_rows, num_rows
    for name, num_train, num_dev in [("MRPC", 3_668, 408), ("RTE", 2_490, 277), ("AFQMC", 34_334, 4_316)]:
        yield "pair", f"pair/{name}.train.tsv.gz", "tsv", num_train, num_train
        yield "pair", f"pair/{name}.dev.tsv.gz", "tsv", num_dev, num_dev
    yield "pair", "pair/STS-B.train.tsv.gz", "tsv", 5_749, 5_749
    yield "pair", "pair/STS-B.dev.tsv.gz", "tsv", 1_500, 1_500
    # The last line of the development set of WNUT is a byte order mark.
    yield "tag", "tag/wnut17.train.conll.gz", "conll", 3_394, 1_975
    yield "tag", "tag/wnut17.dev.conll.gz", "conll", 1_009, 836
    yield "tag", "tag/wnut17.test.conll.gz", "conll", 1_287, 1_079
    yield "tag", "tag/wikiann_en.train.tsv.gz", "conll", 20_000, 27_931
    yield "tag", "tag/wikiann_en.dev.tsv.gz", "conll", 10_000, 14_146
    # Two spans of CLUENER lie within a third.
    yield "tag", "tag/cluener.train.jsonl.gz", "cluener", 10_748, 23_972 - 2
    yield "tag", "tag/cluener.dev.jsonl.gz", "cluener", 1_343, 3_072
    yield "answer", "answer/squad1.train.json.gz", "squad", 8_567, 27_982
    yield "answer", "answer/squad1.dev.json.gz", "squad", 2_003, 6_744
    yield "answer", "answer/squad2.train.json.gz", "squad", 8_965, 15_121
    yield "answer", "answer/squad2.dev.json.gz", "squad", 2_908, 5_181
    # 26 and 7 answers of CMRC are not in their contexts at all.
    yield "answer", "answer/cmrc2018.train.json.gz", "squad", 2_574, 7_722 - 26
    yield "answer", "answer/cmrc2018.dev.json.gz", "squad", 645, 1_935 - 7


def num_labels(example: object) -> int:
    for name in ("spans", "answers", "labels"):
        if (found := getattr(example, name, None)) is not None:
            return len(found) or int(getattr(example, "score", None) is not None)
    return 0


@pytest.mark.parametrize(("task", "name", "format", "rows", "labels"), list(files()), ids=str)
def test_every_row_is_read(
    shared_data: Path, task: str, name: str, format: str, rows: int, labels: int
) -> None:
    table = read_examples(schema_of(task), shared_data / name, COLA if "CoLA" in name else ReadOptions())
    assert (len(table.examples), table.bad, table.format) == (rows, [], format)
    assert sum(map(num_labels, table.examples)) == labels
    for example in table.examples:
        if task == "tag":
            assert all(0 <= span.start < span.end <= len(example.text) for span in example.spans)
        if task == "answer":
            assert all(example.context.startswith(answer.text, answer.start) for answer in example.answers)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        ("classify", "classify/SST-2.dev.tsv.gz"),
        ("pair", "pair/AFQMC.dev.tsv.gz"),
        ("tag", "tag/cluener.dev.jsonl.gz"),
    ],
)
def test_a_stream_gives_the_same_examples(shared_data: Path, task: str, name: str) -> None:
    path = shared_data / name
    assert (
        list(stream_examples(schema_of(task), read_lines(path), str(path)))
        == read_examples(schema_of(task), path).examples
    )


def test_repairs_of_cmrc_are_counted(shared_data: Path) -> None:
    notes = read_examples(ANSWER, shared_data / "answer/cmrc2018.train.json.gz").notes
    assert sorted(notes) == [
        "answers found without the spaces or the full stop around them: 132",
        "answers that are not in their context, left out (the question has others): 26",
        "wrong answer_start, moved to the nearest place of the answer's text: 7",
    ]


def test_the_scores_of_sts_are_scores(shared_data: Path) -> None:
    table = read_examples(PAIR, shared_data / "pair/STS-B.dev.tsv.gz")
    scores = [example.score for example in table.examples if example.score is not None]
    assert table.kind == "regression"
    assert (min(scores), max(scores)) == (0.0, 5.0)

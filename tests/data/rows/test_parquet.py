import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace, TracebackType
from typing import Any

import pytest

from glassbert.data.examples import Span
from glassbert.data.rows.parquet import _class_names
from glassbert.data.rows.read import read_examples
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.rows import CLASSIFY
from glassbert.tasks.tag.rows import TAG

FEATURES = {
    "label": {"names": ["neg", "pos"], "_type": "ClassLabel"},
    "ner_tags": {"feature": {"names": ["O", "B-PER", "I-PER"], "_type": "ClassLabel"}, "_type": "Sequence"},
    "text": {"dtype": "string", "_type": "Value"},
}
METADATA = {b"huggingface": json.dumps({"info": {"features": FEATURES}}).encode()}


class FakeFile:
    """What is used of `pyarrow.parquet.ParquetFile`: the package is large and need not be installed here."""

    rows: list[dict[str, Any]] = []
    metadata: dict[bytes, bytes] | None = METADATA

    def __init__(self, path: Path) -> None:
        if path.read_bytes()[:4] != b"PAR1":
            raise ValueError("Parquet magic bytes not found\nin footer.")
        self.schema_arrow = SimpleNamespace(metadata=self.metadata)

    def __enter__(self) -> "FakeFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def iter_batches(self, batch_size: int) -> Iterator[SimpleNamespace]:
        for row in self.rows:
            yield SimpleNamespace(to_pylist=lambda row=row: [dict(row)])


@pytest.fixture
def parquet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file that the stand-in reads, and the stand-in in the place of the package."""
    package, module = ModuleType("pyarrow"), ModuleType("pyarrow.parquet")
    package.ArrowException = ValueError  # type: ignore[attr-defined]
    module.ParquetFile = FakeFile  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyarrow", package)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", module)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    return path


def test_rows_are_read_and_classes_have_their_names(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeFile, "rows", [{"text": "good", "label": 1}, {"text": "bad", "label": 0}])
    table = read_examples(CLASSIFY, parquet)
    assert [(example.text, example.labels) for example in table.examples] == [
        ("good", ("pos",)),
        ("bad", ("neg",)),
    ]
    assert [example.where.rsplit(":", 1)[1] for example in table.examples] == ["1", "2"]
    assert table.format == "parquet"
    monkeypatch.setattr(FakeFile, "metadata", None)
    assert read_examples(CLASSIFY, parquet).examples[0].labels == ("1",)


def test_a_class_of_minus_one_is_no_label(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeFile, "rows", [{"text": "good", "label": -1}])
    assert read_examples(CLASSIFY, parquet).kind is None


def test_tokens_with_numbered_tags_are_read(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeFile, "rows", [{"tokens": ["Ann", "Lee", "left"], "ner_tags": [1, 2, 0]}])
    table = read_examples(TAG, parquet)
    assert table.examples[0].spans == (Span(0, 7, "PER"),)
    assert table.format == "tokens"


def test_a_file_that_is_not_parquet_is_reported_in_one_line(parquet: Path) -> None:
    parquet.write_bytes(b"text")
    with pytest.raises(
        DataError, match=r"a\.parquet: not parquet \(Parquet magic bytes not found in footer\.\)"
    ):
        read_examples(CLASSIFY, parquet)


def test_without_the_package_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"needs the package pyarrow; install it with `pip install pyarrow`"):
        read_examples(CLASSIFY, path)


def test_a_real_file_is_read_where_the_package_is(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": ["good", "bad"] * 2_000, "label": [1, 0] * 2_000})
    pytest.importorskip("pyarrow.parquet").write_table(table.replace_schema_metadata(METADATA), path)
    read = read_examples(CLASSIFY, path)
    assert [example.labels for example in read.examples] == [("pos",), ("neg",)] * 2_000
    assert read.examples[-1].where.endswith(":4000")
    path.write_bytes(b"text, not parquet")
    with pytest.raises(DataError, match=r"a\.parquet: not parquet"):
        read_examples(CLASSIFY, path)


@pytest.mark.parametrize(
    "features",
    [[], 5, None, "x", {"label": []}, {"label": 5}, {"label": [[]]}, {"label": {"feature": 5}},
     {"label": {"_type": "ClassLabel", "names": 5}}, {"label": {"_type": "ClassLabel", "names": [1, None]}}],
)  # fmt: skip
def test_odd_names_of_classes_are_ignored(features: object) -> None:
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    assert _class_names(metadata) == {}

from pathlib import Path

import numpy as np
import pytest

from glassbert.data.examples import TextExample
from glassbert.errors import DataError, UserError
from glassbert.tasks.classify.labels import check_labels, class_weights, kind_of, label_set


def rows(*labels: str | tuple[str, ...], file: str = "train.tsv") -> list[TextExample]:
    return [
        TextExample("a", None, (one,) if isinstance(one, str) else one, None, f"{file}:{number}")
        for number, one in enumerate(labels, start=1)
    ]


def scored(*scores: float | None) -> list[TextExample]:
    return [TextExample("a", None, (), score, f"train.tsv:{n}") for n, score in enumerate(scores, start=1)]


def test_labels_are_in_a_fixed_order_and_numbers_in_theirs() -> None:
    assert label_set(rows("b", "a", "c", "a")) == ("a", "b", "c")
    assert label_set(rows("10", "9", "-1", "2.5")) == ("-1", "2.5", "9", "10")
    assert label_set(rows("10", "9", "x")) == ("10", "9", "x")


def test_the_kind_follows_from_the_rows() -> None:
    assert kind_of(rows("a", "b")) == "single"
    assert kind_of(rows("a", ("a", "b"))) == "multi"
    assert kind_of(rows("a", ())) == "multi"
    assert kind_of(scored(1.0, 2.0)) == "regression"


def check(train: list[TextExample], dev: list[TextExample]) -> list[str]:
    kind = kind_of(train)
    return check_labels(kind, () if kind == "regression" else label_set(train), train, dev)


def test_a_label_only_in_dev_is_named_with_its_place() -> None:
    with pytest.raises(DataError, match=r"^dev.tsv:2: label 'c' is in no training row; .* have a, b$"):
        check(rows("a", "b", "a"), rows("a", "c", file="dev.tsv"))


def test_one_class_alone_teaches_nothing() -> None:
    with pytest.raises(DataError, match="all 3 training rows have the label 'a'; expected at least two"):
        check(rows("a", "a", "a"), rows("a"))


def test_rows_without_any_label_are_refused() -> None:
    with pytest.raises(DataError, match="no training row has a label"):
        check(rows((), (), ()), [])


def test_a_column_of_ids_is_not_read_as_labels() -> None:
    with pytest.raises(DataError, match="4 different labels in 4 rows, such as 'a'; is the label in another"):
        check(rows("a", "b", "c", "d"), [])


def test_several_labels_in_dev_where_training_has_one_are_refused() -> None:
    with pytest.raises(DataError, match=r"dev.tsv:1: 2 labels; every training row has one.*data.kind=multi"):
        check(rows("a", "b", "a"), rows(("a", "b"), file="dev.tsv"))


def test_labels_that_dev_lacks_are_reported() -> None:
    notes = check(rows("a", "b", "a"), rows("a"))
    assert notes == [
        "2 labels: a (2), b (1)",
        "no held-out row has the label b: how well it is found stays unknown",
    ]


def test_scores_must_be_there_and_differ() -> None:
    with pytest.raises(DataError, match="train.tsv:2: no score, but other rows have one"):
        check(scored(1.0, None), [])
    with pytest.raises(DataError, match="all 2 training rows have the score 3; expected several"):
        check(scored(3.0, 3.0), [])
    with pytest.raises(DataError, match="dev.tsv:1: no score"):
        check(scored(1.0, 3.0), rows("a", file="dev.tsv"))
    assert check(scored(1.0, 3.0), scored(2.0)) == ["scores from 1 to 3, mean 2"]


def test_balanced_weights_make_every_class_count_the_same() -> None:
    train = rows("a", "a", "a", "b")
    weights = class_weights("balanced", "single", ("a", "b"), train)
    np.testing.assert_allclose(weights, [4 / 6, 2.0])
    assert class_weights("none", "single", ("a", "b"), train) is None


def test_balanced_weights_of_many_labels_lift_the_rare_ones_only() -> None:
    weights = class_weights("balanced", "multi", ("a", "b"), rows(("a",), ("a", "b"), ("a",), ()))
    np.testing.assert_allclose(weights, [1.0, 3.0])


@pytest.mark.parametrize("text", ['{"a": 1, "b": 3}', "a\t1\nb\t3\n", "\ufeffa\t1\r\nb\t3\r\n"])
def test_weights_from_a_file_have_a_mean_of_one_over_the_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "w").write_text(text, encoding="utf-8")
    weights = class_weights(str(tmp_path / "w"), "single", ("a", "b"), rows("a", "a", "a", "b"))
    assert weights is not None
    np.testing.assert_allclose(weights, [4 / 6, 12 / 6], rtol=1e-6)


def test_weights_may_be_written_as_the_rows_are(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes("好评\t1\n差评\t3\n".encode("gb18030"))
    weights = class_weights(str(tmp_path / "w"), "single", ("好评", "差评"), rows("好评", "差评"))
    assert weights is not None
    np.testing.assert_allclose(weights, [0.5, 1.5])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}', "no weight for the label b"),
        ("a 1", "expected a label, a tab and a number"),
        ("a\t1\nb\t-3", "weight -3.0 of 'b'"),
        ('{"a": "x", "b": 1}', "expected a label, a tab and a number"),
    ],
)
def test_a_wrong_file_of_weights_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "w").write_text(text)
    with pytest.raises(DataError, match=message):
        class_weights(str(tmp_path / "w"), "single", ("a", "b"), rows("a", "b"))


def test_weights_need_a_file_that_is_there_and_classes() -> None:
    with pytest.raises(UserError, match="expected none, balanced, or a file; there is no such file"):
        class_weights("ballanced", "single", ("a", "b"), rows("a", "b"))
    with pytest.raises(UserError, match="a regression has no classes"):
        class_weights("balanced", "regression", ("score",), scored(1.0, 2.0))

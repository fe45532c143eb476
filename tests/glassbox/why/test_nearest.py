"""The nearest tokens of a vector and the nearest rows of a text, against plain numpy."""

from pathlib import Path

import numpy as np
import pytest

from glassbert.errors import UserError
from glassbert.glassbox.why.nearest import head_vectors, nearest_tokens
from glassbert.inference.predict import as_examples
from helpers.explained import explained


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_nearest_token_of_a_row_is_the_row_itself(tmp_path: Path) -> None:
    model = explained("fill", tmp_path).model
    table = model.network.encoder.embeddings.token.weight.detach().numpy()
    pieces = model.tokenizer.vocabulary.pieces
    row = pieces.index("k")
    found = nearest_tokens(model, 3 * table[row], top=4)
    assert (found[0].token, found[0].score) == ("k", pytest.approx(1.0, abs=1e-6))
    words = [number for number, piece in enumerate(pieces) if not piece.startswith("[")]
    best = max((number for number in words if number != row), key=lambda n: cosine(table[n], table[row]))
    assert found[1].token == pieces[best]
    assert found[1].score == pytest.approx(cosine(table[best], table[row]), abs=1e-6)


def test_a_vector_of_another_width_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"shape \(3,\); expected \(32,\)"):
        nearest_tokens(explained("fill", tmp_path).model, [1.0, 2.0, 3.0])


def test_tokens_have_other_tokens_as_neighbours(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    found = one.model.why(one.item, method="tokens", top=3)
    assert [part.name for part in found.parts] == ["a", "##b", "##c", "d", "今", "天", "e"]
    for part in found.parts:
        assert len(part.candidates) == 3
        assert part.name not in [one.token for one in part.candidates]
        assert part.value == part.candidates[0].score


@pytest.mark.parametrize("kind", ["classify", "pair", "tag"])
def test_a_text_is_nearest_to_itself(kind: str, tmp_path: Path) -> None:
    one = explained(kind, tmp_path / "model")
    rows = {
        "classify": "text\tlabel\nabc d 今天 e\tgood\nx y\tbad\nz\tfair\n",
        "pair": "text_a\ttext_b\tlabel\nabc d\t今天 好 e\tgood\nx y\tz\tbad\n",
        "tag": '{"text": "abc d 今天 e", "label": {}}\n{"text": "x y", "label": {}}\n',
    }[kind]
    path = tmp_path / ("rows.jsonl" if kind == "tag" else "rows.tsv")
    path.write_text(rows, encoding="utf-8")
    if kind == "pair":
        one.model.run = {"task": {"name": "pair"}}
    found = one.model.why(one.item, method="rows", data=path, top=2)
    assert found.parts[0].value == pytest.approx(1.0, abs=1e-5)
    assert found.parts[0].name.startswith("abc d")
    assert str(path) in found.parts[0].note
    assert len(found.parts) == 2
    vectors = head_vectors(
        one.model, as_examples(one.model.task, [one.item, ("x y", "z") if kind == "pair" else "x y"])
    )
    others = {part.name: part.value for part in one.model.why(one.item, method="rows", data=path).parts}
    assert others["x y | z" if kind == "pair" else "x y"] == pytest.approx(cosine(*vectors), abs=1e-5)


def test_a_model_without_a_task_compares_lines(tmp_path: Path) -> None:
    one = explained("fill", tmp_path / "model")
    (tmp_path / "lines.txt").write_text("a b\n\nabc d\n", encoding="utf-8")
    found = one.model.why("abc d", method="rows", data=tmp_path / "lines.txt")
    assert found.parts[0].name == "abc d"
    assert found.parts[0].value == pytest.approx(1.0, abs=1e-5)


def test_rows_need_a_file(tmp_path: Path) -> None:
    one = explained("classify", tmp_path)
    with pytest.raises(UserError, match="name it: data=FILE"):
        one.model.why(one.item, method="rows")

from pathlib import Path

import numpy as np
import pytest

from glassbert.data.teacher_outputs import MANIFEST, VALUES, TeacherOutputs, outputs_key
from glassbert.errors import DataError, ModelError

ROWS = [np.array([1.5, -2.0]), np.array([[0.25, 3.0], [7.0, 8.0]]), np.array([[4.0, 5.0]])]


def test_what_a_teacher_said_is_read_back_input_by_input(tmp_path: Path) -> None:
    TeacherOutputs.write(tmp_path / "t", "key", ROWS)
    found = TeacherOutputs.find(tmp_path / "t", "key")
    assert found is not None
    assert len(found) == 3
    assert found[0].tolist() == [[1.5, -2.0]]
    assert found[1].tolist() == [[0.25, 3.0], [7.0, 8.0]]
    assert found[2].tolist() == [[4.0, 5.0]]


@pytest.mark.parametrize("change", ["key", "byte", "short", "manifest", "nothing"])
def test_other_or_damaged_answers_are_not_taken(change: str, tmp_path: Path) -> None:
    folder = tmp_path / "t"
    TeacherOutputs.write(folder, "key", ROWS)
    values = (folder / VALUES).read_bytes()
    if change == "byte":
        (folder / VALUES).write_bytes(bytes([values[0] ^ 1]) + values[1:])
    if change == "short":
        (folder / VALUES).write_bytes(values[:-2])
    if change == "manifest":
        (folder / MANIFEST).write_text('{"key": 3}')
    found = TeacherOutputs.find(folder, "other" if change == "key" else "key")
    assert (found is None) == (change != "nothing")


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e9])
def test_a_teacher_that_gives_no_numbers_leaves_nothing_behind(bad: float, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="NaN or infinity for input 1"):
        TeacherOutputs.write(tmp_path / "t", "key", [ROWS[0], np.array([bad, 0.0])])
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_cut_while_it_is_read_is_an_error_and_no_crash(tmp_path: Path) -> None:
    found = TeacherOutputs.write(tmp_path / "t", "key", ROWS)
    (tmp_path / "t" / VALUES).write_bytes(b"ab")
    with pytest.raises(DataError, match="became shorter"):
        found[1]


def test_the_key_depends_on_the_weights_and_on_every_id() -> None:
    ids = [np.array([1, 2]), np.array([3])]
    keys = {
        outputs_key(["w"], ids),
        outputs_key(["v"], ids),
        outputs_key(["w"], [np.array([1, 2, 3])]),
        outputs_key(["w"], [np.array([1]), np.array([2, 3])]),
    }
    assert len(keys) == 4
    assert outputs_key(["w"], ids) == outputs_key(("w",), [one.astype(np.int32) for one in ids])

from pathlib import Path
from typing import Any

import pytest

from glassbert.errors import DataError, UserError
from glassbert.runs.folder import RECIPE, check_data, open_run
from glassbert.storage import read_json

TABLES: dict[str, dict[str, Any]] = {"train": {"steps": 5, "keep": 2}}
DATA = {"corpus": {"num_tokens": 10, "content_sha256": "a"}}


def test_a_folder_resumes_only_its_own_recipe(tmp_path: Path) -> None:
    open_run(tmp_path / "run", TABLES)
    open_run(tmp_path / "run", {"train": {"steps": 5, "keep": 3}})
    with pytest.raises(UserError, match=r"holds a run with another train.steps \(5, now 6\)"):
        open_run(tmp_path / "run", {"train": {"steps": 6, "keep": 2}})


def test_a_folder_with_other_things_is_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="is not empty and holds no run"):
        open_run(tmp_path, TABLES)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_claim_that_was_killed_can_be_made_again(tmp_path: Path) -> None:
    (tmp_path / ".recipe.toml.0123abcd.part").write_text("[tra")
    open_run(tmp_path, TABLES)
    assert (tmp_path / RECIPE).is_file()


def test_a_setting_that_did_not_exist_when_the_run_started_does_not_stop_it(tmp_path: Path) -> None:
    open_run(tmp_path, TABLES)
    newer = {"train": {**TABLES["train"], "patience": 0}}
    with pytest.raises(UserError, match="patience"):
        open_run(tmp_path, newer)

    def complete(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        return {"train": {"patience": 0, **tables["train"]}}

    open_run(tmp_path, newer, complete)
    with pytest.raises(UserError, match="patience"):
        open_run(tmp_path, {"train": {**TABLES["train"], "patience": 1}}, complete)


def test_text_that_has_changed_is_refused_and_named(tmp_path: Path) -> None:
    check_data(tmp_path, DATA)
    check_data(tmp_path, DATA)
    with pytest.raises(DataError, match=r"data.corpus is not the text .* \(10 tokens, now 12 tokens\)"):
        check_data(tmp_path, {"corpus": {"num_tokens": 12, "content_sha256": "b"}})
    assert read_json(tmp_path / "data.json") == DATA


def test_a_folder_of_another_kind_of_run_is_named_as_such(tmp_path: Path) -> None:
    open_run(tmp_path, {"task": {"name": "tag"}, "adapt": {"epochs": 0.0}})
    with pytest.raises(UserError, match="holds a run of tag; name another folder"):
        open_run(tmp_path, TABLES, complete=lambda tables: pytest.fail("another recipe's rules"))


def test_a_recipe_that_was_damaged_by_hand_is_one_line(tmp_path: Path) -> None:
    (tmp_path / RECIPE).write_text("[tra")
    with pytest.raises(UserError, match=r"recipe\.toml: not TOML"):
        open_run(tmp_path, TABLES)


def test_two_processes_can_claim_the_folder_at_the_same_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_run(tmp_path, TABLES)
    monkeypatch.setattr(Path, "is_file", lambda path: False)  # asked just before the other wrote it
    open_run(tmp_path, TABLES)

from pathlib import Path

from glassbert.model_names import ASSETS, model_folder


def test_demo_is_the_model_of_the_package_and_a_path_is_a_folder() -> None:
    assert model_folder("demo") == ASSETS / "demo"
    assert model_folder("./some/folder") == Path("some/folder")
    assert model_folder("./demo") == Path("demo")


def test_a_run_folder_is_its_best_model_unless_it_is_a_model_itself(tmp_path: Path) -> None:
    best = tmp_path / "best"
    best.mkdir()
    assert model_folder(tmp_path) == tmp_path, "nothing in it yet"
    (best / "config.json").write_text("{}")
    assert model_folder(tmp_path) == best
    (tmp_path / "config.json").write_text("{}")
    assert model_folder(tmp_path) == tmp_path

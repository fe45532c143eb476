import shutil
from pathlib import Path

import huggingface_hub.constants
import pytest

import glassbert as gb
from glassbert.cli.main import main
from glassbert.errors import ModelError
from glassbert.model_names import ASSETS, hub_names, model_folder


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


@pytest.mark.parametrize("name", ["x" * 300, "../" * 5000, "猫" * 100])
def test_a_name_that_no_folder_can_have_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(ModelError, match="that can be read: File name too long") as refused:
        gb.load(name)
    assert len(str(refused.value)) < 200


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a cache of the hub that holds our demo model under the name someone/small; no network."""
    repository = tmp_path / "models--someone--small"
    snapshot = repository / "snapshots" / ("0" * 40)
    shutil.copytree(ASSETS / "demo", snapshot)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0" * 40)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return snapshot


def test_a_name_on_the_hub_counts_only_where_it_is_asked_for(hub_cache: Path) -> None:
    assert model_folder("someone/small") == Path("someone/small")
    with hub_names():
        assert model_folder("someone/small") == hub_cache
        assert model_folder("demo") == ASSETS / "demo"
    assert model_folder("someone/small") == Path("someone/small"), "allowed once is not allowed for ever"
    assert gb.load("someone/small", online=True).network.config == gb.load("demo").network.config
    with pytest.raises(ModelError, match="with --online, a name on the Hugging Face hub"):
        gb.load("someone/small")


@pytest.mark.parametrize("name", ["someone/other", "not a name"])
def test_a_name_that_the_hub_does_not_give_is_one_line(hub_cache: Path, name: str) -> None:
    with hub_names(), pytest.raises(ModelError) as caught:
        model_folder(name)
    assert str(caught.value).startswith(f"{name}: no such folder, and the hub did not provide it: ")
    assert "\n" not in str(caught.value)


def test_every_verb_takes_online(hub_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tokenize", "someone/small", "a word", "--online"]) == 0
    assert "word" in capsys.readouterr().out
    assert main(["tokenize", "someone/small", "a word"]) == 4
    assert "someone/small: no such folder" in capsys.readouterr().err

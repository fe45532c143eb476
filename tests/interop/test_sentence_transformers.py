import json
from pathlib import Path

import pytest
import torch

from glassbert.errors import ModelError
from glassbert.interop.sentence_transformers import read_sentence_settings, write_sentence_settings
from glassbert.model.layout import Layout
from glassbert.model.pooling import Pooling


def write(folder: Path, pooling: object, *modules: str) -> Path:
    paths = {"Pooling": "1_Pooling", "Transformer": ""}
    listed = [
        {"type": f"sentence_transformers.models.{kind}", "path": paths.get(kind, kind)} for kind in modules
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_a_folder_without_modules_says_nothing(tmp_path: Path) -> None:
    assert read_sentence_settings(tmp_path, is_lowercase=True) is None


@pytest.mark.parametrize(
    ("pooling", "modes"),
    [
        ({"pooling_mode_cls_token": True}, ("cls",)),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ("max", "mean")),
        ({"pooling_mode": "lasttoken"}, ("lasttoken",)),
        ({"pooling_mode": ["mean", "cls"]}, ("mean", "cls")),
    ],
)
def test_old_and_new_spellings_of_pooling_are_read(
    tmp_path: Path, pooling: object, modes: tuple[str, ...]
) -> None:
    settings = read_sentence_settings(write(tmp_path, pooling, "Transformer", "Pooling"), is_lowercase=True)
    assert settings is not None
    assert settings.pooling == Pooling(modes=modes, should_normalise=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pooling", "modules", "message"),
    [
        ({"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"), "module Dense is not supported"),
        ({}, ("Transformer", "Pooling"), "pooling missing"),
        (
            {"pooling_mode": "median"},
            ("Transformer", "Pooling"),
            "pooling_mode.0.='median'; expected one of mean",
        ),
        ({}, ("Transformer",), "no Pooling module"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    tmp_path: Path, pooling: object, modules: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_sentence_settings(write(tmp_path, pooling, *modules), is_lowercase=True)


def test_lower_casing_that_the_tokenizer_does_not_do_is_refused(tmp_path: Path) -> None:
    folder = write(tmp_path, {"pooling_mode": "mean"}, "Transformer", "Pooling")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": true}')
    with pytest.raises(ModelError, match="do_lower_case is true, but the tokenizer keeps capitals"):
        read_sentence_settings(folder, is_lowercase=False)
    settings = read_sentence_settings(folder, is_lowercase=True)
    assert settings is not None
    assert settings.max_length == 64


def test_each_mode_pools_each_sequence_alone() -> None:
    hidden = torch.tensor([[1.0, -2.0], [3.0, 4.0], [5.0, 6.0]])
    layout = Layout((2, 1))
    expected = {
        "mean": [[2.0, 1.0], [5.0, 6.0]],
        "cls": [[1.0, -2.0], [5.0, 6.0]],
        "max": [[3.0, 4.0], [5.0, 6.0]],
        "lasttoken": [[3.0, 4.0], [5.0, 6.0]],
        "weightedmean": [[7 / 3, 2.0], [5.0, 6.0]],
        "mean_sqrt_len_tokens": [[4 / 2**0.5, 2 / 2**0.5], [5.0, 6.0]],
    }
    for mode, values in expected.items():
        pooled = Pooling(modes=(mode,))(hidden, layout)  # type: ignore[arg-type]
        torch.testing.assert_close(pooled, torch.tensor(values), msg=mode)


def with_prompts(folder: Path, content: object, pooling: object = None) -> Path:
    write(folder, pooling or {"pooling_mode": "mean"}, "Transformer", "Pooling")
    (folder / "config_sentence_transformers.json").write_text(json.dumps(content))
    return folder


def test_prompts_are_read_and_written_again(tmp_path: Path) -> None:
    content = {"prompts": {"query": "query: ", "empty": ""}, "default_prompt_name": "query", "other": 1}
    (tmp_path / "source").mkdir()
    settings = read_sentence_settings(with_prompts(tmp_path / "source", content), is_lowercase=True)
    assert settings is not None
    assert [settings.prompt(name) for name in (None, "query", "empty")] == ["query: ", "query: ", ""]
    (tmp_path / "copy").mkdir()
    write_sentence_settings(tmp_path / "copy", settings, hidden_size=4)
    assert read_sentence_settings(tmp_path / "copy", is_lowercase=True) == settings


@pytest.mark.parametrize("content", [{}, {"prompts": None, "default_prompt_name": None}, {"prompts": {}}])
def test_a_folder_without_prompts_puts_nothing_before_a_text(tmp_path: Path, content: object) -> None:
    settings = read_sentence_settings(with_prompts(tmp_path, content), is_lowercase=True)
    assert settings is not None
    assert settings.prompt() == ""
    with pytest.raises(ModelError, match="no prompt 'query'; it has none"):
        settings.prompt("query")


@pytest.mark.parametrize(
    ("content", "pooling", "message"),
    [
        ({"prompts": ["query: "]}, None, "prompts=.*; expected an object of texts"),
        ({"prompts": {"query": None}}, None, "prompts=.*; expected an object of texts"),
        ({"prompts": {"a": "b"}, "default_prompt_name": "c"}, None, "is 'c'; the prompts are 'a'"),
        ({"default_prompt_name": 3}, None, "default_prompt_name=3; expected a string"),
        (
            {"prompts": {"a": "b"}},
            {"pooling_mode": "mean", "include_prompt": False},
            "include_prompt is false, which is not supported",
        ),
    ],
)
def test_prompts_that_cannot_be_honoured_are_refused(
    tmp_path: Path, content: object, pooling: object, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        read_sentence_settings(with_prompts(tmp_path, content, pooling), is_lowercase=True)

from typing import Any

import pytest

from glassbert.errors import ModelError
from glassbert.interop.config_keys import KeyRules

RULES = KeyRules(read=("hidden_size",), harmless=("use_cache",), fixed={"is_decoder": (False, None)})


def test_known_keys_pass_without_a_word() -> None:
    assert RULES.check({"hidden_size": 3, "use_cache": True, "is_decoder": None}, "f/config.json") == ()


@pytest.mark.parametrize("value", [True, "yes", [False], {}])
def test_a_key_that_would_change_the_computation_is_refused(value: Any) -> None:
    with pytest.raises(ModelError, match="f/config.json: is_decoder=.*; only False is supported"):
        RULES.check({"is_decoder": value}, "f/config.json")


def test_unknown_keys_of_others_are_reported_together() -> None:
    notes = RULES.check({"uniem_embedding_strategy": 1, "use_cache": 1, "x": 2}, "f/config.json")
    assert notes == ("unknown keys of config.json ignored: uniem_embedding_strategy, x",)


@pytest.mark.parametrize("is_foreign", [True, False])
@pytest.mark.parametrize(("key", "known"), [("hiden_size", "hidden_size"), ("is_decodr", "is_decoder")])
def test_a_misspelled_key_is_refused_whoever_wrote_it(key: str, known: str, is_foreign: bool) -> None:
    with pytest.raises(ModelError, match=f"unknown key '{key}'; did you mean '{known}'"):
        RULES.check({key: 3}, "f/config.json", is_foreign=is_foreign)


def test_an_unknown_key_in_a_file_of_ours_is_refused() -> None:
    with pytest.raises(ModelError, match="unknown key 'x'; if a newer glassbert wrote it, update this one"):
        RULES.check({"x": 2}, "f/config.json", is_foreign=False)

"""Methods of a loaded model that are built on top of it."""

import inspect
from importlib import import_module

import pytest

from glassbert.inference.loaded import EXTENSIONS
from glassbert.inference.model import Model


@pytest.mark.parametrize("name", EXTENSIONS)
def test_a_method_passes_its_arguments_to_a_function_that_has_them(name: str) -> None:
    method = inspect.signature(getattr(Model, name)).parameters
    function = inspect.signature(getattr(import_module(EXTENSIONS[name]), name)).parameters
    assert set(list(method)[1:]) <= set(list(function)[1:])

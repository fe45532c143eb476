"""What `serve run` gives to the server on Ray Serve, where it is refused: Ray itself is not needed."""

import pytest

import glassbert as gb
from glassbert.serve.on_ray import app


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"replica": "3"}, "did you mean serve run.replicas"),
        ({"replicas": "many"}, "replicas: expected a number, got 'many'"),
    ],
)
def test_an_argument_that_it_cannot_use_is_refused(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(gb.UserError, match=message):
        app(arguments)

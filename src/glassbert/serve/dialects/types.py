"""Types of fields that many requests have.

Their lower limits are for the description of the routes. We check them ourselves: an empty text is another
refusal than a value of the wrong type.
"""

from typing import Annotated, TypeVar

from msgspec import Meta

T = TypeVar("T")

Text = Annotated[str, Meta(extra_json_schema={"minLength": 1})]
Some = Annotated[list[T], Meta(extra_json_schema={"minItems": 1})]
"""At least one."""
Id = Annotated[int, Meta(ge=0)]
TextsOrIds = Text | Some[Text | Id | Some[Id]]
"""A text, a list of texts, a list of ids, or a list of such lists; msgspec cannot say it more exactly."""

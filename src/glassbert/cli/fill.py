"""`fill`: the likeliest words for each [MASK]."""

from typing import Annotated

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.output import print_json, print_remarks, remark
from glassbert.messages import one_line
from glassbert.ranges import COUNT


def fill(
    model: str,
    text: str,
    /,
    *,
    top: Annotated[int, Parameter(validator=COUNT)] = 5,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Show the likeliest words for each [MASK] in a text.

    Args:
        model: Model folder.
        text: Text with one or more [MASK].
        top: How many candidates to show for each mask.
        json: Print a list of {"token", "score"} for each mask, one per line.
    """
    from glassbert.inference.loading import load
    from glassbert.inference.model import Model

    loaded = load(model, Model, **place_of(where))
    print_remarks(loaded)
    results = loaded.fill(text, top=top)
    if results.truncated:
        remark(f"the text was longer than {loaded.max_length} tokens and was cut")
    for number, candidates in enumerate(results, start=1):
        if json:
            print_json([{"token": candidate.token, "score": candidate.score} for candidate in candidates])
            continue
        for candidate in candidates:
            mask = f"{number}\t" if len(results) > 1 else ""
            print(f"{mask}{candidate.score:.4f}\t{one_line(candidate.token)}")

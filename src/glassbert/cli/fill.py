"""`fill`: the likeliest words for each [MASK]."""

from glassbert.cli.output import print_json, remark, tell_assumptions
from glassbert.model_names import model_folder


def fill(model: str, text: str, /, *, top: int = 5, json: bool = False) -> None:
    """Show the likeliest words for each [MASK] in a text.

    Parameters
    ----------
    model:
        Model folder.
    text:
        Text with one or more [MASK].
    top:
        How many candidates to show for each mask.
    json:
        Print a list of {"token", "score"} for each mask, one a line.
    """
    from glassbert.inference.model import load

    loaded = load(model_folder(model))
    tell_assumptions(loaded.tokenizer)
    results = loaded.fill(text, top=top)
    if results.truncated:
        remark(f"the text was longer than {loaded.max_length} tokens and was cut")
    for number, candidates in enumerate(results, start=1):
        if json:
            print_json([{"token": candidate.token, "score": candidate.score} for candidate in candidates])
            continue
        for candidate in candidates:
            mask = f"{number}\t" if len(results) > 1 else ""
            print(f"{mask}{candidate.score:.4f}\t{candidate.token}")

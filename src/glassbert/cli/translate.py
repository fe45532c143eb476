"""`translate`: texts into another language."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.input import input_texts
from glassbert.cli.output import InputSource, print_json, remark
from glassbert.errors import UserError
from glassbert.ranges import BEAM, COUNT, LENGTH, LENGTH_PENALTY, SEED, SHARE_ABOVE_ZERO, TEMPERATURE

if TYPE_CHECKING:
    from glassbert.inference.translator import Translation


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """How to search for a translation."""

    beam: Annotated[int, Parameter(validator=BEAM)] = 4
    """Hypotheses to follow at once; 1 takes the likeliest piece each time."""
    n_best: Annotated[int, Parameter(validator=BEAM)] = 1
    """How many translations of each text to show, best first."""
    length_penalty: Annotated[float, Parameter(validator=LENGTH_PENALTY)] = 1.0
    """Above 1 favours long translations, below 1 short ones."""
    max_length: Annotated[int | None, Parameter(validator=LENGTH)] = None
    """Tokens after which a translation is cut off; as many as the model takes when not given."""
    sample: bool = False
    """Draw translations at random instead of searching for the likeliest."""
    temperature: Annotated[float, Parameter(validator=TEMPERATURE)] = 1.0
    """With --sample: below 1 likely pieces become likelier, above 1 all become more alike."""
    top_k: Annotated[int | None, Parameter(validator=COUNT)] = None
    """With --sample: draw among this many likeliest pieces only."""
    top_p: Annotated[float, Parameter(validator=SHARE_ABOVE_ZERO)] = 1.0
    """With --sample: draw among the likeliest pieces that together reach this probability."""
    seed: Annotated[int, Parameter(validator=SEED)] = 0
    """With --sample: the same seed draws the same translations."""

    def settings(self) -> dict[str, Any]:
        """Return the fields of `DecodeSettings`."""
        method = "sample" if self.sample else "greedy" if self.beam == 1 else "beam"
        found: dict[str, Any] = {
            "method": method,
            "beam_size": self.beam,
            "num_hypotheses": self.n_best,
            "length_penalty": self.length_penalty,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "seed": self.seed,
        }
        return found if self.max_length is None else found | {"max_length": self.max_length}


def translate(
    model: str,
    source: InputSource = "-",
    /,
    *,
    search: SearchOptions | None = None,
    where: DeviceOptions | None = None,
    alignment: bool = False,
    chunk: Annotated[int, Parameter(validator=LENGTH)] = 1024,
    json: bool = False,
) -> None:
    """Translate texts, one per line of input, in order.

    Args:
        model: Folder of a translator.
        source: File of texts, one per line or JSON objects with "text"; - is stdin.
        alignment: With --json: print where the decoder looked when it wrote each piece.
        chunk: Lines to read and sort by length together; fewer answer sooner, more are faster.
        json: Print objects with "text", "score", "finished", "truncated" and "tokens".
    """
    if alignment and not json:
        raise UserError("--alignment is printed only with --json; add it")
    from glassbert.inference.loading import load
    from glassbert.inference.translator import Translator, length_warnings

    search = search or SearchOptions()
    texts = input_texts(source)  # before the model, which takes seconds
    translator = load(model, Translator, **place_of(where))
    settings = translator.usual_settings(**search.settings())
    num_texts = num_truncated = num_unfinished = 0
    for found in translator.stream(texts, settings, with_alignment=alignment, chunk_size=chunk):
        _print(found, json)
        num_texts += 1
        num_truncated += found.truncated
        num_unfinished += not found.finished
    for line in length_warnings(num_texts, num_truncated, num_unfinished, translator, settings):
        remark(line)


def _print(found: "Translation", json: bool) -> None:
    if json:
        print_json(found.to_json())
    elif len(found.n_best) == 1:
        print(_one_line(found.text))
    else:
        for number, alternative in enumerate(found.n_best, start=1):
            print(f"{number}\t{alternative.score:.4f}\t{_one_line(alternative.text)}")


def _one_line(text: str) -> str:
    """Print one line for each line of input, whatever the model wrote; --json shows it unchanged."""
    return " ".join(text.splitlines())

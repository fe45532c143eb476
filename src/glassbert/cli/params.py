"""`params`: where every parameter is, and what a pass costs."""

from typing import Annotated

from cyclopts import Parameter

from glassbert.cli.output import print_json
from glassbert.cli.params_tables import show
from glassbert.glassbox.accounting import params as count_params
from glassbert.glassbox.accounting_json import accounting_json
from glassbert.ranges import LENGTH
from glassbert.sentence import Language


def params(
    source: Annotated[str, Parameter(name="CONFIG_OR_PRESET_OR_MODEL")],
    /,
    *,
    length: Annotated[list[int] | None, Parameter(validator=LENGTH)] = None,
    all: bool = False,
    lang: Language = "en",
    json: bool = False,
) -> None:
    """Count every parameter, layer by layer, and what a pass costs.

    Args:
        source: Preset (bert-base, large-zh, transformer-base, lstm-small, ...), config.json, or model folder,
            which is verified against its weights.
        length: Tokens of a sequence, for operations and activation memory; may be given more than once. Not
            for translators.
        all: Show every block, not one for all.
        lang: Language of the notes.
        json: Print one object with "total", "groups" and "includes", all rows included.
    """
    accounting = count_params(source, language=lang)
    costs = [accounting.cost(tokens) for tokens in length or accounting.usual_lengths]
    if json:
        print_json(accounting_json(accounting, costs))
    else:
        show(accounting, costs, every_block=all, language=lang)

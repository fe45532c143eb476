"""`params`: where every parameter is, and what a pass costs."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

from cyclopts import Parameter

from glassbert.cli.output import print_json
from glassbert.cli.params_tables import show
from glassbert.glassbox.accounting import Accounting, Group
from glassbert.glassbox.accounting import params as count_params
from glassbert.glassbox.accounting_notes import Language
from glassbert.glassbox.cost import Cost
from glassbert.glassbox.formula import Formula
from glassbert.ranges import LENGTH


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
        print_json(_as_json(accounting, costs))
    else:
        show(accounting, costs, every_block=all, language=lang)


def _as_json(accounting: Accounting, costs: Sequence[Cost]) -> dict[str, Any]:
    return {
        "source": accounting.source,
        "total": accounting.total,
        "includes": accounting.includes,
        "totals": dict(accounting.totals),
        "symbols": dict(accounting.symbols),
        "groups": [_group_as_json(group) for group in accounting.groups],
        "uncounted": [_group_as_json(group) for group in accounting.uncounted],
        "weight_bytes": asdict(accounting.memory),
        "costs": [_cost_as_json(cost) for cost in costs],
        "notes": accounting.notes,
    }


def _group_as_json(group: Group) -> dict[str, Any]:
    return {
        "name": group.name,
        "count": group.count,
        "share": group.share,
        "bytes": group.bytes,
        "subtotals": group.subtotals,
        "rows": [
            {
                "name": row.name,
                "part": row.part,
                "shape": row.shape,
                "formula": row.formula,
                "symbols": row.symbols,
                "count": row.count,
                "share": row.share,
                "bytes": row.bytes,
                "tensors": [{"name": name, "shape": shape} for name, shape in row.tensors],
            }
            for row in group.rows
        ],
    }


def _cost_as_json(cost: Cost) -> dict[str, Any]:
    formulas = {name: value for name, value in vars(cost).items() if isinstance(value, Formula)}
    return {
        "length": cost.length,
        "forward_flops_per_token": cost.forward_flops_per_token,
        "training_flops_per_token": cost.training_flops_per_token,
        "inference_bytes_per_token": cost.inference_bytes_per_token,
        "training_bytes_per_token": cost.training_bytes_per_token,
        "parts": {
            name: {"formula": value.symbolic, "value": value.value} for name, value in formulas.items()
        },
    }

"""Python that computes a number of the page again: what *copy as Python* gives."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_PASS = """\
import torch

import glassbert as gb
from glassbert.data.random import Draw, uniform
from glassbert.model.layout import Batch

model = gb.load({source!r})
ids = {ids}
segments = {segments}
"""


def of_hidden_token(
    source: str,
    given: tuple[Sequence[int], Sequence[int]],
    place: int,
    label: int,
    keys: tuple[int, int, int, int] | None = None,
) -> str:
    """Return a script that prints the two rolls of a token, if its keys are given, and the loss there.

    Args:
        given: The ids and segments that the model reads.
        keys: Seed, epoch, example and the position whose dice count.
    """
    lines = [_PASS.format(source=source, ids=list(given[0]), segments=list(given[1]))]
    if keys is not None:
        seed, *others = keys
        place_of_dice = ", ".join(map(str, others))
        lines += [
            f"print(uniform({seed}, Draw.CHOICE, {place_of_dice}).item())",
            f"print(uniform({seed}, Draw.FATE, {place_of_dice}).item())",
        ]
    lines += [
        "with torch.inference_mode():",
        "    output = model.network(Batch.from_lists([ids], [segments]), "
        f"predict_at=torch.tensor([{place}]))",
        "logits = output.mlm[0].double()",
        f"print((logits.logsumexp(0) - logits[{label}]).item())",
    ]
    return "\n".join(lines) + "\n"


def of_pair(
    source: str, given: tuple[Sequence[int], Sequence[int]], label: int, keys: tuple[int, int, int]
) -> str:
    """Return a script that prints the coin of a pair and the loss of the model's verdict.

    Args:
        keys: Seed, epoch and the first sentence of the pair.
    """
    seed, epoch, first = keys
    return _PASS.format(source=source, ids=list(given[0]), segments=list(given[1])) + "\n".join(
        [
            f"print(uniform({seed}, Draw.FLIP, {epoch}, {first}).item())",
            "with torch.inference_mode():",
            "    logits = model.network(Batch.from_lists([ids], [segments])).nsp[0].double()",
            f"print((logits.logsumexp(0) - logits[{label}]).item())\n",
        ]
    )


def of_decoder_row(source: str, ids: Sequence[int], prefix: Sequence[int], wanted: int) -> str:
    """Return a script that prints how far both ways differ behind a prefix, and how likely a token is."""
    return f"""\
import torch

import glassbert as gb
from glassbert.model.layout import Batch

network = gb.load({source!r}).network
source, prefix = Batch.from_lists([{list(ids)}]), {list(prefix)}
with torch.inference_mode():
    at_once = network.output(network(source, Batch.from_lists([prefix])))[-1]
    state = network.start(source)
    for token in prefix:
        hidden = network.step(state, torch.tensor([[token]]))
    in_steps = network.output(hidden)[0]
print((at_once - in_steps).abs().max().item())
print(in_steps.double().softmax(0)[{wanted}].item())
"""


def of_search(source: str, text: str, beam_size: int) -> str:
    """Return a script that prints the scores of a beam search, best first."""
    return f"""\
import glassbert as gb

model = gb.load({source!r})
settings = model.usual_settings(beam_size={beam_size}, num_hypotheses={beam_size})
for found in model.translate([{text!r}], settings)[0].n_best:
    print(found.score)
"""


def of_movement(before: Path, after: Path, name: str) -> str:
    """Return a script that prints how far a tensor moved, relative to its size, and by how much at most."""
    return f"""\
from safetensors.torch import load_file

before = load_file({str(before / "model.safetensors")!r})[{name!r}].double()
after = load_file({str(after / "model.safetensors")!r})[{name!r}].double()
print(((after - before).norm() / before.norm()).item())
print((after - before).abs().max().item())
"""


def of_log(log: Path) -> str:
    """Return a script that prints the step and the losses of the last line of a log that has any."""
    return f"""\
import json
from pathlib import Path

rows = [json.loads(line) for line in Path({str(log)!r}).read_text().splitlines()]
last = [row for row in rows if "evaluation" not in row][-1]
print(last["step"], last["learning_rate"], last["grad_norm"])
"""


def of_reasons(source: str, item: Any, method: str, target: str | None) -> str:
    """Return a script that prints the value of each part of an explanation."""
    asked = f"{item!r}, method={method!r}" + (f", target={target!r}" if target else "")
    return f"""\
import glassbert as gb

for part in gb.load({source!r}).why({asked}).parts:
    print(part.value)
"""


def of_accounting(source: str, changes: Mapping[str, int], lengths: Sequence[int]) -> str:
    """Return a script that prints the number of parameters, and operations and memory at each length."""
    found = f"gb.params({source!r})"
    imports = "import glassbert as gb"
    if changes:
        changed = ", ".join(f"{name}={value}" for name, value in changes.items())
        imports = f"from dataclasses import replace\n\n{imports}\n"
        imports += "from glassbert.glassbox.accounting import params_of_shape"
        found = f"params_of_shape(replace({found}.config, {changed}))"
    lines = [imports, "", f"found = {found}", "print(found.total)"]
    if lengths:
        lines += [
            f"for length in {list(lengths)}:",
            "    cost = found.cost(length)",
            "    print(cost.forward_flops_per_token, length * cost.training_bytes_per_token)",
        ]
    return "\n".join(lines) + "\n"


def of_experiment(name: str, settings: Mapping[str, Any]) -> str:
    """Return a script that runs an experiment and prints its tables."""
    given = "".join(f", {key}={value!r}" for key, value in settings.items())
    return f"""\
import glassbert as gb

for table in gb.lab({name!r}{given}).tables:
    for row in table.rows:
        print(*row)
"""


def of_health(source: str, data: Path | None) -> str:
    """Return a script that prints the doctor's verdicts."""
    given = repr(source) if data is None else f"{source!r}, {str(data)!r}"
    return f"""\
import glassbert as gb

for one in gb.doctor({given}).verdicts:
    print(one.state, one.check, one.finding)
"""

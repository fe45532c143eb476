"""`doctor`: what is wrong with a model."""

from pathlib import Path

from glassbert.cli.device import DeviceOptions, place_of
from glassbert.cli.output import print_json
from glassbert.errors import GateError


def doctor(
    model: str,
    /,
    *,
    data: Path | None = None,
    base: str | None = None,
    strict: bool = False,
    where: DeviceOptions | None = None,
    json: bool = False,
) -> None:
    """Examine a model before you blame the data: one line per check, ok, warn or fault.

    A folder that is too damaged to load gets the verdicts that its files allow.

    Args:
        model: Model folder, folder of a run, or a translator.
        data: File of rows of the model's task, labelled or not; for a model without a task, of text.
        base: The model that it was trained from, to see what moved.
        strict: End with exit code 5 if there is a fault.
        json: Print one object with "faults", "warnings" and "verdicts".
    """
    from glassbert.glassbox.doctor.examine import doctor as examine
    from glassbert.glassbox.doctor.verdict import counted

    found = examine(model, data, base, **place_of(where))
    if json:
        print_json(found.to_json())
    else:
        print(found)
    if strict and found.faults:
        checks = ", ".join(dict.fromkeys(one.check for one in found.faults))
        raise GateError(f"{counted(found.faults, 'fault')}: {checks}")

"""The options of every verb that runs a model: where to run it, and in which precision."""

from dataclasses import dataclass

from cyclopts import Parameter

from glassbert.inference.devices import Device, Place, PrecisionName


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """Where a model runs."""

    device: Device = "auto"
    """Where to run the model; auto takes a GPU if there is one."""
    precision: PrecisionName = "float32"
    """How to compute; bfloat16 takes half the memory and is less exact; int8 (CPU only) is the fastest."""


def place_of(options: DeviceOptions | None) -> Place:
    """Return the options as `load` takes them."""
    options = options or DeviceOptions()
    return {"device": options.device, "precision": options.precision}

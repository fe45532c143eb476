"""Where a model runs and in which precision: their names, known without torch."""

from typing import Literal, TypedDict

Device = Literal["auto", "cpu", "cuda"]
PrecisionName = Literal["float32", "bfloat16", "int8"]


class Place(TypedDict):
    """Where a model runs, as `load` and the engines take it."""

    device: Device
    precision: PrecisionName

"""Predictions of a network that is not in a model folder."""

from collections.abc import Sequence

from glassbert.data.examples import E
from glassbert.tasks.forward import Network, decoded, raw_outputs
from glassbert.tasks.task import P, Task


def predictions(task: Task[E, P], network: Network, examples: Sequence[E]) -> list[P]:
    """Return the prediction for each example, in order."""
    inputs = task.inputs(examples, with_targets=False)
    return decoded(task, examples, inputs, raw_outputs(task, network, inputs))

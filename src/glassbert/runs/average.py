"""The average of a run's last checkpoints, which is often better than the last of them alone."""

from collections.abc import Sequence
from pathlib import Path

import torch

from glassbert.errors import ModelError
from glassbert.interop.folder import TranslatorFolder, write_model
from glassbert.interop.folder import TranslatorNetwork as Network
from glassbert.runs.run import Session
from glassbert.storage import new_folder, read_json
from glassbert.tasks.translation import Translate
from glassbert.training.checkpoint import checkpoints, step_of


def average_checkpoints(
    trainable: Translate, session: Session, *, count: int, save_every: int, best: float | None
) -> None:
    """Write the average of the last checkpoints, if there are several; also as best if it is the best on dev.

    Args:
        count: Number of checkpoints to average.
        best: BLEU of the best weights so far; None when nothing was measured.
    """
    out = session.out
    *before, last = checkpoints(out)
    # Checkpoints that a stop left behind do not count: the run ends with the same bits with or without stops.
    # Nor do they displace others: `keep` has room for one more, and each session forgets earlier stops.
    regular = [folder for folder in before if step_of(folder) % save_every == 0]
    folders = [*regular, last][-count:]
    if len(folders) < 2:
        return  # the model of one checkpoint has been measured already
    names = [folder.name for folder in folders]
    done = out / "averaged"
    if done.is_dir() and read_json(done / "run.json").get("average_of") == names:
        return
    network = average_networks(folders)
    averaged = Translate(network, trainable.tokenizer, trainable.objective, held_out=trainable.held_out)
    averaged.module.eval()
    with torch.no_grad():
        metrics = averaged.evaluate()
    session.log(f"average of {', '.join(names)}: {averaged.verdict(metrics)}")
    is_best = best is None or metrics.get("bleu", 0.0) > best
    # This folder last: it shows that everything is done.
    for path in ([out / "best"] if is_best else []) + [done]:
        with new_folder(path, overwrite=True) as folder:
            run = {**session.about, "average_of": names}
            write_model(network, trainable.tokenizer, folder, run=run)


@torch.no_grad()
def average_networks(folders: Sequence[Path]) -> Network:
    """Return a network whose weights are the means of those in ``folders``."""
    networks = [TranslatorFolder.open(folder).build()[0] for folder in folders]
    if any(network.config != networks[0].config for network in networks):
        raise ModelError(f"{folders[0].parent}: models of different shapes cannot be averaged")
    for parameters in zip(*(network.parameters() for network in networks), strict=True):
        parameters[0].copy_(torch.stack([parameter.double() for parameter in parameters]).mean(dim=0))
    return networks[0]

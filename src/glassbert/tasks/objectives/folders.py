"""The networks of an objective on disk: each model a folder of its own, all other weights in one file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from glassbert.errors import ModelError
from glassbert.interop.companions import MODELS, OBJECTIVE_WEIGHTS
from glassbert.interop.folder import EncoderFolder, write_model
from glassbert.interop.safetensors_file import SafetensorsFile
from glassbert.interop.weights import save_tensors
from glassbert.model.bert import Bert
from glassbert.model.init import materialised
from glassbert.tasks.objectives.objective import Objective
from glassbert.tasks.objectives.parts import PretrainNetwork
from glassbert.text.wordpiece.tokenizer import Tokenizer


def save_network(
    network: PretrainNetwork,
    weights: Mapping[str, Tensor],
    tokenizer: Tokenizer,
    folder: Path,
    run: Mapping[str, Any],
) -> None:
    """Write ``weights``, named as the network's: `bert` into ``folder``, other models into folders below."""
    rest, models = network.saved(weights), network.models()
    further = [name for name in models if name != "bert"]
    for name, model in models.items():
        prefix = f"{name}."
        own = {key.removeprefix(prefix): rest.pop(key) for key in list(rest) if key.startswith(prefix)}
        saved = materialised(Bert, model.config, state=own)
        _model_folder(folder, name).mkdir(exist_ok=True)
        is_kept = name == "bert" and further
        about = {**run, MODELS: further} if is_kept else run
        write_model(saved, tokenizer, _model_folder(folder, name), run=about)
    if rest:
        save_tensors(rest, folder / OBJECTIVE_WEIGHTS)


def read_network(network: PretrainNetwork, folder: Path) -> dict[str, Tensor]:
    """Return the weights that `save_network` wrote, named as the network's."""
    models = {name: EncoderFolder.open(_model_folder(folder, name)).build()[0] for name in network.models()}
    weights: dict[str, Tensor] = dict(nn.ModuleDict(models).named_parameters())
    if (folder / OBJECTIVE_WEIGHTS).is_file():
        weights |= SafetensorsFile(folder / OBJECTIVE_WEIGHTS)
    return network.loaded(weights)


def saved_network(objective: Objective, bert: Bert, folder: Path | None) -> PretrainNetwork:
    """Return the network of a saved model, ready to be measured.

    Args:
        bert: The model, already read from ``folder``.
        folder: Where the objective's own weights are, if it has any.
    """
    for head in (head for part in objective.parts for head in part.heads):
        if getattr(bert, head) is None:
            raise ModelError(
                f"a model with a {bert.config.head!r} head has no {head.upper()} head, which objective "
                f"{objective.settings.name} needs; measure a model that was trained for it"
            )
    network = objective.network(bert, seed=0)
    added = {name: p for name, p in network.named_parameters() if not name.startswith("bert.")}
    if added:
        if folder is None:
            raise ModelError(
                f"objective {objective.settings.name} has weights beside those of the model; save the model "
                "and load its folder"
            )
        weights = read_network(network, folder)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                parameter.copy_(weights[name])
    return network.eval()


def _model_folder(folder: Path, name: str) -> Path:
    return folder if name == "bert" else folder / name

"""Numbers that must be on screen, in float64 NumPy from the files of a model folder alone."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file

import glassbert as gb
from glassbert.model_names import model_folder
from glassbert.storage import read_json
from helpers import numpy_networks
from helpers.browsing import scale_of_shares

Array = NDArray[np.float64]


def weights_of(folder: Path) -> dict[str, Array]:
    """Return the weights of a folder by their names in the file."""
    return {name: one.astype(np.float64) for name, one in load_file(folder / "model.safetensors").items()}


def pieces_of(folder: Path) -> list[str]:
    """Return the vocabulary of a folder."""
    return (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()


def exact_pass(
    text: str, right: str | None = None, weights: dict[str, Array] | None = None
) -> dict[str, Array]:
    """Return every number of the built-in model's pass over a text with one [MASK].

    Args:
        right: The piece that is right there; any will do where the loss is not looked at.
        weights: Other weights than those of the model.
    """
    pieces = pieces_of(model_folder("demo"))
    ids = exact_ids(text)
    label = pieces.index(right) if right else 0
    return exact_pass_of_ids(ids, ids.index(pieces.index("[MASK]")), label, weights)


def exact_ids(text: str) -> list[int]:
    """Return the ids that the built-in model reads."""
    pieces = pieces_of(model_folder("demo"))
    return [pieces.index(token) for token in gb.load("demo").trace(text).tokens]


def exact_row(exact: dict[str, Array], name: str, token: int) -> Array:
    """Return the numbers of one token after a step, as Flow shows them: those of attention head by head."""
    if name.endswith(".probs"):
        return exact[name][0, :, token].flatten()
    # What an output head says of the text, or of its one [MASK], is its only row.
    return exact[name][0 if name.startswith("head.") else token]


def scale_of(exact: dict[str, Array], name: str, numbers: Array) -> Array:
    """Return how large the numbers are that those of a step are sums of, for `misprints`."""
    if name.endswith(".probs"):
        return scale_of_shares(numbers, exact[name.replace(".probs", ".scores")])
    return np.full(numbers.shape, np.abs(numbers[np.isfinite(numbers)]).max())


def exact_pass_of_ids(
    ids: Sequence[int], place: int, label: int = 0, weights: dict[str, Array] | None = None
) -> dict[str, Array]:
    """Return every number of the built-in model's pass over ids; the token at ``place`` is predicted."""
    folder = model_folder("demo")
    config = read_json(folder / "config.json")
    found: dict[str, Array] = numpy_networks.bert(
        weights or weights_of(folder), config, ids, [0] * len(ids), [place], [label], 0
    )
    return found


def exact_encoder(folder: Path, ids: Sequence[int]) -> dict[str, Array]:
    """Return every number of the encoder of any BERT folder, whatever heads it has."""
    weights = {
        name if name.startswith("bert.") else f"bert.{name}": one for name, one in weights_of(folder).items()
    }
    show = numpy_networks.Shown()
    numpy_networks.bert_encoder(show, weights, read_json(folder / "config.json"), ids, [0] * len(ids))
    return show.values


def exact_translator(folder: Path, source: Sequence[int], target: Sequence[int]) -> dict[str, Array]:
    """Return every number of a translator that reads a text and the translation so far."""
    network = gb.load(folder, gb.Translator).network
    config = network.config
    found: dict[str, Array] = numpy_networks.transformer(
        {name: value.detach().double().numpy() for name, value in network.named_parameters()},
        num_blocks=(config.encoder.num_hidden_layers, config.num_decoder_layers),
        num_heads=config.encoder.num_attention_heads,
        eps=config.encoder.layer_norm_eps,
        source=source,
        target=target,
        labels=[0] * len(target),
    )
    return found


def exact_loss(folder: Path, tokens: Sequence[str], label: int) -> float:
    """Return the loss of a small classifier for a text in pieces."""
    pieces = pieces_of(folder)
    ids = [pieces.index(token) for token in tokens]
    config = read_json(folder / "config.json")
    found = numpy_networks.bert_classifier(weights_of(folder), config, ids, [0] * len(ids), label)
    return float(found["loss"])

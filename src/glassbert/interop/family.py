"""What a family of models defines: how its config.json and its tensors are named, and its network.

Importing a family does not import torch: the names and the config alone are enough to count parameters.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from glassbert.config import LstmConfig, ModelConfig, TransformerConfig

if TYPE_CHECKING:
    from torch import Tensor

    from glassbert.model.init import Network

Config = ModelConfig | TransformerConfig | LstmConfig
C = TypeVar("C", ModelConfig, TransformerConfig, TransformerConfig | LstmConfig)


@dataclass(frozen=True)
class NamedTensors:
    """The tensors of a weight file under our names."""

    state: "Mapping[str, Tensor]"
    """Read when they are asked for."""
    unknown: tuple[str, ...] = ()
    """Names in the file of tensors that this family does not have."""
    notes: tuple[str, ...] = ()
    """For the user."""


class Family(Protocol[C]):
    """A family of models: one format of model folders."""

    name: str
    """What messages call a model of it, with the article."""
    is_translator: bool
    may_hold_more: bool
    """Whether files may hold tensors that the network does not use: they are reported, not refused."""

    def describes(self, data: Mapping[str, Any]) -> bool:
        """Return whether ``data``, the content of a config.json, is of this family."""

    def holds(self, config: Config) -> bool:
        """Return whether a folder of this family can hold a network of this config."""

    def read_config(
        self, data: Mapping[str, Any], source: str, tensor_names: Iterable[str] = ()
    ) -> tuple[C, tuple[str, ...]]:
        """Return our config, and notes for the user.

        Args:
            source: The file's name, for messages.
            tensor_names: Names in the weight file: they say what config.json leaves open.
        """

    def write_config(self, config: C, dtype: str) -> dict[str, Any]:
        """Return the content of config.json."""

    def network_class(self, config: C) -> "type[Network]":
        """Return the class that is built with ``config``."""

    def to_theirs(self, name: str) -> str:
        """Return the file's name of our tensor."""

    def to_ours(self, name: str) -> str | None:
        """Return our name of a tensor in a file; None for one that the family does not have.

        Two names may mean one tensor.
        """

    def is_buffer(self, name: str) -> bool:
        """Return whether a tensor of a file is not a weight."""

    def from_file(self, tensors: "Mapping[str, Tensor]", config: C) -> NamedTensors:
        """Return the tensors of a file as our network has them; two copies of one must agree."""

    def to_file(self, state: "Mapping[str, Tensor]", config: C) -> "dict[str, Tensor]":
        """Return our tensors, without those that are tied, as a file has them."""

"""The vocabulary as a map: each piece where the two main directions of its vector put it, and its neighbours.

Legend: V pieces, D hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from glassbert.errors import UserError
from glassbert.glassbox.why.nearest import nearest_rows
from glassbert.inference.model import Model
from glassbert.inference.translator import Translator
from glassbert.sentence import Sentence
from glassbert.text.vocabulary import is_reserved

TOP = 20


@dataclass(frozen=True)
class Words:
    """The token vectors of a model."""

    source: str
    """What `glassbert.load` takes, for code that computes the numbers again."""
    pieces: tuple[str, ...]
    vectors: NDArray[np.float32]
    """(V, D)."""
    parameter: str
    """Where the vectors are in the network."""

    @classmethod
    def of(cls, model: Model | Translator, source: str) -> "Words":
        """Take the vectors of a model, in the order of its vocabulary."""
        if isinstance(model, Model):
            pieces, name = model.tokenizer.vocabulary.pieces, "encoder.embeddings.token.weight"
        else:
            pieces, name = model.tokenizer.pieces, "embeddings.token.weight"
        table = dict(model.network.named_parameters()).get(name)
        if table is None:
            raise UserError(
                Sentence("this kind of translator has no one table of token vectors; open a Transformer")
            )
        return cls(source, tuple(pieces), table.detach().float().cpu().numpy()[: len(pieces)], name)

    @cached_property
    def shown(self) -> NDArray[np.int32]:
        """The ids of the pieces on the map: specials and free rows have no place in it."""
        return np.array([number for number, one in enumerate(self.pieces) if not is_reserved(one)], np.int32)

    @cached_property
    def _projected(self) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """Return the places, (V, 2), and the share of the variance that each direction has."""
        vectors = self.vectors[self.shown].astype(np.float64)
        if not np.isfinite(vectors).all():
            raise UserError(Sentence("some token vectors are not numbers: a map cannot be drawn; see Health"))
        vectors -= vectors.mean(axis=0)
        sizes, directions = np.linalg.eigh(vectors.T @ vectors)
        main = directions[:, ::-1][:, :2]
        # A direction has no sign of its own: its largest component is made positive, to compare maps.
        main *= np.sign(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])])
        return (vectors @ main).astype(np.float32), sizes[::-1][:2] / max(sizes.sum(), 1e-300)

    def to_json(self) -> dict[str, Any]:
        """Return the pieces and how much of the vectors a map of two directions can show."""
        return {
            "pieces": self.pieces,
            "explained": self._projected[1].tolist(),
            "features": self.vectors.shape[1],
        }

    def map(self) -> bytes:
        """Return ids and places of the pieces as a safetensors file."""
        return save({"ids": self.shown, "places": self._projected[0]})

    def near(self, number: int) -> dict[str, Any]:
        """Return the pieces whose vectors point most in the direction of that of piece ``number``."""
        if not 0 <= number < len(self.pieces):
            raise UserError(f"piece {number}: the vocabulary has {len(self.pieces):,}, numbered from 0")
        ids, cosines = nearest_rows(self.vectors, self.pieces, self.vectors[number], TOP + 1)
        others = [(one, score) for one, score in zip(ids, cosines, strict=True) if one != number][:TOP]
        return {
            "id": number,
            "token": self.pieces[number],
            "neighbours": [{"id": one, "token": self.pieces[one], "score": score} for one, score in others],
            "python": self._python(number, [one for one, _ in others[:1]]),
        }

    def _python(self, number: int, nearest: Sequence[int]) -> str:
        """Return code that prints the cosine of a piece and its nearest one."""
        return "\n".join(
            [
                "import numpy as np",
                "import glassbert as gb",
                "",
                f"network = gb.load({self.source!r}).network",
                f"table = dict(network.named_parameters())[{self.parameter!r}].detach().double().numpy()",
                f"a, b = table[{number}], table[{nearest[0] if nearest else number}]  "
                f"# {self.pieces[number]!r} and its nearest",
                "print(a @ b / np.linalg.norm(a) / np.linalg.norm(b))",
                "",
            ]
        )

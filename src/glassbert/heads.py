"""One table of the heads that BERT may carry, and of the layers they are made of.

Names of files, accounting, checks and the network itself follow from it. To add a head from parts that exist,
add a row to `HEADS`; for a new part, add a row to `PARTS`, its module to `model/heads.py` and its output to
`model/bert.py`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

Head = Literal["none", "pretraining", "mlm", "nsp", "classify", "tag", "answer"]
Part = Literal["pooler", "mlm", "nsp", "labels", "span"]
Reads = Literal["pooled", "places", "tokens"]


@dataclass(frozen=True)
class Layer:
    """One layer of a part."""

    name: str
    """Of the module in our network."""
    file_name: str
    """Of the module in the files of `transformers`."""
    outputs: str | None
    """Letter or number of its outputs, as in the tables of parameters; None for a LayerNorm."""
    is_tied: bool = False
    """Whether its matrix is the token embedding's, where the config ties them."""


PARTS: dict[Part, tuple[Layer, ...]] = {
    "pooler": (Layer("pooler.dense", "bert.pooler.dense", "D"),),
    "mlm": (
        Layer("mlm.dense", "cls.predictions.transform.dense", "D"),
        Layer("mlm.norm", "cls.predictions.transform.LayerNorm", None),
        Layer("mlm.decoder", "cls.predictions.decoder", "V", is_tied=True),
    ),
    "nsp": (Layer("nsp", "cls.seq_relationship", "2"),),
    "labels": (Layer("labels.dense", "classifier", "C"),),
    "span": (Layer("span", "qa_outputs", "2"),),
}
"""What may sit on the encoder, in the order of the tables of parameters."""


@dataclass(frozen=True)
class HeadKind:
    """What a head is made of."""

    architecture: str
    """The class of `transformers` that computes the same."""
    reads: Mapping[Part, Reads] = field(default_factory=dict)
    """What each part reads: the pooled [CLS] vector, the places asked for, or every token."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the head; the pooler, which it may need, is not among them."""
        return tuple(self.reads)

    @property
    def needs_pooler(self) -> bool:
        """Whether a part reads the pooled [CLS] vector."""
        return "pooled" in self.reads.values()

    @property
    def reads_every_token(self) -> bool:
        """Whether the last block has to compute every token."""
        return "tokens" in self.reads.values()

    @property
    def has_labels(self) -> bool:
        """Whether the outputs are named by the config's labels."""
        return "labels" in self.reads


HEADS: dict[Head, HeadKind] = {
    "none": HeadKind("BertModel"),
    "pretraining": HeadKind("BertForPreTraining", {"mlm": "places", "nsp": "pooled"}),
    "mlm": HeadKind("BertForMaskedLM", {"mlm": "places"}),
    "nsp": HeadKind("BertForNextSentencePrediction", {"nsp": "pooled"}),
    "classify": HeadKind("BertForSequenceClassification", {"labels": "pooled"}),
    "tag": HeadKind("BertForTokenClassification", {"labels": "tokens"}),
    "answer": HeadKind("BertForQuestionAnswering", {"span": "tokens"}),
}
HEAD_OF_ARCHITECTURE: dict[str, Head] = {kind.architecture: head for head, kind in HEADS.items()}


def head_of_parts(parts: Collection[str]) -> Head:
    """Return the head whose parts a weight file holds: the largest, and one that fits its pooler."""

    def fit(head: Head) -> tuple[int, bool]:
        return len(HEADS[head].parts), HEADS[head].needs_pooler == ("pooler" in parts)

    return max((head for head, kind in HEADS.items() if set(kind.parts) <= set(parts)), key=fit)

from pathlib import Path
from typing import get_args

import pytest
import torch
import transformers

from glassbert.config import ModelConfig, preset
from glassbert.errors import UserError
from glassbert.glassbox.accounting import params
from glassbert.heads import HEAD_OF_ARCHITECTURE, HEADS, PARTS, Head, HeadKind, Part, head_of_parts
from glassbert.interop.bert_names import MODULES
from glassbert.interop.folder import EncoderFolder, write_network
from glassbert.model.bert import Bert
from glassbert.model.init import new_bert
from glassbert.model.layout import Batch

SHAPE = preset("tiny", vocab_size=50)


def config(head: Head) -> ModelConfig:
    kind = HEADS[head]
    return ModelConfig(
        encoder=SHAPE,
        head=head,
        has_pooler=kind.needs_pooler,
        labels=("a", "b", "c") if kind.has_labels else (),
    )


def test_the_table_has_a_row_for_every_head_and_part() -> None:
    assert tuple(HEADS) == get_args(Head)
    assert tuple(PARTS) == get_args(Part)
    assert len(HEAD_OF_ARCHITECTURE) == len(HEADS)


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_a_class_of_transformers(head: Head) -> None:
    assert hasattr(transformers, HEADS[head].architecture)


@pytest.mark.parametrize("head", HEADS)
def test_a_network_has_the_layers_that_the_table_names_and_no_others(head: Head) -> None:
    network = new_bert(config(head), seed=0)
    modules = {name.rpartition(".")[0] for name in network.state_dict() if not name.startswith("encoder.")}
    expected = {layer.name for part in network.config.parts for layer in PARTS[part]}
    assert modules == expected
    assert expected <= MODULES.keys()


@pytest.mark.parametrize("head", HEADS)
def test_a_network_gives_an_output_for_every_part(head: Head) -> None:
    network: Bert = new_bert(config(head), seed=0).eval()
    output = network(Batch.from_lists([[1, 2, 3]]), predict_at=torch.tensor([1]))
    given = {part for part in get_args(Part) if part != "pooler" and getattr(output, part) is not None}
    assert given == set(HEADS[head].parts)


@pytest.mark.parametrize("head", [head for head in HEADS if HEADS[head].needs_pooler])
def test_a_head_that_reads_the_pooled_vector_needs_a_pooler(head: Head) -> None:
    with pytest.raises(UserError, match="reads the pooled"):
        ModelConfig(encoder=SHAPE, head=head, has_pooler=False, labels=config(head).labels)


@pytest.mark.parametrize("head", HEADS)
def test_the_parts_in_a_file_reveal_the_head(head: Head) -> None:
    assert head_of_parts(config(head).parts) == head
    if head not in ("classify", "tag"):  # these two differ in the pooler alone
        assert head_of_parts({*config(head).parts, "pooler"}) == head


def test_a_new_head_of_known_parts_needs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = HeadKind("BertForFillingAndTagging", {"mlm": "places", "labels": "tokens"})
    monkeypatch.setitem(HEADS, "both", kind)  # type: ignore[misc]
    monkeypatch.setitem(HEAD_OF_ARCHITECTURE, kind.architecture, "both")
    network = new_bert(config("both"), seed=0).eval()  # type: ignore[arg-type]
    write_network(network, tmp_path)
    again, report = EncoderFolder.open(tmp_path).build()
    assert (again.config, report.new, report.unexpected) == (network.config, (), ())
    batch = Batch.from_lists([[1, 2, 3]])
    assert torch.equal(again(batch).labels, network(batch).labels)
    assert network(batch).labels.shape == (3, 3)
    accounting = params(tmp_path)
    assert accounting.includes == ("embeddings", "encoder", "mlm", "labels")
    assert accounting.total == sum(parameter.numel() for parameter in network.parameters())
